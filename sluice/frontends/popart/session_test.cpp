// Sessions the PopART way: data flows, step arrays, weights, and what they refuse.
#include "sluice/frontends/popart/session.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor popartRow(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

/// y = w x on micro-batches of two numbers; the loss is the mean of y.
struct Scaled {
  Builder builder;
  TensorId x = builder.addInputTensor({DType::F32, Shape{2}}, "x");
  TensorId w = builder.addInitializedInputTensor(popartRow({3, 3}), "w");
  TensorId y = builder.aiOnnx().mul(x, w);
  TensorId loss = builder.aiGraphcore().identityloss(y);

  Scaled() { builder.addOutputTensor(y); }
};

TEST(AnchorReturnType, IsReadFromTextWithItsPeriod) {
  EXPECT_EQ(AnchorReturnType("final").mode(), OutputMode::Final);
  EXPECT_EQ(AnchorReturnType("SUM").mode(), OutputMode::Sum);
  EXPECT_EQ(AnchorReturnType("All").mode(), OutputMode::All);
  EXPECT_EQ(AnchorReturnType("EveryN", 4).period(), 4);
  EXPECT_THAT(messageOf([] { AnchorReturnType("Some"); }), HasSubstr("'Some'"));
  EXPECT_THAT(messageOf([] { AnchorReturnType("EveryN"); }), HasSubstr("needs a period"));
  EXPECT_THAT(messageOf([] { AnchorReturnType("EveryN", 0); }), HasSubstr("got 0"));
  EXPECT_THAT(messageOf([] { AnchorReturnType("Final", 2); }), HasSubstr("only EveryN"));
}

TEST(DataFlow, HasAtLeastOneBatch) {
  EXPECT_EQ(DataFlow(3).batchesPerStep(), 3);
  EXPECT_THAT(messageOf([] { DataFlow(0); }), HasSubstr("above 0, got 0"));
  EXPECT_EQ(DataFlow(1, {"a", "b"}, AnchorReturnType("All")).anchors().size(), 2U);
}

NamedTensors inferred(const AnchorReturnType& type) {
  Scaled net;
  InferenceSession session(net.builder, DataFlow(4, {net.y}, type));
  session.prepareDevice();
  NamedTensors anchors = session.initAnchorArrays();
  session.run({.inputs = {{"x", popartRow({1, 2, 3, 4, 5, 6, 7, 8})}}, .outputs = anchors});
  return anchors;
}

TEST(InferenceSession, BringsAnchorsBackByTheirTypes) {
  const HostTensor all = inferred(AnchorReturnType("All")).begin()->second;
  EXPECT_EQ(all.shape(), (Shape{4, 2}));
  EXPECT_THAT(all.toDoubles(), ElementsAre(3, 6, 9, 12, 15, 18, 21, 24));
  const HostTensor every = inferred(AnchorReturnType("EveryN", 2)).begin()->second;
  EXPECT_EQ(every.shape(), (Shape{2, 2}));
  EXPECT_THAT(every.toDoubles(), ElementsAre(9, 12, 21, 24));
  const HostTensor last = inferred(AnchorReturnType("Final")).begin()->second;
  EXPECT_EQ(last.shape(), Shape{2});
  EXPECT_THAT(last.toDoubles(), ElementsAre(21, 24));
  EXPECT_THAT(inferred(AnchorReturnType("Sum")).begin()->second.toDoubles(), ElementsAre(48, 60));
}

TEST(InferenceSession, WeightsAreConstantsUnlessAskedOtherwise) {
  Scaled net;
  InferenceSession constant(net.builder, DataFlow(1, {net.y}, AnchorReturnType("All")));
  constant.prepareDevice();
  EXPECT_THAT(messageOf([&] { constant.weightsFromHost(); }), HasSubstr("constantWeights = false"));

  Scaled other;
  InferenceSession open(
      other.builder, DataFlow(1, {other.y}, AnchorReturnType("All")), Options(), false);
  open.prepareDevice();
  open.weights().at("w") = popartRow({5, 7});
  open.weightsFromHost();
  NamedTensors anchors = open.initAnchorArrays();
  open.run({.inputs = {{"x", popartRow({1, 2})}}, .outputs = anchors});
  EXPECT_THAT(anchors.at(other.y).toDoubles(), ElementsAre(5, 14));
}

