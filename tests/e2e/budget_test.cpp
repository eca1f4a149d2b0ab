// A byte budget: a plan that fits, or an error that says what is over and what would fit.
#include <algorithm>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/char_gpt.h"
#include "sluice/api/compiled_program.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/message_of.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::Stage;
using ::testing::AllOf;
using testing::BlockedCnn;
using ::testing::HasSubstr;
using testing::makeInputs;
using ::testing::Not;
using testing::Towers;

constexpr std::int32_t kBudgetAccumulation = 8;

Options options(std::size_t budget, const char* schedule = "gpipe") {
  Options made;
  made.training.gradientAccumulation(kBudgetAccumulation);
  made.memoryPerDevice(budget);
  made.setExecutionStrategy(
      PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")}.schedule(schedule));
  return made;
}

template <class Net = BlockedCnn>
std::vector<std::size_t> bytesOf(const Options& given) {
  Net net;
  auto model = trainingModel(net, given, optim::SGD(0.1));
  model.compile(makeInputs(Net::inputs(), 0, kBudgetAccumulation));
  std::vector<std::size_t> bytes;
  for (const program::DevicePlan& device : model.program().devices) {
    bytes.push_back(device.totalBytes());
  }
  return bytes;
}

template <class Net = BlockedCnn>
std::string refusal(const Options& given) {
  try {
    bytesOf<Net>(given);
  } catch (const OutOfMemory& error) {
    return error.message();
  }
  return "fits";
}

/// The least budget that is met, from the bytes that a plan needs under one. Just below the need
/// without a budget, micro-batches change the storage of weights anew.
template <class Need>
std::size_t leastBudget(const Need& need) {
  const std::size_t most = need(0);
  try {
    return need(most - 1);
  } catch (const OutOfMemory&) {
    return most;
  }
}

std::size_t leastFor(const char* schedule) {
  return leastBudget(
      [&](std::size_t budget) { return std::ranges::max(bytesOf(options(budget, schedule))); });
}

TEST(Budget, IsMetToTheByteOrRefused) {
  const std::size_t most = leastFor("gpipe");
  EXPECT_EQ(refusal(options(most)), "fits");
  const std::string text = refusal(options(most - 1));
  EXPECT_THAT(text,
              AllOf(HasSubstr("device 0 needs"),
                    HasSubstr("of stage 0"),
                    HasSubstr("slots"),
                    HasSubstr("these changes were planned and fit"),
                    HasSubstr("recomputation(Recomputation::Pipeline)"),
                    HasSubstr("schedule(\"1f1b\")")));
}

/// Two layers whose weights are most of what a device holds.
struct WideMlp : nn::Module {
  nn::Linear first{*this, "first", 64, 64};
  nn::Linear second{*this, "second", 64, 64};

  nn::Tensor forward(nn::Tensor x) {
    {
      const nn::Block block("b0");
      x = nn::relu(first(x));
    }
    const nn::Block block("b1");
    return nn::mean(second(x));
  }
};

TEST(Budget, OneMoreDeviceIsARemedyForWeights) {
  const auto compile = [](std::size_t budget) {
    Options made;
    made.memoryPerDevice(budget);
    made.setExecutionStrategy(parallel::ShardedExecution{Stage("b0", "b1")});
    WideMlp net;
    auto model = trainingModel(net, made, optim::SGD(0.1));
    const std::vector<HostTensor> inputs = {HostTensor(DType::F32, Shape{1, 64})};
    model.compile(inputs);
    return model.program().devices[0].totalBytes();
  };
  const std::size_t most = leastBudget(compile);
  const std::string text = testing::messageOf<OutOfMemory>([&] { compile(most - 1); });
  EXPECT_THAT(text, HasSubstr("one more device: "));
}

/// What the largest device needs to train WideMlp with Adam.
std::size_t wideBytes(Options made, std::size_t budget) {
  made.memoryPerDevice(budget);
  WideMlp net;
  auto model = trainingModel(net, made, optim::Adam(0.1));
  const std::vector<HostTensor> inputs = {HostTensor(DType::F32, Shape{1, 64})};
  model.compile(inputs);
  return std::ranges::max(model.program().devices,
                          {},
                          [](const program::DevicePlan& device) { return device.totalBytes(); })
      .totalBytes();
}

TEST(Budget, StateOffTheDevicesAndPhasesAreRemediesForWeights) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  Options one;
  one.setExecutionStrategy(parallel::ShardedExecution{Stage("b0", "b1")});
  Options offChip = one;
  offChip.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
  Options phased;
  phased.setExecutionStrategy(SerialPhasedExecution(Phase(Stage("b0")), Phase(Stage("b1"))));
  const std::string stateLine =
      "options.tensorLocations.setOptimizerLocation(TensorLocationSettings()"
      ".useOnChipStorage(false));";
  const std::string phaseLine =
      "options.setExecutionStrategy(SerialPhasedExecution(Phase(Stage(\"b0\")), "
      "Phase(Stage(\"b1\"))));";
  const std::string text =
      testing::messageOf<OutOfMemory>([&] { wideBytes(one, wideBytes(one, 0) - 1); });
  EXPECT_THAT(text, AllOf(HasSubstr(stateLine + ": at most"), HasSubstr(phaseLine + ": at most")));
  // What is printed fits, and what does not fit is not printed.
  const std::size_t most = wideBytes(one, 0) - 1;
  EXPECT_LE(wideBytes(offChip, most), most);
  EXPECT_LE(wideBytes(phased, most), most);
  const std::size_t tiny = wideBytes(one, 0) / 16;
  const std::string none = testing::messageOf<OutOfMemory>([&] { wideBytes(one, tiny); });
  EXPECT_THROW(wideBytes(offChip, tiny), OutOfMemory);
  EXPECT_THAT(none, Not(HasSubstr(stateLine + ": at most")));
}

