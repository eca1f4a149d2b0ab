// The vendor's ops in models that run: what is printed and when, what stops a run, graphs in
// graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/ops/vendor.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

HostTensor row(std::initializer_list<float> values) {
  return HostTensor::of<float>(Shape{std::ssize(values)}, values);
}

/// How often a text occurs.
std::size_t count(const std::string& text, std::string_view wanted) {
  std::size_t found = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++found;
  }
  return found;
}

template <class F>
std::string printedBy(F f) {
  ::testing::internal::CaptureStderr();
  f();
  return ::testing::internal::GetCapturedStderr();
}

TEST(PrintTensor, IsPrintedOnceByEveryRun) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId one = b.addConstant(row({1, 1}));
  // Neither folded with the constant nor merged with its twin.
  const TensorId first = b.aiGraphcore().printtensor(one, {.title = "constant"});
  const TensorId second = b.aiGraphcore().printtensor(one, {.title = "constant"});
  const TensorId seen = b.aiGraphcore().printtensor(x, {.title = "seen"});
  b.aiGraphcore().printtensor(x, {.title = "unread"});
  b.addOutputTensor(b.aiOnnx().sum({seen, first, second}));
  auto model = inferenceModel(b, Options());
  const std::string once = printedBy([&] {
    EXPECT_THAT(model.run({row({3, 4})})[0].toDoubles(), ElementsAre(5, 6));
  });
  EXPECT_THAT(once, HasSubstr("seen:\n(3.000, 4.000)"));
  EXPECT_EQ(count(once, "constant:"), 2U);
  EXPECT_THAT(once, Not(HasSubstr("unread")));
  const std::string again = printedBy([&] { model.run({row({5, 6})}); });
  EXPECT_THAT(again, HasSubstr("seen:\n(5.000, 6.000)"));
  EXPECT_EQ(count(again, "constant:"), 2U);
}

/// loss = sum(w x printed); the gradient by the printed tensor is 1.
std::string printedByTraining(const ops::PrintOptions& options) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId w = b.addInitializedInputTensor(row({2, 3}), "w");
  const TensorId y = b.aiGraphcore().printtensor(b.aiOnnx().mul(x, w), options);
  const TensorId loss = b.aiGraphcore().identityloss(y, ops::Reduction::Sum);
  b.addOutputTensor(loss);
  auto model = trainingModel(b, loss, Options(), optim::SGD(0.0));
  return printedBy([&] { model.run({row({1, 2})}); });
}

TEST(PrintTensor, PrintsTheGradientWhereAsked) {
  const std::string both = printedByTraining({.title = "y"});
  EXPECT_EQ(count(both, "y:\n(2.000, 6.000)"), 1U);
  EXPECT_EQ(count(both, "y_gradient:\n(1.000, 1.000)"), 1U);
  const std::string forward = printedByTraining({.title = "y", .printGradient = false});
  EXPECT_EQ(count(forward, "y:\n(2.000, 6.000)"), 1U);
  EXPECT_THAT(forward, Not(HasSubstr("gradient")));
}

