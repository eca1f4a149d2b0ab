// Custom ops of a loaded library in graphs and models: values by hand, gradients by differences,
// and the same bits under every strategy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/executable_file.h"
#include "sluice/api/session.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/nn/parameter.h"
#include "sluice/ops/op_list.h"
#include "tests/custom/test_library.h"
#include "tests/e2e/networks.h"
#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::doubles;
using ::testing::ElementsAre;
using testing::evaluateModel;
using testing::expectGradients;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::resultOf;
using testing::use;

class CustomOps : public ::testing::Test {
 protected:
  void SetUp() override { testing::loadTestOps(); }
};
using CustomOp = CustomOps;

/// A graph of one op, its results called out0, out1 ...
onnx::ImportedModel graphOf(const std::vector<TensorType>& inputs, const ops::CustomOpUse& op) {
  onnx::ImportedModel model;
  ir::GraphBuilder b(model.graph);
  std::vector<ir::Value> values;
  for (const TensorType& type : inputs) {
    values.push_back(b.input(fmt::format("in{}", values.size()), type));
  }
  for (const ir::Value value : ops::customOp(b, std::move(values), op)) {
    model.graph.addOutput(fmt::format("out{}", model.graph.outputs().size()), value);
  }
  return model;
}

const TensorType kTwoByThree{DType::F64, Shape{2, 3}};

ops::CustomOpUse bandsUse(DType dtype, std::int64_t rows, std::int64_t columns) {
  ops::CustomOpUse bands = use("Bands");
  bands.exampleOutputs = {
      {dtype, Shape{rows, columns}}, {dtype, Shape{rows}}, {DType::I64, Shape{rows}}};
  return bands;
}

HostTensor twoByThree(std::initializer_list<double> values) {
  return HostTensor::of<double>(kTwoByThree.shape, values);
}

TEST_F(CustomOp, ComputesWhatItsLibrarySays) {
  const auto leaky = graphOf({{DType::F64, Shape{3}}}, use("LeakyRelu", {{"alpha", 0.5}}));
  EXPECT_THAT(resultOf(leaky, {{"in0", doubles({-4, 0, 3})}}), ElementsAre(-2, 0, 3));
}

TEST_F(CustomOp, HasSeveralResultsAndListAttributes) {
  ops::CustomOpUse scaled = bandsUse(DType::F64, 2, 3);
  scaled.attributes = {{"scales", {1.0, 10.0}}};
  const auto results =
      evaluateModel(graphOf({kTwoByThree, {DType::F64, Shape{3}}}, scaled),
                    {{"in0", twoByThree({1, 2, 3, 4, 5, 6})}, {"in1", doubles({1, 1, -1})}});
  EXPECT_THAT(results.at("out0").toDoubles(), ElementsAre(1, 20, -3, 4, 50, -6));
  EXPECT_THAT(results.at("out1").toDoubles(), ElementsAre(18, 48));
  EXPECT_EQ(results.at("out2").dtype(), DType::I64);
  EXPECT_THAT(results.at("out2").toDoubles(), ElementsAre(1, 1));
}

TEST_F(CustomOp, GradientsAreThoseOfDifferences) {
  expectGradients(graphOf({{DType::F64, Shape{3}}}, use("LeakyRelu", {{"alpha", 0.5}})),
                  {{"in0", doubles({-4, 2, 3})}},
                  "out0");
  expectGradients(
      graphOf({{DType::F64, Shape{2}}}, use("Exponential")), {{"in0", doubles({-1, 0.5})}}, "out0");
  // One of two float results is read, so that the other's gradient is zeros.
  for (const char* output : {"out0", "out1"}) {
    expectGradients(graphOf({kTwoByThree, {DType::F64, Shape{3}}}, bandsUse(DType::F64, 2, 3)),
                    {{"in0", twoByThree({1, 2, 3, 4, 5, 6})}, {"in1", doubles({0.5, 1, -2})}},
                    output);
  }
}

TEST_F(CustomOp, PrintsAndParsesLikeAnyOp) {
  const auto bands = graphOf({kTwoByThree, {DType::F64, Shape{3}}}, bandsUse(DType::F64, 2, 3));
  const std::string text = ir::print(bands.graph);
  EXPECT_THAT(text, HasSubstr("com.example.test.Bands.1(%0, %1) {scales=[2.0, -1.0]"));
  EXPECT_EQ(ir::print(ir::parse(text, ops::opSet())), text);
}

