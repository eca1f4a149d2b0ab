// Input that cannot be used is a clear error and leaves the model as it was.
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/nn/tracer.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/arena.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using testing::bitsOf;
using ::testing::HasSubstr;
using testing::Line;
using testing::makeInputs;
using testing::Mlp;

TEST(BadInput, NanAndInfPassThrough) {
  Mlp net;
  auto inference = inferenceModel(net, Options());
  std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  const HostTensor clean = inference.run(inputs)[0];
  inputs[0].set(0, std::numeric_limits<double>::quiet_NaN());
  inputs[0].set(6, std::numeric_limits<double>::infinity());
  const HostTensor logits = inference.run(inputs)[0];
  EXPECT_TRUE(std::isnan(logits.at(0)));
  for (std::int64_t i = 6; i < logits.shape().elements(); ++i) {
    EXPECT_EQ(logits.at(i), clean.at(i));  // rows do not mix
  }
  auto training = trainingModel(net, Options(), optim::AdamW(0.01));
  EXPECT_TRUE(std::isnan(training.run(inputs).back().at(0)));
  EXPECT_TRUE(std::isnan(net.fc1.weight.value().at(0)));
}

TEST(BadInput, AnEmptyBatchGivesEmptyResults) {
  Mlp net;
  auto model = inferenceModel(net, Options());
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, Shape{0, 6}),
                                          HostTensor(DType::I64, Shape{0})};
  EXPECT_EQ(model.run(inputs)[0].shape(), (Shape{0, 3}));
  EXPECT_EQ(model.run(makeInputs(Mlp::inputs(), 0, 1))[0].shape(), (Shape{8, 3}));
}

TEST(BadInput, ATrainingStepWithoutRowsIsAnErrorAndChangesNothing) {
  Mlp net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, Shape{0, 6}),
                                          HostTensor(DType::I64, Shape{0})};
  const HostTensor before = net.fc1.weight.value();
  EXPECT_THAT(messageOf([&] { model.run(inputs); }), HasSubstr("input 'input0' has no rows"));
  EXPECT_THAT(messageOf([&] { model.runAsync(inputs).get(); }), HasSubstr("has no rows"));
  EXPECT_THAT(messageOf([&] { model.compile(inputs); }), HasSubstr("has no rows"));
  model.run(makeInputs(Mlp::inputs(), 0, 1));
  const HostTensor trained = net.fc1.weight.value();
  EXPECT_FALSE(trained.sameBits(before));
  EXPECT_THAT(messageOf([&] { model.run(inputs); }), HasSubstr("has no rows"));
  EXPECT_TRUE(net.fc1.weight.value().sameBits(trained));
  EXPECT_EQ(model.updates(), 1);
}

TEST(BadInput, AbsurdSizesAreErrors) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  EXPECT_THROW(HostTensor(DType::F32, Shape({kHuge, kHuge})), InvalidArgument);
  struct Huge : nn::Module {
    nn::Linear fc{*this, "fc", std::int64_t{1} << 30, std::int64_t{1} << 22};
    nn::Tensor forward(nn::Tensor x) { return nn::mean(fc(x)); }
  };
  Huge net;
  auto model = inferenceModel(net, Options());
  EXPECT_THROW(model.compile(std::vector{HostTensor(DType::F32, Shape{0, 1 << 30})}), OutOfMemory);
  EXPECT_FALSE(model.isCompiled());
}

TEST(BadInput, ALabelOutOfRangeLeavesTheWeightsAsTheyWere) {
  for (const std::int64_t accumulation : {1, 2}) {
    Options options;
    options.training.gradientAccumulation(accumulation);
    const auto run = [&](bool withError) {
      Mlp net;
      auto model = trainingModel(net, options, optim::AdamW(0.01));
      model.run(makeInputs(Mlp::inputs(), 0, accumulation));
      if (withError) {
        std::vector<HostTensor> bad = makeInputs(Mlp::inputs(), 1, accumulation);
        bad[1].set(8 * accumulation - 1, 3);
        const testing::Bits before = bitsOf(model.session());
        EXPECT_THAT(messageOf<InvalidArgument>([&] { model.run(bad); }), HasSubstr("3"));
        const testing::Bits after = bitsOf(model.session());
        for (const auto& [name, hash] : before) {
          if (!name.ends_with(".accumulator")) {
            EXPECT_EQ(after.at(name), hash) << name;
          }
        }
        EXPECT_EQ(model.updates(), 1);
      }
      model.run(makeInputs(Mlp::inputs(), 2, accumulation));
      return bitsOf(model.session());
    };
    EXPECT_EQ(run(false), run(true)) << "accumulation " << accumulation;
  }
}

