// Models made of a Builder's graph: one device, several, pipelined or not, cut by hand or by cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

HostTensor numbers(const Shape& shape, int stride) {
  HostTensor tensor(DType::F32, shape);
  auto* data = reinterpret_cast<float*>(tensor.bytes());
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    data[i] = static_cast<float>((i * stride) % 13 - 6) / 8;
  }
  return tensor;
}

/// Two layers and a loss. `place` is called with the number of the layer before it is made and
/// returns the scope that it is made in.
template <class Place>
TensorId addNetwork(Builder& b, const Place& place) {
  TensorId x = b.addInputTensor({DType::F32, Shape{2, 4}}, "x");
  for (int layer = 0; layer < 2; ++layer) {
    [[maybe_unused]] const auto scope = place(layer);
    const TensorId w =
        b.addInitializedInputTensor(numbers(Shape{4, 4}, 5 + layer), "w" + std::to_string(layer));
    x = b.aiOnnx().relu(b.aiOnnx().matmul(x, w));
    if (layer == 1) {
      b.addOutputTensor(x);
      x = b.aiGraphcore().identityloss(b.aiOnnx().mul(x, x));
    }
  }
  return x;
}

struct Both {
  PlacementScope device;
  PlacementScope stage;
};

constexpr auto kNowhere = [](int) { return 0; };

Options accumulating(Options options) {
  options.training.gradientAccumulation(4);
  return options;
}

/// Hashes of the weights after three updates.
template <class Place>
std::vector<std::uint64_t> train(const Options& options, const Place& place, int devices) {
  Builder b;
  const TensorId loss = addNetwork(b, [&](int layer) { return place(b, layer); });
  auto model = trainingModel(b, loss, options, optim::AdamW(0.01));
  for (int update = 0; update < 3; ++update) {
    model.run({numbers(Shape{8, 4}, 3 + update)});
  }
  EXPECT_EQ(model.program().devices.size(), static_cast<std::size_t>(devices));
  return {model.session().read("w0").hash(), model.session().read("w1").hash()};
}

std::vector<std::uint64_t> onOneDevice() {
  return train(
      accumulating(Options()), [](Builder&, int) { return 0; }, 1);
}

TEST(BuilderModel, TrainsPipelinedWithTheBitsOfOneDevice) {
  const auto onDevices = [](Builder& b, int layer) { return b.virtualGraph(layer); };
  const Options manual = accumulating(Options().virtualGraphMode(VirtualGraphMode::Manual));
  // Stages are inferred from the devices.
  EXPECT_EQ(train(Options(manual).enablePipelining(true), onDevices, 2), onOneDevice());
  EXPECT_EQ(train(manual, onDevices, 2), onOneDevice());
  EXPECT_EQ(train(accumulating(Options()), onDevices, 1), onOneDevice());
  const auto backwards = [](Builder& b, int layer) {
    return Both{b.virtualGraph(1 - layer), b.pipelineStage(layer)};
  };
  EXPECT_EQ(train(Options(manual).enablePipelining(true), backwards, 2), onOneDevice());
  EXPECT_EQ(train(Options(manual).enablePipelining(true).setExecutionStrategy(
                      PipelinedExecution().schedule("1f1b")),
                  onDevices,
                  2),
            onOneDevice());
}

TEST(BuilderModel, RunsInTheExecutionPhasesOfBothForms) {
  const Options phased = accumulating(
      Options().virtualGraphMode(VirtualGraphMode::ExecutionPhases).executionPhases(2));
  const auto scope = [](Builder& b, int layer) { return b.executionPhase(layer); };
  EXPECT_EQ(train(phased, scope, 1), onOneDevice());
  EXPECT_EQ(train(Options(phased).executionPhases(2, 2), scope, 2), onOneDevice());
  // The same after the fact: all but the input.
  Builder inScopes;
  addNetwork(inScopes, [&](int layer) { return inScopes.executionPhase(layer); });
  Builder afterwards;
  const TensorId loss = addNetwork(afterwards, kNowhere);
  EXPECT_FALSE(ir::structurallyEqual(afterwards.graph(), inScopes.graph()));
  for (const ir::OpId id : inScopes.graph().order()) {
    const ir::Op& op = inScopes.graph().op(id);
    const ir::OpId same = afterwards.graph().order()[static_cast<std::size_t>(
        std::ranges::find(inScopes.graph().order(), id) - inScopes.graph().order().begin())];
    for (const TensorId& tensor : afterwards.tensorIds()) {
      if (afterwards.value(tensor).op == same && op.place.phase >= 0) {
        afterwards.executionPhase(tensor, op.place.phase);
      }
    }
  }
  EXPECT_TRUE(ir::structurallyEqual(afterwards.graph(), inScopes.graph()));
  auto model = trainingModel(afterwards, loss, phased, optim::AdamW(0.01));
  model.run({numbers(Shape{8, 4}, 3)});
  EXPECT_THAT(model.explain(), HasSubstr("Phased execution"));
  EXPECT_EQ(model.compiled().plan.phaseOfStage, (std::vector<std::int32_t>{0, 1}));
}

