// Models of one or a few nodes: element-wise ops of several versions, random and signal ops, the
// training ops and those of ai.graphcore, by values worked out by hand; and what is refused.
#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "sluice/onnx/files.h"
#include "sluice/ops/interpreter.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// `text` is the graph in ONNX's own syntax: "(float[2] x) => (float[2] y) { y = Abs(x) }".
onnx::ImportedModel import(int opset,
                           const std::string& text,
                           const onnx::ImportOptions& options = {}) {
  const std::string whole = "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                            ", \"ai.graphcore\" : 1, \"ai.onnx.preview.training\" : 1]> g " + text;
  ::onnx::ModelProto model;
  const auto status = ::onnx::OnnxParser::Parse(model, whole.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  const std::string bytes = model.SerializeAsString();
  return onnx::importModelBytes(std::as_bytes(std::span(bytes.data(), bytes.size())), options);
}

ops::TensorMap run(int opset, const std::string& text, const ops::TensorMap& inputs) {
  ops::TensorMap variables;
  return ops::evaluate(import(opset, text).graph, inputs, variables, {.seed = 7});
}

std::vector<double> runOne(int opset, const std::string& text, const ops::TensorMap& inputs) {
  return run(opset, text, inputs).at("y").toDoubles();
}

auto near(std::vector<double> values) {
  return ::testing::Pointwise(::testing::DoubleNear(1e-5), std::move(values));
}

HostTensor floats(Shape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), values);
}

TEST(ImportMath, SlopesBelowZeroMayBeNegative) {
  const ops::TensorMap x = {{"x", floats({3}, {-2, 0, 3})}};
  EXPECT_THAT(runOne(17, "(float[3] x) => (float[3] y) { y = Elu<alpha = -0.5>(x) }", x),
              near({-0.5 * (std::exp(-2.0) - 1.0), 0.0, 3.0}));
  EXPECT_THAT(runOne(17, "(float[3] x) => (float[3] y) { y = LeakyRelu<alpha = -0.5>(x) }", x),
              near({1.0, 0.0, 3.0}));
}

TEST(ImportMath, OldCastsNameTheirType) {
  EXPECT_EQ(run(5,
                "(float[2] x) => (int32[2] y) { y = Cast<to = \"INT32\">(x) }",
                {{"x", floats({2}, {1.5F, -2.5F})}})
                .at("y")
                .dtype(),
            DType::I32);
}

TEST(ImportMath, OldSlopesArePerChannel) {
  const ops::TensorMap inputs = {{"x", floats({1, 2, 2}, {-1, -2, -3, 4})},
                                 {"s", floats({2}, {0.5F, 2.0F})}};
  EXPECT_THAT(
      runOne(6, "(float[1, 2, 2] x, float[2] s) => (float[1, 2, 2] y) { y = PRelu(x, s) }", inputs),
      near({-0.5, -1.0, -6.0, 4.0}));
}

TEST(ImportMath, OldHardmaxSeesAllAxesFromItsAxisOnAsOne) {
  const ops::TensorMap x = {{"x", floats({2, 2, 2}, {1, 2, 4, 3, 9, 8, 7, 6})}};
  EXPECT_THAT(
      runOne(11, "(float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Hardmax<axis = 1>(x) }", x),
      ElementsAre(0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_THAT(
      runOne(13, "(float[2, 2, 2] x) => (float[2, 2, 2] y) { y = Hardmax<axis = 1>(x) }", x),
      ElementsAre(0, 0, 1, 1, 1, 1, 0, 0));
}

TEST(ImportRandom, TheMaskOfDropoutIsItsChoice) {
  const ops::TensorMap x = {{"x", floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})}};
  const ops::TensorMap results =
      run(13,
          "(float[8] x) => (float[8] y, bool[8] m) { r = Constant<value = float {0.25}>() "
          "t = Constant<value = bool {1}>() y, m = Dropout(x, r, t) }",
          x);
  int kept = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const bool mask = results.at("m").at(i) != 0.0;
    kept += mask ? 1 : 0;
    EXPECT_NEAR(results.at("y").at(i), mask ? x.at("x").at(i) / 0.75 : 0.0, 1e-5);
  }
  EXPECT_GT(kept, 0);
}