/// A graph in text is checked like one that is built.
TEST_F(CustomOp, InTextIsCheckedToo) {
  const auto refusal = [](const std::string& op) {
    const std::string text = "graph \"g\" {\n  %0 = input() \"x\" : f32[4]\n  " + op + "\n}\n";
    return messageOf([&] { ir::parse(text, ops::opSet()); });
  };
  EXPECT_THAT(refusal("%1 = com.example.test.LeakyRelu.1(%0) {alpha=1e300} : f32[4]"),
              HasSubstr("out of range"));
  EXPECT_THAT(refusal("%1, %2, %3 = com.example.test.Bands.1(%0, %0) {sluice_dtypes=[\"f99\"], "
                      "sluice_shapes=[0]} : f32[4], f32[4], i64[4]"),
              HasSubstr("do not describe tensors"));
  const auto gradient = [&](const std::string& wanted, const std::string& shape) {
    return refusal(
        "%1 = com.example.test.LeakyRelu.1.grad(%0, %0) {sluice_input_dtypes=[\"f32\"], "
        "sluice_input_shapes=[1, 4], sluice_output_dtypes=[\"f32\"], "
        "sluice_output_shapes=[" +
        shape + "], sluice_wanted=[" + wanted + "]} : f32[4]");
  };
  EXPECT_EQ(gradient("0", "1, 4"), "nothing thrown");
  EXPECT_THAT(gradient("0", "1, 5"), HasSubstr("not those its attributes tell of"));
  EXPECT_THAT(gradient("1", "1, 4"), HasSubstr("no gradient of input 1"));
}

TEST_F(CustomOp, CountsItsWork) {
  const auto leaky = graphOf({{DType::F32, Shape{8}}}, use("LeakyRelu"));
  const ir::Op& op = leaky.graph.op(leaky.graph.outputs()[0].value.op);
  const ir::Cost cost = ir::costOf({*op.def, op.attrs, op.outputs, op.outputs});
  EXPECT_EQ(cost.flops, 16);
  EXPECT_EQ(cost.bytesRead, 32);
}

/// Results are refused where they differ from what the caller or the declaration says.
TEST_F(CustomOp, RefusesResultsThatDoNotFit) {
  const std::vector<TensorType> input = {{DType::F32, Shape{4}}};
  const auto refusal = [&](ops::CustomOpUse op, std::vector<TensorType> examples) {
    op.exampleOutputs = std::move(examples);
    return messageOf([&] { graphOf(input, op); });
  };
  const TensorType& type = input[0];
  EXPECT_EQ(refusal(use("LeakyRelu"), {type}), "nothing thrown");
  EXPECT_THAT(refusal(use("LeakyRelu"), {type, type}),
              HasSubstr("1 outputs, example outputs are given for 2"));
  EXPECT_THAT(refusal(use("LeakyRelu"), {{DType::F32, Shape{5}}}),
              HasSubstr("output 0 is f32[4], its example f32[5]"));
  EXPECT_THAT(refusal(use("LeakyRelu"), {{DType::F64, Shape{4}}}), HasSubstr("its example f64[4]"));
  EXPECT_THAT(refusal(use("TwoTypes"), {}), HasSubstr("expected 1 outputs, its inference gives 2"));
  EXPECT_THAT(refusal(use("NegativeExtent"), {}), HasSubstr("infers a type that there is not"));
  const auto bands = [&](std::vector<TensorType> examples) {
    ops::CustomOpUse op = use("Bands");
    op.exampleOutputs = std::move(examples);
    return messageOf([&] { graphOf({kTwoByThree, {DType::F64, Shape{3}}}, op); });
  };
  EXPECT_THAT(bands({}), HasSubstr("example outputs are needed"));
  EXPECT_THAT(bands({kTwoByThree}),
              HasSubstr("expected 3 outputs, example outputs are given for 1"));
}

TEST_F(CustomOp, RefusesOperandsThatDoNotFit) {
  const TensorType type{DType::F32, Shape{4}};
  EXPECT_THAT(messageOf([&] {
                graphOf({type, type}, use("LeakyRelu"));
              }),
              HasSubstr("takes 1 inputs, got 2"));
  // Types are the business of the library: LeakyRelu reads float32 where it is not float64.
  const auto integers = graphOf({{DType::I64, Shape{1}}}, use("LeakyRelu"));
  EXPECT_THAT(messageOf([&] {
                evaluateModel(integers, {{"in0", HostTensor(DType::I64, Shape{1})}});
              }),
              AllOf(HasSubstr("com.example.test.LeakyRelu.1"), HasSubstr("another element type")));
}

TEST_F(CustomOp, ThatIsNotLoadedIsNamed) {
  ops::CustomOpUse op = use("LeakyRelu");
  op.version = 2;
  EXPECT_THAT(messageOf([&] {
                graphOf({{DType::F32, Shape{4}}}, op);
              }),
              AllOf(HasSubstr("there is no custom op com.example.test.LeakyRelu.2"),
                    HasSubstr("loadCustomOps"),
                    HasSubstr("com.example.test.LeakyRelu.1")));
}