TEST(BuilderModel, SaysHowSeveralMicroBatchesAreTaken) {
  Builder builder;
  const TensorId x = builder.addInputTensor({DType::F32, Shape{8, 3}}, "x");
  builder.addOutputTensor(builder.aiOnnx().relu({x}));
  const auto complaint = [&](const Shape& shape) {
    return messageOf<InvalidArgument>(
        [&] { inferenceModel(builder, Options()).run({HostTensor(DType::F32, shape)}); });
  };
  EXPECT_THAT(complaint(Shape{32, 3}),
              AllOf(HasSubstr("'x' of graph"),
                    HasSubstr("f32[8, 3] per micro-batch, got f32[32, 3]"),
                    HasSubstr("4 times as much: deviceIterations")));
  for (const Shape& shape : {Shape{30, 3}, Shape{32, 4}, Shape{32}}) {
    EXPECT_THAT(complaint(shape), Not(HasSubstr("times as much"))) << shape.str();
  }
}

TEST(BuilderModel, IsCutByCostAutomatically) {
  const Options automatic =
      accumulating(Options().virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(2));
  const auto nowhere = [](Builder&, int) { return 0; };
  EXPECT_EQ(train(Options(automatic).enablePipelining(true), nowhere, 2), onOneDevice());
  EXPECT_EQ(train(automatic, nowhere, 2), onOneDevice());
  EXPECT_EQ(train(Options(automatic).virtualGraphSplitRatios({0.25, 0.75}).enablePipelining(true),
                  nowhere,
                  2),
            onOneDevice());
}

TEST(BuilderModel, ObeysDevicesPerReplicaOrRefusesIt) {
  const auto nowhere = [](Builder&, int) { return 0; };
  EXPECT_THAT(messageOf([&] {
                train(accumulating(
                          Options().virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(60)),
                      nowhere,
                      60);
              }),
              HasSubstr("devicesPerReplica is 60, but"));
  EXPECT_THAT(messageOf([&] {
                train(Options().virtualGraphMode(VirtualGraphMode::Manual).devicesPerReplica(2),
                      nowhere,
                      2);
              }),
              HasSubstr("only virtualGraphMode Auto"));
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 1, 1};
    nn::Tensor forward(nn::Tensor x) { return fc(x); }
  };
  Net net;
  EXPECT_THAT(messageOf([&] {
                inferenceModel(
                    net, Options().virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(2));
              }),
              HasSubstr("made of a module"));
}

TEST(BuilderModel, UpdatesContinuouslyWithoutAccumulationUnderTheIpuRules) {
  const auto run = [](Options options, std::int64_t iterations) {
    Builder b;
    const TensorId loss = addNetwork(b, [&](int layer) { return b.virtualGraph(layer); });
    options.virtualGraphMode(VirtualGraphMode::Manual)
        .enablePipelining(true)
        .deviceIterations(iterations);
    auto model = trainingModel(b, loss, options, optim::SGD(0.1));
    model.run({numbers(Shape{2 * iterations, 4}, 3)});
    return std::vector{model.session().read("w0").hash(), model.session().read("w1").hash()};
  };
  const Options rules = Options().enforceIpuRules(true);
  const auto stale = run(Options().continuousWeightUpdates(true), 4);
  EXPECT_EQ(run(rules, 4), stale);
  EXPECT_NE(run(Options(), 4), stale);
  EXPECT_THAT(messageOf([&] { run(rules, 2); }),
              HasSubstr("deviceIterations of at least 3, got 2"));
}