TEST(ImportRandom, DropoutOutsideOfTrainingIsTheIdentity) {
  const ops::TensorMap x = {{"x", floats({2}, {1, 2})}};
  EXPECT_THAT(runOne(13, "(float[2] x) => (float[2] y) { y = Dropout(x) }", x), ElementsAre(1, 2));
  EXPECT_THAT(runOne(7, "(float[2] x) => (float[2] y) { y = Dropout<ratio = 0.9>(x) }", x),
              ElementsAre(1, 2));
  EXPECT_THAT(runOne(6, "(float[2] x) => (float[2] y) { y = Dropout<is_test = 1>(x) }", x),
              ElementsAre(1, 2));
}

TEST(ImportRandom, MultinomialTakesClassesByTheirProbability) {
  HostTensor scores = floats({2, 3}, {-1000, 0, -1000, 0, 0, -1000});
  const std::vector<double> y =
      runOne(17,
             "(float[2, 3] x) => (int32[2, 400] y) { y = Multinomial<sample_size = 400>(x) }",
             {{"x", scores}});
  double ones = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    EXPECT_EQ(y[i], 1.0);
    EXPECT_LT(y[400 + i], 2.0);
    ones += y[400 + i];
  }
  EXPECT_NEAR(ones, 200.0, 40.0);  // four standard deviations
}

