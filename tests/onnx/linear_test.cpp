// Matrix products and quantization beyond the standard's own cases: values worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/onnx/text_model.h"
#include "tests/support/message_of.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
HostTensor tensor(Shape shape, std::initializer_list<T> values) {
  return HostTensor::of<T>(std::move(shape), values);
}

TEST(Gemm, HasGradientsWithAllItsAttributes) {
  const auto model = importText(R"(g (double[3, 2] a, double[4, 3] b, double[4] c)
      => (double[2, 4] y) {
    y = Gemm <alpha = 0.5, beta = 2.0, transA = 1, transB = 1> (a, b, c)
  })");
  ops::TensorMap inputs = {{"a", HostTensor(DType::F64, Shape{3, 2})},
                           {"b", HostTensor(DType::F64, Shape{4, 3})},
                           {"c", doubles({1, 2, 3, 4})}};
  inputs.at("a").set(0, 2.0);  // a^T b^T is 2 b[:, 0] in the first row
  inputs.at("b").set(3, 7.0);
  EXPECT_THAT(resultOf(model, inputs), ElementsAre(2, 11, 6, 8, 2, 4, 6, 8));
  expectGradients(model, inputs, "y");
}

TEST(Gemm, BeforeVersion7BroadcastsOnlyWhenAsked) {
  const auto import = [](const std::string& attributes) {
    return importText(
        "g (float[1, 2] a, float[2, 2] b, float[2] c) => (float[1, 2] y) { y = Gemm " + attributes +
            " (a, b, c) }",
        {},
        6);
  };
  const ops::TensorMap inputs = {{"a", tensor<float>({1, 2}, {1, 2})},
                                 {"b", tensor<float>({2, 2}, {1, 2, 3, 4})},
                                 {"c", tensor<float>({2}, {100, 200})}};
  EXPECT_THAT(resultOf(import("<broadcast = 1>"), inputs), ElementsAre(107, 210));
  EXPECT_THAT(messageOf([&] { import("<broadcast = 0>"); }), HasSubstr("C [2] does not fit"));
}

TEST(Gemm, RefusesWhatIsNoMatrix) {
  EXPECT_THAT(messageOf([] {
                importText("g (float[2] a, float[2, 2] b) => (float[2] y) { y = Gemm(a, b) }");
              }),
              HasSubstr("two matrices"));
  EXPECT_THAT(messageOf([] {
                importText(
                    "g (float[2, 2] a, float[2, 2] b, float[3, 2, 2] c) => (float[2, 2] y) "
                    "{ y = Gemm(a, b, c) }");
              }),
              HasSubstr("does not fit the product"));
}

TEST(Quantize, RoundsHalfToEvenAndSaturates) {
  const auto model = importText(R"(g (float[6] x, float s, int8 z) => (int8[6] y) {
    y = QuantizeLinear(x, s, z)
  })");
  EXPECT_THAT(resultOf(model,
                       {{"x", tensor<float>({6}, {1, 3, 5, -1000, 1000, -1})},
                        {"s", HostTensor::scalar(2.0F)},
                        {"z", HostTensor::scalar(std::int8_t{10})}}),
              ElementsAre(10, 12, 12, -128, 127, 10));
}

TEST(Quantize, WithoutAZeroPointGivesBytes) {
  const auto model =
      importText("g (float[3] x, float s) => (uint8[3] y) { y = QuantizeLinear(x, s) }");
  const auto result = evaluateModel(
      model, {{"x", tensor<float>({3}, {-4, 6, 600})}, {"s", HostTensor::scalar(2.0F)}});
  EXPECT_EQ(result.at("y").dtype(), DType::U8);
  EXPECT_THAT(result.at("y").toDoubles(), ElementsAre(0, 3, 255));
}

TEST(Dequantize, TakesAScalePerIndexOfAnAxis) {
  const auto model = importText(R"(g (int8[2, 3] x, float[2] s, int8[2] z) => (float[2, 3] y) {
    y = DequantizeLinear <axis = -2> (x, s, z)
  })");
  EXPECT_THAT(resultOf(model,
                       {{"x", tensor<std::int8_t>({2, 3}, {-128, 0, 127, 1, 2, 3})},
                        {"s", tensor<float>({2}, {1.0F, 0.5F})},
                        {"z", tensor<std::int8_t>({2}, {127, 1})}}),
              ElementsAre(-255, -127, 0, 0, 0.5, 1));
}