TEST(BuilderModel, SharesItsWeightsBetweenTrainingAndInference) {
  Builder b;
  const TensorId loss = addNetwork(b, kNowhere);
  const TensorId y = b.graph().outputs()[0].name;
  auto training = trainingModel(b, loss, Options(), optim::SGD(0.1));
  auto inference = inferenceModel(b, Options());
  const NamedTensors inputs = {{"x", numbers(Shape{2, 4}, 3)}};
  const NamedTensors before = inference.run(inputs);
  // The outputs of the training step are those from before its update.
  EXPECT_EQ(training.run(inputs).at(y).hash(), before.at(y).hash());
  EXPECT_NE(inference.run(inputs).at(y).hash(), before.at(y).hash());
  EXPECT_EQ(training.updates(), 1);
  EXPECT_THAT(training.summary(), HasSubstr("w1  f32[4, 4]"));
  EXPECT_THAT(messageOf([&] { training.module(); }), HasSubstr("Builder"));
}

TEST(BuilderModel, AnchorsTensorsByTheirIds) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{1}}, "x");
  const TensorId doubled = b.aiOnnx().add(x, x);
  b.addOutputTensor(b.aiOnnx().neg(doubled));
  auto model = inferenceModel(b, Options().deviceIterations(2).anchorTensor("d", doubled));
  model.run({HostTensor::of<float>(Shape{2}, {1, 5})});
  EXPECT_EQ(model.getAnchoredTensor("d").at(1), 10.0);
  EXPECT_THAT(model.getTensorNames(), Contains(doubled));
}

TEST(BuilderModel, RefusesInputsThatDoNotFit) {
  Builder b;
  EXPECT_THAT(messageOf([&] { inferenceModel(b, Options()); }), HasSubstr("no output"));
  addNetwork(b, kNowhere);
  EXPECT_THAT(messageOf([&] { trainingModel(b, "none", Options(), optim::SGD(0.1)); }),
              HasSubstr("'none'"));
  auto model = inferenceModel(b, Options());
  EXPECT_THAT(messageOf([&] { model.run({}); }), HasSubstr("takes 1 inputs, got 0"));
  EXPECT_THAT(messageOf([&] {
                model.run({numbers(Shape{3, 4}, 1)});
              }),
              AllOf(HasSubstr("input 'x'"), HasSubstr("f32[2, 4]"), HasSubstr("f32[3, 4]")));
}

/// The message of compiling the network as it is placed.
template <class Place>
std::string message(const Options& options, const Place& place) {
  Builder b;
  addNetwork(b, [&](int layer) { return place(b, layer); });
  auto model = inferenceModel(b, options);
  return messageOf([&] { model.run({numbers(Shape{2, 4}, 1)}); });
}

TEST(BuilderModel, NeedsSeveralDevicesForAPipeline) {
  const Options pipelined = Options().enablePipelining(true);
  const auto onDevices = [](Builder& b, int layer) { return b.virtualGraph(layer); };
  EXPECT_THAT(message(pipelined, onDevices),
              AllOf(HasSubstr("requires more than one"), HasSubstr("Off")));
  const auto onOne = [](Builder& b, int) { return b.virtualGraph(0); };
  EXPECT_THAT(message(Options(pipelined).virtualGraphMode(VirtualGraphMode::Manual), onOne),
              HasSubstr("requires more than one"));
  EXPECT_THAT(message(Options(pipelined).virtualGraphMode(VirtualGraphMode::Auto), onOne),
              HasSubstr("requires more than one"));
}

TEST(BuilderModel, RefusesPartialAnnotationsAndStagesInTheWrongOrder) {
  const Options pipelined =
      Options().enablePipelining(true).virtualGraphMode(VirtualGraphMode::Manual);
  Builder b;
  addNetwork(b, [&](int layer) { return b.virtualGraph(layer); });
  b.pipelineStage(b.graph().outputs()[0].name, 0);
  auto partly = inferenceModel(b, pipelined);
  EXPECT_THAT(messageOf([&] {
                partly.run({numbers(Shape{2, 4}, 1)});
              }),
              HasSubstr("only some ops have had their stage set"));
  const auto falling = [](Builder& builder, int layer) { return builder.virtualGraph(1 - layer); };
  EXPECT_THAT(message(pipelined, falling),
              AllOf(HasSubstr("earlier stage"), HasSubstr("stage 0"), HasSubstr("stage 1")));
}

}  // namespace
}  // namespace sluice