TEST(ImportRandom, NumbersHaveTheAskedSpread) {
  const std::vector<double> y = runOne(
      17,
      "(float[1] x) => (float[1000] y) { y = RandomUniform<shape = [1000], low = 2.0, high = "
      "4.0>() }",
      {{"x", floats({1}, {0})}});
  double sum = 0;
  for (const double value : y) {
    EXPECT_TRUE(value >= 2.0 && value < 4.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 1000.0, 3.0, 4.0 * std::sqrt(1.0 / 3.0 / 1000.0));
}

TEST(ImportSignal, TransformsArePaddedCutAndOneSided) {
  const ops::TensorMap x = {{"x", floats({1, 3, 1}, {1, 2, 3})}};
  EXPECT_THAT(runOne(17,
                     "(float[1, 3, 1] x) => (float[1, 3, 2] y) { n = Constant<value = int64 "
                     "{4}>() y = DFT<axis = 1, onesided = 1>(x, n) }",
                     x),
              near({6, 0, -2, -2, 2, 0}));
  EXPECT_THAT(runOne(17,
                     "(float[1, 3, 1] x) => (float[1, 2, 2] y) { n = Constant<value = int64 "
                     "{2}>() y = DFT<axis = 1>(x, n) }",
                     x),
              near({3, 0, -1, 0}));
}

TEST(ImportSignal, FramesOverlapAndAreWeighted) {
  EXPECT_THAT(runOne(17,
                     "(float[1, 4] x, float[2] w) => (float[1, 3, 2, 2] y) { s = Constant<value "
                     "= int64 {1}>() y = STFT(x, s, w) }",
                     {{"x", floats({1, 4}, {1, 2, 3, 4})}, {"w", floats({2}, {1, 0.5F})}}),
              near({2, 0, 0, 0, 3.5, 0, 0.5, 0, 5, 0, 1, 0}));
}

TEST(ImportTraining, GradientIsThatOfTheCopyAtTheGivenPoint) {
  const ops::TensorMap inputs = {{"a", floats({2}, {2, 3})}, {"b", floats({2}, {5, 7})}};
  EXPECT_THAT(runOne(17,
                     "(float[2] a, float[2] b) => (float[2] y) { s = Mul(a, a) t = Mul(s, b) "
                     "y = ai.onnx.preview.training.Gradient<xs = [\"a\"], y = \"t\">(a) }",
                     inputs),
              near({20, 42}));
  // b in place of a.
  EXPECT_THAT(runOne(17,
                     "(float[2] a, float[2] b) => (float[2] y) { s = Mul(a, a) t = Mul(s, b) "
                     "y = ai.onnx.preview.training.Gradient<xs = [\"a\"], y = \"t\">(b) }",
                     inputs),
              near({50, 98}));
  // s is taken for independent of a.
  EXPECT_THAT(runOne(17,
                     "(float[2] a, float[2] b) => (float[2] y) { s = Mul(a, a) t = Mul(s, a) "
                     "y = ai.onnx.preview.training.Gradient<xs = [\"a\"], zs = [\"s\"], y = "
                     "\"t\">(a, s) }",
                     inputs),
              near({4, 9}));
}

TEST(ImportTraining, GradientPassesThroughCompositesAndCanBeRepeated) {
  const ops::TensorMap inputs = {{"x", floats({3}, {-1, 1, 2})}};
  EXPECT_THAT(runOne(17,
                     "(float[3] x) => (float[3] y) { h = HardSwish(x) "
                     "y = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"h\">(x) }",
                     inputs),
              near({1.0 / 6.0, 5.0 / 6.0, 7.0 / 6.0}));
  EXPECT_THAT(runOne(17,
                     "(float[3] x) => (float[3] y) { s = Mul(x, x) c = Mul(s, x) "
                     "d = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"c\">(x) "
                     "y = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"d\">(x) }",
                     inputs),
              near({-6, 6, 12}));
}

TEST(ImportVendor, OpsHaveTheirMeaning) {
  const ops::TensorMap x = {{"x", floats({2}, {-3, 5})}, {"z", floats({2}, {2, -3})}};
  const auto one = [&](const std::string& call) {
    return runOne(
        17, "(float[2] x, float[2] z) => (float[2] y) { y = ai.graphcore." + call + " }", x);
  };
  EXPECT_THAT(one("Scale<scale = 2.0>(x)"), ElementsAre(-6, 10));
  EXPECT_THAT(one("ScaledAdd<scale0 = 2.0, scale1 = -1.0>(x, z)"), ElementsAre(-8, 13));
  EXPECT_THAT(one("ScaledAdd(x, z, x, z)"), ElementsAre(13, 34));
  EXPECT_THAT(one("IncrementMod<increment = 1.0, modulus = 4.0>(x)"), ElementsAre(2, 2));
  EXPECT_THAT(one("Fmod(x, z)"), ElementsAre(-1, 2));
  EXPECT_THAT(one("Remainder(x, z)"), ElementsAre(1, -1));
  EXPECT_THAT(one("Reverse<dimensions = [0]>(x)"), ElementsAre(5, -3));
  EXPECT_THAT(one("ZerosLike(x)"), ElementsAre(0, 0));
  EXPECT_THAT(one("Zeros<shape = [2]>()"), ElementsAre(0, 0));
  EXPECT_THAT(one("Init<shape = [2], tensor_type = 1>()"), ElementsAre(0, 0));
  EXPECT_THAT(one("Square(x)"), ElementsAre(9, 25));
  EXPECT_THAT(one("Atan2(x, z)"), near({std::atan2(-3.0, 2.0), std::atan2(5.0, -3.0)}));
  EXPECT_THAT(one("Expm1(x)"), near({std::expm1(-3.0), std::expm1(5.0)}));
  EXPECT_THAT(one("Swish(x)"), near({-3.0 / (1.0 + std::exp(3.0)), 5.0 / (1.0 + std::exp(-5.0))}));
  EXPECT_THAT(one("GeluErf(z)"),
              near({1.0 + std::erf(std::numbers::sqrt2),
                    -1.5 * (1.0 + std::erf(-3.0 / std::numbers::sqrt2))}));
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (2.0 + 0.044715 * 8.0);
  EXPECT_NEAR(one("Gelu(z)")[0], 1.0 + std::tanh(inner), 1e-5);
  EXPECT_THAT(
      runOne(17,
             "(uint8[2] x, uint8[2] z) => (uint8[2] y) { y = ai.graphcore.BitwiseXnor(x, z) }",
             {{"x", HostTensor::of<std::uint8_t>({2}, {12, 0})},
              {"z", HostTensor::of<std::uint8_t>({2}, {10, 255})}}),
      ElementsAre(249, 0));
}

template <class E>
void expectRefused(int opset, const std::string& text, const std::string& word) {
  try {
    import(opset, text);
    ADD_FAILURE() << text << " was not refused for " << word;
  } catch (const E& error) {
    EXPECT_THAT(error.what(), HasSubstr(word)) << text;
  }
}

TEST(ImportMathErrors, SayWhatIsWrong) {
  const auto refused = [](int opset, const std::string& text, const std::string& word) {
    expectRefused<InvalidArgument>(opset, text, word);
  };
  refused(11, "(float[2, 2] x) => (float[2, 2] y) { y = Hardmax<axis = 3>(x) }", "out of range");
  refused(17, "(float[2] x) => (float[2] y) { y = EyeLike(x) }", "expected a matrix");
  refused(5, "(float[2] x) => (float[2] y) { y = Cast<to = \"real\">(x) }", "not an element type");
  refused(17,
          "(float[1] x) => (float[1] y) { a = Constant<value = float {1.0}>() b = Constant<value "
          "= float {0.0}>() y = Range(a, a, b) }",
          "no length");
  refused(17, "(float[2] x) => (int32[1] y) { y = Multinomial(x) }", "[batch, classes]");
  refused(17, "(float[2, 3] x) => (float[2, 3] y) { y = DFT<axis = 0>(x) }", "one or two parts");
  refused(17, "(float[2, 2] x) => (float[2, 2] y) { y = DFT<axis = 1>(x) }", "that of the parts");
  refused(17,
          "(float[2, 2] x) => (float[2, 2] y) { y = DFT<axis = 0, inverse = 1, onesided = 1>(x) }",
          "cannot be onesided");
  refused(17,
          "(float[2, 2] x) => (float[2, 2] y) { n = Constant<value = int64 {0}>() y = DFT<axis = "
          "0>(x, n) }",
          "at least one number");
  refused(17,
          "(float[1, 4] x, float[2] w) => (float[1] y) { s = Constant<value = int64 {1}>() n = "
          "Constant<value = int64 {3}>() y = STFT(x, s, w, n) }",
          "do not fit a window");
  refused(17,
          "(float[1, 4] x, float[2] w) => (float[1] y) { s = Constant<value = int64 {0}>() y = "
          "STFT(x, s, w) }",
          "cannot be cut");
  refused(17,
          "(float[1] x) => (float[1] y) { n = Constant<value = int64 {-1}>() y = HannWindow(n) }",
          "cannot have");
  refused(17,
          "(float[1] x) => (float[1] y) { n = Constant<value = int64 {8}>() f = Constant<value = "
          "float {0.0}>() y = MelWeightMatrix(n, n, n, f, f) }",
          "mel bins");
  refused(17,
          "(float[1] x) => (float[1] y) { y = ai.graphcore.IncrementMod<modulus = 0.0>(x) }",
          "must be positive");
}

TEST(ImportMathErrors, SayWhatIsWrongInTrainingOps) {
  const std::string training =
      "(float r, int64 t, float[2] x) => (float[2] y) { y = "
      "ai.onnx.preview.training.";
  expectRefused<InvalidArgument>(17, training + "Adagrad(r, t, x, x) }", "operands per tensor");
  expectRefused<InvalidArgument>(
      17,
      training +
          "Momentum<alpha = 1.0, beta = 1.0, mode = \"fast\", norm_coefficient = 0.0>(r, t, "
          "x, x, x) }",
      "standard or nesterov");
  expectRefused<InvalidArgument>(
      17, training + "Gradient<xs = [\"x\", \"r\"], y = \"x\">(x) }", "name 2 tensors");
  expectRefused<InvalidArgument>(
      17, training + "Gradient<xs = [\"x\"], y = \"w\">(x) }", "made by no earlier node");
}

TEST(ImportMathErrors, SayWhatIsWrongInCountsOfNGrams) {
  const auto counts = [](const std::string& attrs) {
    return "(int64[4] x) => (float[1] y) { y = TfIdfVectorizer<max_gram_length = 1, "
           "min_gram_length = 1, max_skip_count = 0, " +
           attrs + ">(x) }";
  };
  const std::string pool = "pool_int64s = [1, 2], mode = \"TF\", ";
  expectRefused<InvalidArgument>(
      17, counts(pool + "ngram_counts = [0, 9], ngram_indexes = [0, 1]"), "do not fit the pool");
  expectRefused<InvalidArgument>(
      17, counts(pool + "ngram_counts = [0], ngram_indexes = [0, -1]"), "must not be negative");
  expectRefused<InvalidArgument>(17,
                                 counts("pool_int64s = [1, 2], mode = \"TX\", ngram_counts = [0], "
                                        "ngram_indexes = [0, 1]"),
                                 "expected TF, IDF or TFIDF");
  expectRefused<InvalidArgument>(
      17, counts(pool + "ngram_counts = [2], ngram_indexes = [0]"), "no n-gram");
  expectRefused<Unsupported>(17,
                             counts("pool_strings = [\"a\"], mode = \"TF\", ngram_counts = [0], "
                                    "ngram_indexes = [0]"),
                             "(string)");
}

TEST(ImportMathErrors, RefuseConstantsOfAnySize) {
  expectRefused<Unsupported>(17,
                             "(float[1] x) => (float[1] y) { n = Constant<value = int64 "
                             "{1000000000000}>() y = HannWindow(n) }",
                             "limits.constantBytes");
}

}  // namespace
}  // namespace sluice::testing