TEST(InferenceSession, TakesAStateDictOnlyBeforeItsWeightsAreConstants) {
  Scaled net;
  InferenceSession session(net.builder, DataFlow(1, {net.y}, AnchorReturnType("All")));
  session.model().loadStateDict({{"w", popartRow({5, 7})}});
  session.prepareDevice();
  EXPECT_THAT(messageOf([&] {
                session.model().loadStateDict({{"w", popartRow({1, 1})}});
              }),
              AllOf(HasSubstr("'w'"), HasSubstr("constants of the compiled program")));
  EXPECT_NO_THROW(session.model().loadStateDict({{"other", popartRow({1, 1})}}, nn::Strict::No))
      << "no weight in it";
  NamedTensors anchors = session.initAnchorArrays();
  session.run({.inputs = {{"x", popartRow({1, 2})}}, .outputs = anchors});
  EXPECT_THAT(anchors.at(net.y).toDoubles(), ElementsAre(5, 14));
}

/// The same graph with another w; both sessions keep it as a constant.
TEST(InferenceSession, LoadsNoProgramThatHasOtherWeightsAsConstants) {
  const testing::TempFolder folder;
  const std::filesystem::path path = folder.path() / "three.slx";
  const std::vector<HostTensor> inputs = {popartRow({1, 2})};
  const auto sessionOf = [](Scaled& net, bool constantWeights) {
    return std::make_unique<InferenceSession>(
        net.builder, DataFlow(1, {net.y}, AnchorReturnType("All")), Options(), constantWeights);
  };
  const auto run = [](Scaled& net, InferenceSession& session) {
    session.prepareDevice();
    NamedTensors anchors = session.initAnchorArrays();
    session.run({.inputs = {{"x", popartRow({1, 2})}}, .outputs = anchors});
    return anchors.at(net.y).toDoubles();
  };
  Scaled three;
  sessionOf(three, true)->model().compileAndExport(path, inputs);

  Scaled five;
  const auto other = sessionOf(five, true);
  other->model().loadStateDict({{"w", popartRow({5, 5})}});
  EXPECT_THAT(messageOf([&] { other->model().loadExecutable(path); }),
              AllOf(HasSubstr("other weights as constants"), HasSubstr("loadStateDict")));
  EXPECT_THAT(run(five, *other), ElementsAre(5, 10));

  Scaled same;
  const auto taker = sessionOf(same, true);
  taker->model().loadExecutable(path);
  EXPECT_THAT(run(same, *taker), ElementsAre(3, 6));
  EXPECT_EQ(taker->model().compilationTime(), 0);

  Scaled open;
  const std::filesystem::path variable = folder.path() / "variable.slx";
  const auto changing = sessionOf(open, false);
  EXPECT_THAT(messageOf([&] { changing->model().loadExecutable(path); }),
              AllOf(HasSubstr("has weights as constants"), HasSubstr("constantWeights = true")));
  changing->model().compileAndExport(variable, inputs);
  Scaled closed;
  EXPECT_THAT(messageOf([&] { sessionOf(closed, true)->model().loadExecutable(variable); }),
              HasSubstr("constantWeights = false"));
}

/// The file would have a program with one value and a graph with another.
TEST(InferenceSession, SavesNoProgramOnceItsBuilderWasTrained) {
  const testing::TempFolder folder;
  Scaled net;
  InferenceSession session(net.builder, DataFlow(1, {net.y}, AnchorReturnType("All")));
  session.prepareDevice();
  session.model().save(folder.path() / "before.slx");
  Model training = trainingModel(net.builder, net.loss, Options(), optim::SGD(0.5));
  training.run({popartRow({1, 2})});
  EXPECT_THAT(
      messageOf([&] { session.model().save(folder.path() / "after.slx"); }),
      AllOf(HasSubstr("weights of the Builder have changed"), HasSubstr("make the session again")));
}