TEST(BadInput, AFailedTraceLeavesTheModelUsable) {
  Mlp net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const std::vector<HostTensor> bad = {HostTensor(DType::F32, Shape{8, 5}),
                                       HostTensor(DType::I64, Shape{8})};
  const std::string message = messageOf<InvalidArgument>([&] { model.run(bad); });
  EXPECT_THAT(message, HasSubstr("fc1"));
  EXPECT_FALSE(model.isCompiled());
  EXPECT_FALSE(nn::Tracer::active());
  EXPECT_EQ(model.run(makeInputs(Mlp::inputs(), 0, 1))[0].shape(), (Shape{8, 3}));
  EXPECT_THROW(model.run(bad), InvalidArgument);
  EXPECT_EQ(model.run(makeInputs(Mlp::inputs(), 0, 1))[0].shape(), (Shape{8, 3}));
  EXPECT_EQ(model.updates(), 2);
}

TEST(BadInput, ALossThatIsNoScalarIsAnError) {
  struct NoScalar : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
    nn::Tensor forward(nn::Tensor x) { return fc(x); }
  };
  NoScalar net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                model(HostTensor(DType::F32, Shape{4, 2}));
              }),
              HasSubstr("scalar"));
}

TEST(Memory, ABudgetOfExactlyThePlanWorks) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  std::size_t plan = 0;
  {
    Mlp net;
    auto model = trainingModel(net, Options(), optim::AdamW(0.01));
    model.compile(makeInputs(Mlp::inputs(), 0, 1));
    plan = model.program().devices[0].totalBytes();
  }
  Mlp exact;
  auto model = trainingModel(exact, Options().memoryPerDevice(plan), optim::AdamW(0.01));
  EXPECT_NO_THROW(model.run(makeInputs(Mlp::inputs(), 0, 1)));
  Mlp short1;
  auto tooSmall = trainingModel(short1, Options().memoryPerDevice(plan - 1), optim::AdamW(0.01));
  const std::string message =
      messageOf<OutOfMemory>([&] { tooSmall.run(makeInputs(Mlp::inputs(), 0, 1)); });
  EXPECT_THAT(message, HasSubstr(std::to_string(plan)));
  EXPECT_THAT(message, HasSubstr(std::to_string(plan - 1)));
  // The session is as it was: a smaller batch fits.
  EXPECT_TRUE(tooSmall.session().state().plan().variables().empty());
  const std::vector<HostTensor> half = {HostTensor(DType::F32, Shape{2, 6}),
                                        HostTensor(DType::I64, Shape{2})};
  EXPECT_NO_THROW(tooSmall.run(half));
}

TEST(Memory, TheBudgetHoldsForAllProgramsOfAModelTogether) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  Mlp net;
  const std::vector<HostTensor> many = {HostTensor(DType::F32, Shape{512, 6}),
                                        HostTensor(DType::I64, Shape{512})};
  std::size_t inferenceBytes = 0;
  {
    Mlp measured;
    auto model = inferenceModel(measured, Options());
    model.compile(many);
    inferenceBytes = model.program().devices[0].totalBytes();
  }
  const Options options = Options().memoryPerDevice(inferenceBytes);
  auto inference = inferenceModel(net, options);
  const HostTensor before = inference.run(many)[0];
  // Alone, the smaller training program would fit; with the arena of the other one it does not.
  auto training = trainingModel(net, options, optim::AdamW(0.01));
  EXPECT_THAT(messageOf<OutOfMemory>([&] { training.run(makeInputs(Mlp::inputs(), 0, 1)); }),
              HasSubstr("in all"));
  EXPECT_TRUE(inference.run(many)[0].sameBits(before));
}

TEST(Memory, TheMnistNetworkUsesAsManyBytesAsThePlanSays) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const auto batch = [](std::int64_t rows) {
    return std::vector<HostTensor>{HostTensor::full({DType::F32, Shape{rows, 1, 28, 28}}, 0.5),
                                   HostTensor(DType::I64, Shape{rows})};
  };
  testing::MnistNet net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.001));
  model.run(batch(40));
  const std::size_t plan = model.program().devices[0].transientBytes;
  auto other = inferenceModel(net, Options());
  std::size_t highest = 0;
  std::size_t untouched = plan;
  for (const std::byte paint : {std::byte{0xA5}, std::byte{0x5A}}) {
    other.run(batch(1));  // so that the next step writes its constants again
    const runtime::ModelState& state = model.session().state();
    ASSERT_EQ(state.transient(0)->bytes(), plan);
    testing::paintTransient(state, 0, paint);
    model.run(batch(40));
    const std::vector<std::byte> arena = testing::readTransient(state, 0);
    std::size_t same = 0;
    for (std::size_t i = 0; i < arena.size(); ++i) {
      highest = arena[i] != paint ? std::max(highest, i + 1) : highest;
      same += arena[i] == paint ? 1 : 0;
    }
    untouched = std::min(untouched, same);
  }
  const std::size_t alignment = model.session().device().info().alignment;
  EXPECT_EQ((highest + alignment - 1) / alignment * alignment, plan);
  EXPECT_LT(untouched, plan / 10);
}

}  // namespace
}  // namespace sluice