TEST(PrintTensor, IsNotRepeatedByRecomputation) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  TensorId y;
  {
    const auto first = b.virtualGraph(0);
    const TensorId w = b.addInitializedInputTensor(row({1, 1}), "w0");
    const TensorId seen = b.aiGraphcore().printtensor(b.aiOnnx().tanh(b.aiOnnx().mul(x, w)),
                                                      {.title = "h", .printGradient = false});
    y = b.aiOnnx().tanh(seen);
  }
  const auto second = b.virtualGraph(1);
  const TensorId w = b.addInitializedInputTensor(row({1, 1}), "w1");
  const TensorId loss = b.aiGraphcore().identityloss(b.aiOnnx().mul(y, w));
  b.addOutputTensor(loss);
  Options options;
  options.virtualGraphMode(VirtualGraphMode::Manual).enablePipelining(true);
  options.recomputation(Recomputation::Pipeline);
  options.training.gradientAccumulation(4);
  auto model = trainingModel(b, loss, options, optim::SGD(0.1));
  const HostTensor batch = row({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(count(printedBy([&] { model.run({batch}); }), "h:\n("), 4U);
}

TEST(Abort, EndsTheRunWhoseConditionHolds) {
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId limit = b.addConstant(HostTensor::scalar(10.0F));
  b.aiGraphcore().abort(b.aiOnnx().greater(x, limit));
  b.addOutputTensor(b.aiOnnx().neg(x));
  auto model = inferenceModel(b, Options());
  EXPECT_THAT(model.run({row({3, 4})})[0].toDoubles(), ElementsAre(-3, -4));
  EXPECT_THAT(messageOf<Error>([&] {
                model.run({row({3, 40})});
              }),
              HasSubstr("abort: element 1 of the condition bool[2]"));
}

TEST(Abort, IsNotWrittenToModelFiles) {
  Builder b;
  b.addOutputTensor(b.addInputTensor({DType::F32, Shape{2}}, "x"));
  b.aiGraphcore().abort();
  EXPECT_THAT(messageOf<Unsupported>([&] { static_cast<void>(b.getModelProto()); }),
              HasSubstr("abort"));
}

/// x w / 2 and gelu(x).
void makeProduct(Builder& b) {
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId w = b.addInputTensor({DType::F32, Shape{2}}, "w");
  const TensorId half = b.addConstant(row({0.5F, 0.5F}));
  b.addOutputTensor(b.aiOnnx().mul(b.aiOnnx().mul(x, w), half));
  b.addOutputTensor(b.aiGraphcore().gelu(x));
}

TEST(Call, PutsTheGraphInThePlaceOfTheCall) {
  Builder callee("product");
  makeProduct(callee);
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId w = b.addInitializedInputTensor(row({2, 4}), "w");
  const std::vector<TensorId> once = b.aiGraphcore().call({x, w}, callee);
  ASSERT_EQ(once.size(), 2U);
  const TensorId twice = b.aiGraphcore().call({once[0], w}, callee)[0];
  const TensorId loss = b.aiGraphcore().identityloss(twice, ops::Reduction::Sum);
  b.addOutputTensor(twice);
  b.addOutputTensor(loss);
  // loss = sum(x w^2 / 4), its derivative by w is x w / 2.
  auto model = trainingModel(b, loss, Options(), optim::SGD(1.0));
  EXPECT_THAT(model.run({row({1, 3})})[0].toDoubles(), ElementsAre(1, 12));
  EXPECT_THAT(model.session().read("w").toDoubles(), ElementsAre(1, -2));
}

TEST(Call, TheGraphNeedNotReadAllItsInputs) {
  Builder callee("second");
  callee.addInputTensor({DType::F32, Shape{3}}, "unused");
  callee.addOutputTensor(
      callee.aiOnnx().neg(callee.addInputTensor({DType::F32, Shape{2}}, "used")));
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{3}}, "x");
  const TensorId y = b.addInputTensor({DType::F32, Shape{2}}, "y");
  b.addOutputTensor(b.aiGraphcore().call({x, y}, callee)[0]);
  auto model = inferenceModel(b, Options());
  EXPECT_THAT(model.run({row({1, 2, 3}), row({4, 5})})[0].toDoubles(), ElementsAre(-4, -5));
}

TEST(Call, RefusesWhatDoesNotFit) {
  Builder callee("product");
  makeProduct(callee);
  Builder b;
  const TensorId x = b.addInputTensor({DType::F32, Shape{2}}, "x");
  const TensorId long3 = b.addInputTensor({DType::F32, Shape{3}}, "y");
  EXPECT_THAT(messageOf([&] { b.aiGraphcore().call({x}, callee); }), HasSubstr("2 inputs, got 1"));
  EXPECT_THAT(messageOf([&] {
                b.aiGraphcore().call({x, long3}, callee);
              }),
              HasSubstr("'w' of graph 'product' is f32[2], got f32[3]"));
  Builder weighted("weighted");
  weighted.addOutputTensor(weighted.addInitializedInputTensor(row({1}), "own"));
  EXPECT_THAT(messageOf<Unsupported>([&] { b.aiGraphcore().call({}, weighted); }),
              HasSubstr("weight 'own'"));
}

TEST(PackedDataBlock, PassesPaddedSequencesAndPacksTheResults) {
  Builder callback("sums");  // [2, 3] -> running sums along the sequence
  const TensorId s = callback.addInputTensor({DType::F32, Shape{2, 3}}, "s");
  callback.addOutputTensor(callback.aiOnnx().cumsum(s, 1));
  Builder b;
  const TensorId data = b.addInputTensor({DType::F32, Shape{8}}, "data");
  const auto list = [&](std::initializer_list<std::int64_t> values) {
    return b.addConstant(HostTensor::of<std::int64_t>(Shape{std::ssize(values)}, values));
  };
  // Sequences 1 2 | 3 | 4 5 6 | 7 8; of the results the second is left out and the last cut.
  b.addOutputTensor(b.aiGraphcore().packeddatablock(
      {data, list({0, 2, 3, 6}), list({2, 1, 3, 2}), list({4, 0, 0, 6}), list({2, 0, 3, 1})},
      {.maxSequenceLengths = {3}, .resultSize = 8, .callbackBatchSize = 2},
      callback));
  auto model = inferenceModel(b, Options());
  EXPECT_THAT(model.run({row({1, 2, 3, 4, 5, 6, 7, 8})})[0].toDoubles(),
              ElementsAre(4, 9, 15, 0, 1, 3, 7, 0));
}