TEST(Budget, RemoteMemoryThatIsTooSmallIsNoRemedy) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  Options one;
  one.setExecutionStrategy(parallel::ShardedExecution{Stage("b0", "b1")});
  const std::size_t most = wideBytes(one, 0) - 1;
  one.remoteMemory("", "1KiB");
  EXPECT_THAT(testing::messageOf<OutOfMemory>([&] { wideBytes(one, most); }),
              AllOf(HasSubstr("one more device"),
                    Not(HasSubstr("setOptimizerLocation")),
                    Not(HasSubstr("SerialPhasedExecution"))));
}

struct Trained {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> bits;  ///< of the weights, after two updates
  bool packs = false;               ///< weights are packed before the micro-batches
};

Trained trainWideMlp(std::size_t budget) {
  Options made;
  made.training.gradientAccumulation(3);
  made.memoryPerDevice(budget);
  WideMlp net;
  auto model = trainingModel(net, made, optim::AdamW(0.1));
  const std::vector<HostTensor> inputs = {
      testing::randomTensor(7, {DType::F32, Shape{3 * 40, 64}}, -1, 1)};
  Trained trained;
  for (int i = 0; i < 2; ++i) {
    model.run(inputs);
  }
  trained.bytes = model.program().devices[0].totalBytes();
  trained.packs =
      std::ranges::any_of(model.program().segments, [](const program::Segment& segment) {
        return segment.kind == program::SegmentKind::Pack && !segment.calls.empty();
      });
  for (const nn::Parameter* parameter : net.parameters()) {
    trained.bits.push_back(parameter->value().hash());
  }
  return trained;
}

TEST(Budget, WeightsArePackedForEachMicroBatchWhereCopiesHaveNoRoom) {
  const Trained free = trainWideMlp(0);
  if (!free.packs) {
    GTEST_SKIP() << "the kernels of this processor want no packed copies of these weights";
  }
  const Trained bound = trainWideMlp(free.bytes - 64);
  EXPECT_LE(bound.bytes, free.bytes - 64);
  EXPECT_EQ(bound.bits, free.bits);
}

TEST(Budget, InferenceKeepsPackedWeightsWhereTheyHaveRoom) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const HostTensor x = testing::randomTensor(7, {DType::F32, Shape{40, 64}}, -1, 1);
  struct Inferred {
    std::size_t bytes = 0;
    bool keeps = false;
    std::vector<std::uint64_t> bits;  ///< of the results, before and after a weight was changed
  };
  const auto infer = [&](std::size_t budget) {
    WideMlp net;
    auto model = inferenceModel(net, Options().memoryPerDevice(budget));
    Inferred inferred;
    for (int i = 0; i < 2; ++i) {
      inferred.bits.push_back(model(x).hash());
    }
    nn::Parameter& weight = *net.parameters()[0];
    weight.setValue(testing::randomTensor(9, weight.value().type(), -1, 1));
    inferred.bits.push_back(model(x).hash());
    inferred.bytes = model.program().devices[0].totalBytes();
    inferred.keeps = model.program().keepsPacked;
    return inferred;
  };
  const Inferred free = infer(0);
  EXPECT_TRUE(free.keeps);
  EXPECT_EQ(free.bits[0], free.bits[1]);
  EXPECT_NE(free.bits[1], free.bits[2]);
  const Inferred bound = infer(free.bytes - 64);
  EXPECT_FALSE(bound.keeps);
  EXPECT_LE(bound.bytes, free.bytes - 64);
  EXPECT_EQ(bound.bits, free.bits);
}