TEST(TrainingSession, TrainsAndBringsTheWeightsBack) {
  Scaled net;
  Options options;
  options.training.gradientAccumulation(2);
  TrainingSession session(net.builder,
                          DataFlow(1, {{net.loss, AnchorReturnType("All")}}),
                          net.loss,
                          optim::SGD(0.5),
                          options);
  session.prepareDevice();
  NamedTensors anchors = session.initAnchorArrays();
  EXPECT_EQ(anchors.at(net.loss).shape(), Shape{2});
  session.run({.inputs = {{"x", popartRow({1, 2, 3, 4})}}, .outputs = anchors});
  // Losses are 3 (1 + 2) / 2 and 3 (3 + 4) / 2; gradients x / 2, averaged over two micro-batches.
  EXPECT_THAT(anchors.at(net.loss).toDoubles(), ElementsAre(4.5, 10.5));
  EXPECT_THAT(session.weights().at("w").toDoubles(), ElementsAre(3, 3));
  session.weightsToHost();
  EXPECT_THAT(session.weights().at("w").toDoubles(), ElementsAre(3 - 0.5 * 1, 3 - 0.5 * 1.5));
}

/// z = (x w) v; the loss is the mean of z. `place` says for each product on which device, or in
/// which stage or phase, it is.
struct TwoProducts {
  Builder builder;
  TensorId z;
  TensorId loss;

  template <class Place>
  explicit TwoProducts(const Place& place) {
    TensorId value = builder.addInputTensor({DType::F32, Shape{2}}, "x");
    for (int product = 0; product < 2; ++product) {
      [[maybe_unused]] const auto scope = place(builder, product);
      value = builder.aiOnnx().mul(value, builder.addInitializedInputTensor(popartRow({3, 3})));
      z = value;
      if (product == 1) {
        loss = builder.aiGraphcore().identityloss(value);
      }
    }
    builder.addOutputTensor(z);
  }
};

constexpr auto kOnDevices = [](Builder& b, int product) { return b.virtualGraph(product); };

/// The messages of making an inference session and a training session of the graph.
std::vector<std::string> sessionMessages(const Options& options, TwoProducts& net) {
  const DataFlow flow(8, {net.z}, AnchorReturnType("Final"));
  return {messageOf([&] { InferenceSession(net.builder, flow, options.clone(), false); }),
          messageOf([&] {
            TrainingSession(net.builder, flow, net.loss, optim::SGD(0.1), options.clone());
          })};
}

template <class Place>
std::vector<std::string> sessionMessagesOf(const Options& options, const Place& place) {
  TwoProducts net(place);
  return sessionMessages(options, net);
}

TEST(GraphSession, ChecksAnnotationsWhenItIsMade) {
  const Options pipelined =
      Options().virtualGraphMode(VirtualGraphMode::Manual).enablePipelining(true);
  EXPECT_THAT(sessionMessagesOf(pipelined, kOnDevices), Each("nothing thrown"));
  EXPECT_THAT(sessionMessagesOf(Options().enablePipelining(true), kOnDevices),
              Each(HasSubstr("requires more than one")));
  const auto onOne = [](Builder& b, int) { return b.virtualGraph(0); };
  EXPECT_THAT(sessionMessagesOf(pipelined, onOne), Each(HasSubstr("requires more than one")));
  const auto falling = [](Builder& b, int product) { return b.virtualGraph(1 - product); };
  EXPECT_THAT(sessionMessagesOf(pipelined, falling),
              Each(AllOf(HasSubstr("earlier stage"), HasSubstr("stage 0"), HasSubstr("stage 1"))));
  TwoProducts partly(kOnDevices);
  partly.builder.pipelineStage(partly.z, 0);
  EXPECT_THAT(sessionMessages(pipelined, partly),
              Each(HasSubstr("only some ops have had their stage set")));
}