TEST(PackedDataBlock, RefusesWhatDoesNotFit) {
  Builder callback("same");
  const TensorId s = callback.addInputTensor({DType::F32, Shape{2, 3}}, "s");
  callback.addOutputTensor(s);
  Builder b;
  const TensorId data = b.addInputTensor({DType::F32, Shape{8}}, "data");
  const TensorId three = b.addConstant(HostTensor::of<std::int64_t>(Shape{3}, {0, 1, 2}));
  const auto refusal = [&](const std::vector<TensorId>& operands, PackedDataBlockOptions options) {
    return messageOf([&] { b.aiGraphcore().packeddatablock(operands, options, callback); });
  };
  EXPECT_THAT(refusal({data, three, three}, {.maxSequenceLengths = {3}}), HasSubstr("3 operands"));
  EXPECT_THAT(refusal({data, three, three, three, three},
                      {.maxSequenceLengths = {3}, .resultSize = 8, .callbackBatchSize = 2}),
              HasSubstr("3 sequences cannot be passed"));
  EXPECT_THAT(
      refusal({data, three, three, three, three}, {.maxSequenceLengths = {0}, .resultSize = 8}),
      HasSubstr("longest sequence of 1 to"));
  const TensorId pair = b.addConstant(HostTensor::of<std::int64_t>(Shape{2}, {0, 1}));
  EXPECT_THAT(refusal({data, three, three, data, pair, pair, three, three},
                      {.maxSequenceLengths = {3, 3}, .resultSize = 8}),
              HasSubstr("as many sequences"));
  Builder scalar("scalar");
  const TensorId t = scalar.addInputTensor({DType::F32, Shape{1, 3}}, "t");
  scalar.addOutputTensor(scalar.aiOnnx().reshape(t, {3}));
  EXPECT_THAT(messageOf([&] {
                b.aiGraphcore().packeddatablock({data, three, three, three, three},
                                                {.maxSequenceLengths = {3}, .resultSize = 8},
                                                scalar);
              }),
              HasSubstr("[sequences, steps, ...]"));
  Builder two("two");
  const TensorId u = two.addInputTensor({DType::F32, Shape{1, 3}}, "u");
  two.addOutputTensor(u);
  two.addOutputTensor(two.aiOnnx().neg(u));
  EXPECT_THAT(messageOf([&] {
                b.aiGraphcore().packeddatablock({data, three, three, three, three},
                                                {.maxSequenceLengths = {3}, .resultSize = 8},
                                                two);
              }),
              HasSubstr("one result"));
}

TEST(HostStreams, AreFedAndFetchedWithEveryMicroBatch) {
  Builder b;
  const TensorId x = b.aiGraphcore().hostload({DType::F32, Shape{2}}, "in");
  b.aiGraphcore().hoststore(b.aiOnnx().neg(x), "out");
  InferenceSession session(b, DataFlow(2, {{"out", AnchorReturnType("All")}}));
  session.prepareDevice();
  NamedTensors outputs = session.initAnchorArrays();
  const NamedTensors inputs = {{"in", row({1, 2, 3, 4})}};
  session.run({.inputs = inputs, .outputs = outputs});
  EXPECT_THAT(outputs.at("out").toDoubles(), ElementsAre(-1, -2, -3, -4));
  EXPECT_THAT(messageOf([&] { b.aiGraphcore().hoststore(x, "out"); }), HasSubstr("'out'"));
}

TEST(RemoteBuffer, KeepsItsRowsFromRunToRun) {
  Builder b;
  const TensorType type{DType::F32, Shape{2}};
  const TensorId x = b.addInputTensor(type, "x");
  const TensorId at = b.addInputTensor({DType::I32, Shape{1}}, "at");
  const ops::RemoteBuffer buffer{.id = 0, .rows = 3};
  b.addOutputTensor(b.aiGraphcore().remoteload(buffer, type, at));
  b.aiGraphcore().remotestore(buffer, x, at);
  auto model = inferenceModel(b, Options());
  const auto run = [&](std::initializer_list<float> values, std::int32_t offset) {
    return model.run({row(values), HostTensor::of<std::int32_t>({1}, {offset})})[0].toDoubles();
  };
  EXPECT_THAT(run({1, 2}, 2), ElementsAre(0, 0));
  EXPECT_THAT(run({3, 4}, 0), ElementsAre(0, 0));
  EXPECT_THAT(run({5, 6}, 2), ElementsAre(1, 2));
  EXPECT_THAT(model.session().read("remote_buffer/0").toDoubles(), ElementsAre(3, 4, 0, 0, 5, 6));
  EXPECT_THAT(messageOf<Error>([&] { run({0, 0}, 3); }), HasSubstr("offset 3 does not lie inside"));
}

}  // namespace
}  // namespace sluice
