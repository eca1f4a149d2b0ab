// Inputs and outputs of models without a dimension: a scalar input is the same for all
// micro-batches of a call, and of a scalar output each of them gives one number, as of a loss.
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/onnx/text_model.h"

namespace sluice::testing {
namespace {

using Doubles = std::vector<double>;

onnx::ImportedModel scaled() {
  return importText(R"(
    main (float[2, 2] x, float s) => (float[2, 2] y, float z) {
      y = Mul(x, s)
      sum = ReduceSum<keepdims = 0>(x)
      z = Mul(sum, s)
    })");
}

NamedTensors inputsOf(std::int64_t rows) {
  HostTensor x(DType::F32, Shape{rows, 2});
  for (std::int64_t i = 0; i < 2 * rows; ++i) {
    x.set(i, static_cast<double>(i + 1));
  }
  return {{"x", x}, {"s", HostTensor::scalar(10.0F)}};
}

TEST(OnnxScalars, AreInputsAndOutputsOfACall) {
  Builder builder(scaled());
  auto model = inferenceModel(builder, Options());
  const NamedTensors outputs = model.run(inputsOf(2));
  EXPECT_EQ(outputs.at("y").toDoubles(), (Doubles{10, 20, 30, 40}));
  EXPECT_EQ(outputs.at("z").shape(), Shape{});
  EXPECT_EQ(outputs.at("z").at(0), 100);
}

TEST(OnnxScalars, AreTheSameForAllMicroBatches) {
  // By hand: micro-batches [[1, 2], [3, 4]], [[5, 6], [7, 8]] ...
  const Doubles sums = {100, 260, 420, 580};
  for (const std::int64_t replicas : {1, 2}) {
    for (const OutputMode mode : {OutputMode::All, OutputMode::Final, OutputMode::Sum}) {
      SCOPED_TRACE(::testing::Message()
                   << replicas << " replicas, mode " << static_cast<int>(mode));
      Builder builder(scaled());
      Options options;
      options.deviceIterations(4 / replicas).replicationFactor(replicas).outputMode(mode);
      auto model = inferenceModel(builder, options);
      const NamedTensors outputs = model.run(inputsOf(8));
      // Micro-batch m is of replica m % replicas.
      Doubles wanted;
      if (mode == OutputMode::All) {
        wanted = sums;
      } else if (mode == OutputMode::Final) {
        wanted = replicas == 1 ? Doubles{580} : Doubles{420, 580};
      } else {
        wanted = replicas == 1 ? Doubles{1360} : Doubles{520, 840};
      }
      EXPECT_EQ(outputs.at("z").toDoubles(), wanted);
    }
  }
}

TEST(OnnxScalars, MayComeBeforeTheInputWithTheBatch) {
  Builder builder(importText("main (float s, float[1, 2] x) => (float[1, 2] y) { y = Mul(x, s) }"));
  auto model = inferenceModel(builder, Options().deviceIterations(3));
  EXPECT_EQ(model.run(inputsOf(3)).at("y").toDoubles(), (Doubles{10, 20, 30, 40, 50, 60}));
}

TEST(OnnxScalars, MayBeAllThatAModelHas) {
  Builder builder(importText("main (float s) => (float y) { y = Neg(s) }"));
  auto once = inferenceModel(builder, Options());
  EXPECT_EQ(once.run(NamedTensors{{"s", HostTensor::scalar(3.0F)}}).at("y").toDoubles(),
            Doubles{-3});
  Builder again(importText("main (float s) => (float y) { y = Neg(s) }"));
  auto twice = inferenceModel(again, Options().deviceIterations(2));
  EXPECT_EQ(twice.run(NamedTensors{{"s", HostTensor::scalar(3.0F)}}).at("y").toDoubles(),
            (Doubles{-3, -3}));
}

}  // namespace
}  // namespace sluice::testing