/// A GPT of 256 x 4 layers, 4 sequences of 64 in each micro-batch. A budget of 0 is none: then
/// weights may have packed copies, which give way under a budget.
std::size_t gptBytes(std::size_t budget, std::int32_t accumulation) {
  const examples::GptShape shape{.width = 256, .layers = 4, .batchSize = 4};
  Options made;
  made.training.gradientAccumulation(accumulation);
  made.memoryPerDevice(budget);
  examples::Gpt net(shape);
  auto model = trainingModel(net, made, optim::AdamW(1e-3));
  const std::vector<TensorType> types(2, {DType::I64, Shape{shape.batchSize, shape.context}});
  model.compile(std::span<const TensorType>(types));
  return model.program().devices[0].totalBytes();
}

TEST(Budget, AGptTrainsInLittleMoreThanItsStateAndActivations) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  constexpr std::size_t kMiB = 1024UL * 1024;
  EXPECT_LE(gptBytes(0, 1), 58 * kMiB);
  EXPECT_LE(gptBytes(70 * kMiB, 4), 70 * kMiB);
}

TEST(Budget, EveryRemedyThatIsNamedFits) {
  const std::size_t most = leastFor("gpipe");
  Options recompute = options(most - 1);
  recompute.recomputation(Recomputation::Pipeline);
  EXPECT_EQ(refusal(recompute), "fits");
  EXPECT_EQ(refusal(options(most - 1, "1f1b")), "fits");
  // A tighter budget rules remedies out one by one.
  const std::size_t oneF = leastFor("1f1b");
  EXPECT_THAT(refusal(options(oneF - 1)), Not(HasSubstr("schedule(\"1f1b\"):")));
}

TEST(Budget, ProposesConcurrentStagesAsTheyAre) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const auto forked = [](std::size_t budget, const char* schedule) {
    Options given = options(budget);
    given.setExecutionStrategy(
        PipelinedExecution(Stage("b0", "b1").device(0),
                           ConcurrentStages(Stage("b2").device(1), Stage("b3").device(2)),
                           Stage("b4", "b5").device(0))
            .schedule(schedule));
    return given;
  };
  const std::size_t most = std::ranges::max(bytesOf<Towers>(forked(0, "gpipe")));
  EXPECT_THAT(
      refusal<Towers>(forked(most - 1, "gpipe")),
      AllOf(HasSubstr("schedule(\"1f1b\"): at most"),
            HasSubstr("one more device: PipelinedExecution(Stage(\"b0\", \"b1\").device(0), "),
            HasSubstr("ConcurrentStages(Stage(\"b2\").device(1), Stage(\"b3\").device(2))")));
  EXPECT_EQ(refusal<Towers>(forked(most - 1, "1f1b")), "fits");
}

TEST(Budget, SaysSoWhenNothingFits) {
  EXPECT_THAT(refusal(options(1024)), HasSubstr("no other schedule"));
  // A failed compile leaves the model usable.
  BlockedCnn net;
  auto model = trainingModel(net, options(1024), optim::SGD(0.1));
  const std::vector<HostTensor> step = makeInputs(BlockedCnn::inputs(), 0, kBudgetAccumulation);
  EXPECT_THROW(model.compile(step), OutOfMemory);
  EXPECT_FALSE(model.isCompiled());
  EXPECT_THROW(model.compile(step), OutOfMemory);
}

TEST(Budget, RecomputationAndOneForwardOneBackwardTakeLess) {
  const std::size_t gpipe = bytesOf(options(0))[0];
  const std::size_t oneF = bytesOf(options(0, "1f1b"))[0];
  Options recompute = options(0);
  recompute.recomputation(Recomputation::Pipeline);
  EXPECT_LT(oneF, gpipe);
  EXPECT_LT(bytesOf(recompute)[0], gpipe);
}

}  // namespace
}  // namespace sluice