TEST(GraphSession, ChecksExecutionPhasesWhenItIsMade) {
  const Options phased =
      Options().virtualGraphMode(VirtualGraphMode::ExecutionPhases).executionPhases(2);
  const auto rising = [](Builder& b, int product) { return b.executionPhase(product); };
  EXPECT_THAT(sessionMessagesOf(phased, rising), Each("nothing thrown"));
  const auto falling = [](Builder& b, int product) { return b.executionPhase(1 - product); };
  EXPECT_THAT(sessionMessagesOf(phased, falling), Each(HasSubstr("earlier phase")));
  const auto third = [](Builder& b, int product) { return b.executionPhase(2 * product); };
  EXPECT_THAT(sessionMessagesOf(phased, third), Each(HasSubstr("is in execution phase 2")));
}

TEST(GraphSession, ChecksThePipelineWhenItIsMade) {
  TwoProducts net(kOnDevices);
  Options options = Options()
                        .virtualGraphMode(VirtualGraphMode::Manual)
                        .enablePipelining(true)
                        .enforceIpuRules(true);
  const auto train = [&](std::int64_t accumulation) {
    Options own = options.clone();
    own.training.gradientAccumulation(accumulation);
    TrainingSession session(net.builder, DataFlow(1), net.loss, optim::SGD(0.1), own);
    EXPECT_FALSE(session.model().isCompiled()) << "that is left to prepareDevice";
    session.prepareDevice();
  };
  EXPECT_THAT(messageOf([&] { train(2); }), HasSubstr("gradientAccumulation of at least 3, got 2"));
  // A session that was refused has left nothing on its Builder.
  EXPECT_EQ(messageOf([&] { train(3); }), "nothing thrown");
}

TEST(GraphSession, LeavesMemoryToPrepareDevice) {
  TwoProducts net(kOnDevices);
  InferenceSession session(
      net.builder, DataFlow(1, {net.z}, AnchorReturnType("All")), Options().memoryPerDevice(64));
  EXPECT_THROW(session.prepareDevice(), OutOfMemory);
}

TEST(GraphSession, RefusesArraysThatDoNotFit) {
  Scaled net;
  InferenceSession session(net.builder, DataFlow(2, {net.y}, AnchorReturnType("All")));
  NamedTensors none;
  const auto run = [&](const NamedTensors& inputs, NamedTensors& outputs) {
    return messageOf([&] { session.run({.inputs = inputs, .outputs = outputs}); });
  };
  EXPECT_THAT(run({}, none), HasSubstr("prepareDevice first"));
  EXPECT_THAT(messageOf([&] { session.initAnchorArrays(); }), HasSubstr("prepareDevice first"));
  session.prepareDevice();
  EXPECT_THAT(run({}, none), HasSubstr("'x' is missing"));
  EXPECT_THAT(run({{"x", popartRow({1, 2})}}, none),
              AllOf(HasSubstr("expected 4 elements"), HasSubstr("got 2")));
  EXPECT_THAT(run({{"x", HostTensor(DType::I32, Shape{4})}}, none), HasSubstr("i32[4]"));
  NamedTensors wrong = {{net.y, HostTensor(DType::F32, Shape{3})}};
  EXPECT_THAT(run({{"x", popartRow({1, 2, 3, 4})}}, wrong),
              AllOf(HasSubstr("expected 4 elements"),
                    HasSubstr("2 per micro-batch x deviceIterations 2"),
                    HasSubstr("got 3")));
  NamedTensors unknown = {{"w", HostTensor(DType::F32, Shape{2})}};
  EXPECT_THAT(run({{"x", popartRow({1, 2, 3, 4})}}, unknown), HasSubstr("not anchored"));
  EXPECT_THAT(messageOf([&] {
                InferenceSession(net.builder, DataFlow(1, {"q"}, AnchorReturnType("All")));
              }),
              HasSubstr("no tensor 'q'"));
}

TEST(GraphSession, WarnsOnceOfAnInputThatTheGraphDoesNotHave) {
  Scaled net;
  InferenceSession session(net.builder, DataFlow(2, {net.y}, AnchorReturnType("All")));
  session.prepareDevice();
  NamedTensors outputs = session.initAnchorArrays();
  const NamedTensors inputs = {{"x", popartRow({1, 2, 3, 4})}, {"z", popartRow({1})}};
  ::testing::internal::CaptureStderr();
  session.run({.inputs = inputs, .outputs = outputs});
  session.run({.inputs = inputs, .outputs = outputs});
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("the graph has no input 'z': it is not used");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("'z'", first + 40), std::string::npos) << log;
  EXPECT_TRUE(outputs.at(net.y).reshaped(Shape{4}).sameBits(popartRow({3, 6, 9, 12})));
}