TEST_F(CustomOp, MistakesOfTheLibraryAreErrorsThatNameTheOp) {
  const auto op = graphOf({{DType::F32, Shape{1}}}, use("ReadUndeclared"));
  EXPECT_THAT(messageOf([&] {
                evaluateModel(op, {{"in0", HostTensor(DType::F32, Shape{1})}});
              }),
              AllOf(HasSubstr("com.example.test.ReadUndeclared.1"), HasSubstr("'missing'")));
}

// Models.

/// A function as a module, for inference.
struct Applied : nn::Module {
  ops::CustomOpUse op;
  explicit Applied(ops::CustomOpUse custom) : op(std::move(custom)) {}
  nn::Tensor forward(const nn::Tensor& x) { return nn::customOp({x}, op)[0]; }
};

TEST_F(CustomOp, WhatItThrowsReachesTheCallerAndTheModelRunsAgain) {
  Applied net(use("RefuseNegative"));
  auto model = inferenceModel(net, Options());
  HostTensor x(DType::F32, Shape{2});
  x.set(1, -1);
  EXPECT_THAT(
      messageOf([&] { model(x); }),
      AllOf(HasSubstr("com.example.test.RefuseNegative.1"), HasSubstr("a negative number")));
  x.set(1, 3);
  EXPECT_EQ(model(x).at(1), 3);
}

/// A layer between two others, by the library or by Sluice.
template <class F>
struct Between : nn::Module {
  nn::Linear first{*this, "first", 6, 8};
  nn::Linear last{*this, "last", 8, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x, const nn::Tensor& labels) {
    const nn::Tensor y = last(F()(first(x)));
    return {y, nn::crossEntropy(y, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{8, 6}}, {DType::I64, Shape{8}}};
  }
};

struct Ours {
  nn::Tensor operator()(const nn::Tensor& x) const { return nn::relu(x) - 0.125 * nn::relu(-x); }
};
struct Theirs {
  nn::Tensor operator()(const nn::Tensor& x) const {
    return nn::customOp({x}, use("LeakyRelu", {{"alpha", 0.125}}))[0];
  }
};
struct Undifferentiated {
  nn::Tensor operator()(const nn::Tensor& x) const { return nn::customOp({x}, use("Times"))[0]; }
};

TEST_F(CustomOp, TrainsLikeOpsOfSluiceThatDoTheSame) {
  EXPECT_EQ(testing::difference(testing::train<Between<Ours>>(Options(), 5),
                                testing::train<Between<Theirs>>(Options(), 5)),
            "");
}

TEST_F(CustomOp, WithoutAGradientIsRefusedInTraining) {
  Between<Undifferentiated> net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  EXPECT_THAT(messageOf<Unsupported>([&] { model.run(testing::makeInputs(net.inputs(), 0, 1)); }),
              AllOf(HasSubstr("com.example.test.Times.1 has no gradient"), HasSubstr("detach")));
}

TEST_F(CustomOp, IsNamedByAnExecutableThatUsesIt) {
  const testing::TempFolder folder;
  Between<Theirs> net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const std::vector<HostTensor> inputs = testing::makeInputs(Between<Theirs>::inputs(), 0, 1);
  model.compileAndExport(folder / "net.slx", inputs);
  const ExecutableFile file(folder / "net.slx");
  ASSERT_EQ(file.content().customOps.size(), 1U);
  EXPECT_EQ(file.content().customOps[0].op, "com.example.test.LeakyRelu.1");
  EXPECT_EQ(file.content().customOps[0].library,
            std::filesystem::path(LIBRARY_TEST_OPS).filename().string());
  Model loaded = load(folder / "net.slx");
  for (int step = 0; step < 2; ++step) {
    EXPECT_TRUE(loaded.run(inputs)[1].sameBits(model.run(inputs)[1]));
  }
}

TEST_F(CustomOp, InALoopIsNamedByAnExecutable) {
  struct Loop : nn::Module {
    nn::Tensor forward(const nn::Tensor& x) {
      const auto body = [](const std::vector<nn::Tensor>& v) {
        return nn::customOp({v[0] * 0.5}, use("LeakyRelu"));
      };
      return nn::forLoop(20, body, {x})[0];
    }
  };
  const testing::TempFolder folder;
  Loop net;
  const HostTensor x = HostTensor::of<float>({2}, {1024, -3});
  auto model = inferenceModel(net, Options());
  model.compileAndExport(folder / "net.slx", {x});
  ASSERT_EQ(ExecutableFile(folder / "net.slx").content().customOps.size(), 1U);
  EXPECT_TRUE(load(folder / "net.slx").run({x})[0].sameBits(model.run({x})[0]));
}