TEST(Dequantize, RefusesAZeroPointOfAnotherType) {
  EXPECT_THAT(messageOf([] {
                importText(
                    "g (int8[2] x, float s, uint8 z) => (float[2] y) { y = "
                    "DequantizeLinear(x, s, z) }");
              }),
              HasSubstr("zero point must be of type i8"));
}

TEST(MatMulInteger, SubtractsZeroPointsPerRowAndColumn) {
  const auto model = importText(R"(g (uint8[2, 2] a, int8[2, 2] b, uint8[2] p, int8[2] q)
      => (int32[2, 2] y) { y = MatMulInteger(a, b, p, q) })");
  // [[0, 254], [-5, 0]] [[-127, 1], [126, 4]]
  EXPECT_THAT(resultOf(model,
                       {{"a", tensor<std::uint8_t>({2, 2}, {1, 255, 0, 5})},
                        {"b", tensor<std::int8_t>({2, 2}, {-127, 2, 126, 5})},
                        {"p", tensor<std::uint8_t>({2}, {1, 5})},
                        {"q", tensor<std::int8_t>({2}, {0, 1})}}),
              ElementsAre(32004, 1016, 635, -5));
}

TEST(ConvInteger, PadsWithTheZeroPoint) {
  const auto conv = [](const std::string& attributes) {
    return importText(
        "g (uint8[1, 1, 3] x, uint8[1, 1, 2] w, uint8 z) => (int32[1, 1, N] y) { y = "
        "ConvInteger " +
        attributes + " (x, w, z) }");
  };
  const ops::TensorMap inputs = {{"x", tensor<std::uint8_t>({1, 1, 3}, {11, 12, 13})},
                                 {"w", tensor<std::uint8_t>({1, 1, 2}, {1, 10})},
                                 {"z", HostTensor::scalar(std::uint8_t{10})}};
  EXPECT_THAT(resultOf(conv("<pads = [1, 1]>"), inputs), ElementsAre(10, 21, 32, 3));
  EXPECT_THAT(resultOf(conv("<auto_pad = \"SAME_UPPER\">"), inputs), ElementsAre(21, 32, 3));
  EXPECT_THAT(resultOf(conv("<auto_pad = \"SAME_LOWER\">"), inputs), ElementsAre(10, 21, 32));
  EXPECT_THAT(resultOf(conv("<auto_pad = \"VALID\">"), inputs), ElementsAre(21, 32));
  EXPECT_THAT(resultOf(conv("<auto_pad = \"SAME_UPPER\", strides = [2]>"), inputs),
              ElementsAre(21, 3));
}

TEST(ConvInteger, RefusesAttributesThatDoNotFit) {
  const auto conv = [](const std::string& attributes) {
    importText("g (uint8[1, 1, 3] x, uint8[1, 1, 2] w) => (int32[1, 1, N] y) { y = ConvInteger " +
               attributes + " (x, w) }");
  };
  EXPECT_THAT(messageOf([&] { conv("<kernel_shape = [3]>"); }), HasSubstr("kernel_shape"));
  EXPECT_THAT(messageOf([&] { conv("<auto_pad = \"LEFT\">"); }), HasSubstr("auto_pad must be"));
  EXPECT_THAT(messageOf([&] { conv("<auto_pad = \"SAME_UPPER\", strides = [0]>"); }),
              HasSubstr("a stride cannot be 0"));
}

TEST(QLinearConv, AddsABiasAndScalesPerChannel) {
  const auto model = importText(R"(g (uint8[1, 1, 2] x, int8[2, 1, 1] w, float[2] ws, int8[2] wz,
                                      int32[2] b) => (uint8[1, 2, 2] y) {
    xs = Constant <value = float {0.5}> ()
    xz = Constant <value = uint8 {100}> ()
    ys = Constant <value = float {2.0}> ()
    yz = Constant <value = uint8 {128}> ()
    y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b)
  })");
  // Channel 0: (4 (x - 100) + 8) 0.5 / 2; channel 1: (-3 (x - 100) + 0) 0.25 / 2.
  EXPECT_THAT(resultOf(model,
                       {{"x", tensor<std::uint8_t>({1, 1, 2}, {104, 0})},
                        {"w", tensor<std::int8_t>({2, 1, 1}, {4, -2})},
                        {"ws", tensor<float>({2}, {1.0F, 0.5F})},
                        {"wz", tensor<std::int8_t>({2}, {0, 1})},
                        {"b", tensor<std::int32_t>({2}, {8, 0})}}),
              ElementsAre(134, 30, 126, 166));
}

}  // namespace
}  // namespace sluice::testing