TEST(GraphSession, UsesTheFirstElementsOfLargerArraysWithoutRuntimeAsserts) {
  Scaled net;
  InferenceSession session(net.builder, DataFlow(2, {net.y}, AnchorReturnType("All")));
  session.prepareDevice();
  NamedTensors outputs = {{net.y, popartRow({7, 7, 7, 7, 7})}};
  const NamedTensors more = {{"x", popartRow({1, 2, 3, 4, 5, 6})}};
  EXPECT_THAT(messageOf([&] { session.run({.inputs = more, .outputs = outputs}); }),
              HasSubstr("expected 4 elements"));
  session.run({.inputs = more, .outputs = outputs, .runtimeAsserts = false});
  EXPECT_TRUE(outputs.at(net.y).sameBits(popartRow({3, 6, 9, 12, 7})));
  // What is not there cannot be read or written.
  const NamedTensors fewer = {{"x", popartRow({1, 2, 3})}};
  EXPECT_THAT(messageOf([&] {
                session.run({.inputs = fewer, .outputs = outputs, .runtimeAsserts = false});
              }),
              AllOf(HasSubstr("expected 4 elements"), HasSubstr("got 3")));
  NamedTensors small = {{net.y, popartRow({7})}};
  EXPECT_THAT(
      messageOf([&] { session.run({.inputs = more, .outputs = small, .runtimeAsserts = false}); }),
      AllOf(HasSubstr("expected 4 elements"), HasSubstr("got 1")));
}

std::vector<double> inferredBy(InferenceSession& session) {
  session.prepareDevice();
  NamedTensors anchors = session.initAnchorArrays();
  session.run({.inputs = {{"x", popartRow({1, 2})}}, .outputs = anchors});
  return anchors.begin()->second.toDoubles();
}

TEST(InferenceSession, TakesTheBytesOfAModelOrThePathOfAFile) {
  const Scaled net;
  const std::string bytes = net.builder.getModelProto();
  const DataFlow flow(1, {net.y}, AnchorReturnType("All"));
  InferenceSession ofBytes(bytes, flow);
  EXPECT_THAT(inferredBy(ofBytes), ElementsAre(3, 6));

  const auto ofFile = [&] {  // the file is gone when the session runs
    const testing::TempFolder folder;
    std::ofstream(folder / "model.onnx", std::ios::binary) << bytes;
    return InferenceSession((folder / "model.onnx").string(), flow);
  };
  InferenceSession session = ofFile();
  EXPECT_THAT(inferredBy(session), ElementsAre(3, 6));
}

TEST(TrainingSession, TrainsAModelThatItWasGivenAsBytes) {
  Builder builder;  // the mean of w x, so the gradient is x / 2
  const TensorId x = builder.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId w = builder.addInitializedInputTensor(popartRow({3, 3}), "w");
  const TensorId loss = builder.aiOnnx().reducemean(builder.aiOnnx().mul({x, w}), {0}, false);
  builder.addOutputTensor(loss);
  TrainingSession session(builder.getModelProto(), DataFlow(1), loss, optim::SGD(0.5));
  session.prepareDevice();
  session.weightsFromHost();
  NamedTensors none;
  session.run({.inputs = {{"x", popartRow({1, 2})}}, .outputs = none});
  session.weightsToHost();
  EXPECT_THAT(session.weights().at("w").toDoubles(), ElementsAre(2.75, 2.5));
}

TEST(GraphSession, RefusesATextThatIsNeitherFileNorModel) {
  const DataFlow flow(1);
  try {
    const InferenceSession session("no_such_file.onnx", flow);
    ADD_FAILURE() << "expected a FileError";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("neither a file nor the bytes"));
  }
  EXPECT_THROW(InferenceSession(std::string_view("\x01\x00\x02", 3), flow), Error);
}

}  // namespace
}  // namespace sluice