/// Every kind of gradient in blocks of their own: one that reads its input, one with a weight, a
/// list attribute and several results, one that reads its output.
struct Blocked : nn::Module {
  nn::Linear first{*this, "first", 6, 12};
  nn::Parameter& weight = addParameter("weight", {DType::F32, Shape{12}}, nn::init::ones());
  nn::Linear middle{*this, "middle", 12, 12};
  nn::Linear last{*this, "last", 12, 3};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, const nn::Tensor& labels) {
    const std::int64_t rows = x.shape()[0];
    {
      const nn::Block block("b0");
      x = nn::customOp({first(x)}, use("LeakyRelu", {{"alpha", 0.2}}))[0];
    }
    {
      const nn::Block block("b1");
      const auto parts = nn::customOp({x, weight}, bandsUse(DType::F32, rows, 12));
      x = middle(parts[0]) + nn::reshape(parts[1], {rows, 1});
    }
    {
      const nn::Block block("b2");
      x = nn::customOp({nn::tanh(x)}, use("Exponential"))[0];
    }
    const nn::Block block("b3");
    x = last(x);
    return {x, nn::crossEntropy(x, labels)};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 6}}, {DType::I64, Shape{4}}};
  }
};

constexpr std::int64_t kUpdates = 3;

Options blockedOptions() {
  Options options;
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3")}));
  return options;
}

/// Accumulators hold nothing between rounds under phased execution.
Bits withoutAccumulators(Bits bits) {
  std::erase_if(bits, [](const auto& item) { return item.first.ends_with(".accumulator"); });
  return bits;
}

std::vector<Strategy> strategies() {
  const std::vector<Phase> phases = {"b0", "b1", "b2", "b3"};
  std::vector<Strategy> all = {ShardedExecution{"b0", "b1", "b2", "b3"},
                               SerialPhasedExecution(phases),
                               ParallelPhasedExecution(phases)};
  for (const parallel::PipelineKind kind : schedule::allPipelineKinds()) {
    all.push_back(PipelinedExecution({"b0", Stage("b1", "b2"), "b3"}).schedule(kind));
  }
  return all;
}

TEST_F(CustomOps, LeaveTheSameBitsUnderEveryStrategy) {
  const Bits expected = withoutAccumulators(testing::train<Blocked>(blockedOptions(), kUpdates));
  ASSERT_GT(expected.size(), 20U);
  for (const Strategy& strategy : strategies()) {
    for (const Recomputation recomputation : {Recomputation::None, Recomputation::Pipeline}) {
      Options options = blockedOptions();
      options.setExecutionStrategy(strategy);
      options.recomputation(recomputation).threads(2);
      SCOPED_TRACE(options.str());
      EXPECT_EQ(testing::difference(
                    expected, withoutAccumulators(testing::train<Blocked>(options, kUpdates))),
                "");
    }
  }
}

Bits trainReplicated(const Strategy& strategy) {
  Options options = blockedOptions();
  options.replicationFactor(2);
  options.setExecutionStrategy(strategy);
  Blocked net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::int64_t count = model.microBatchesPerStep() * 2;
  for (std::int64_t update = 0; update < kUpdates; ++update) {
    model.run(testing::makeInputs(Blocked::inputs(), update * count, count));
  }
  return withoutAccumulators(testing::bitsOf(model.session()));
}

TEST_F(CustomOps, LeaveTheSameBitsInReplicas) {
  const Bits expected = trainReplicated(PipelinedExecution({Stage("b0", "b1", "b2", "b3")}));
  for (const Strategy& strategy : strategies()) {
    SCOPED_TRACE(strategy.str());
    EXPECT_EQ(testing::difference(expected, trainReplicated(strategy)), "");
  }
}

TEST_F(CustomOps, OfABuilderAreTensorsByName) {
  Builder builder;
  const TensorId x = builder.addInputTensor({DType::F32, Shape{2}}, "x");
  const std::vector<TensorId> y = builder.customOp({x}, use("Times"));
  ASSERT_EQ(y, std::vector<TensorId>{"Times:0"});
  builder.addOutputTensor(y[0]);
  auto model = inferenceModel(builder, Options());
  EXPECT_EQ(model.run({HostTensor::full({DType::F32, Shape{2}}, 4)})[0].at(1), 8);
  EXPECT_THAT(messageOf([&] { builder.customOp({"nobody"}, use("Times")); }), HasSubstr("nobody"));
}

}  // namespace
}  // namespace sluice
