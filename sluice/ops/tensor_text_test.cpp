// Tensors as text: every expectation is written by hand.
#include <limits>

#include <gtest/gtest.h>

#include "sluice/ops/op_options.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::ops {
namespace {

std::string text(const HostTensor& tensor, const TextOptions& options = {}) {
  return tensorText(tensor.type(), tensor.bytes(), options);
}

HostTensor floats(Shape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), values);
}

HostTensor counting(const Shape& shape) {
  HostTensor tensor(DType::I64, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, static_cast<double>(i));
  }
  return tensor;
}

TEST(TensorText, HasBracketsPerAxisAndAlignsElements) {
  EXPECT_EQ(text(counting({2, 2, 3})),
            "((( 0,  1,  2),\n  ( 3,  4,  5)),\n (( 6,  7,  8),\n  ( 9, 10, 11)))");
  EXPECT_EQ(text(HostTensor::scalar(std::int64_t{-7})), "-7");
  EXPECT_EQ(text(HostTensor::of<bool>({2}, {true, false})), "( true, false)");
  EXPECT_EQ(text(counting({0})), "()");
  EXPECT_EQ(text(counting({2, 0})), "((),\n ())");
}

TEST(TensorText, FloatsHaveSoManyDigitsInAll) {
  EXPECT_EQ(text(floats({3}, {1, -2.5F, 12.345F})), "( 1.00, -2.50, 12.35)");
  EXPECT_EQ(text(floats({2}, {0.125F, 0.5F}), {.digits = 2}), "(0.1, 0.5)");
  EXPECT_EQ(text(floats({2}, {1234, 5678})), "(1234, 5678)");
}

TEST(TensorText, AutoIsScientificWhereDigitsDoNotSuffice) {
  EXPECT_EQ(text(floats({2}, {12346, 1})), "(1.235e+04, 1.000e+00)");
  EXPECT_EQ(text(floats({2}, {0.0005F, 1})), "(5.000e-04, 1.000e+00)");
  EXPECT_EQ(text(floats({2}, {0.0005F, 1}), {.floatFormat = FloatFormat::Fixed}), "(0.001, 1.000)");
  EXPECT_EQ(text(floats({2}, {0, 2}), {.floatFormat = FloatFormat::Scientific}),
            "(0.000e+00, 2.000e+00)");
}

TEST(TensorText, NoFormatOrNoDigitsIsTheShortest) {
  EXPECT_EQ(text(floats({2}, {0.1F, 12.25F}), {.floatFormat = FloatFormat::None}),
            "(  0.1, 12.25)");
  EXPECT_EQ(text(floats({2}, {0.1F, 12.25F}), {.digits = 0}), "(0.1, 12.25)");
  EXPECT_EQ(text(HostTensor::of<double>({1}, {0.1}), {.digits = 0}), "(0.1)");
}

TEST(TensorText, NumbersThatAreNoneDoNotDecide) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(text(floats({3}, {inf, -inf, 1})), "(  inf,  -inf, 1.000)");
  EXPECT_EQ(text(floats({1}, {std::numeric_limits<float>::quiet_NaN()})), "(nan)");
}

TEST(TensorText, LargeTensorsAreCutToTheirEdges) {
  EXPECT_EQ(text(counting({9}), {.summariseThreshold = 8, .edgeItems = 2}), "(0, 1, ..., 7, 8)");
  EXPECT_EQ(text(counting({9}), {.summariseThreshold = 9, .edgeItems = 2}),
            "(0, 1, 2, 3, 4, 5, 6, 7, 8)");
  EXPECT_EQ(text(counting({9}), {.summariseThreshold = 0, .edgeItems = 2}),
            "(0, 1, 2, 3, 4, 5, 6, 7, 8)");
  EXPECT_EQ(text(counting({3, 3}), {.summariseThreshold = 1, .edgeItems = 1}),
            "((0, ..., 2),\n ...,\n (6, ..., 8))");
  EXPECT_EQ(text(counting({3}), {.summariseThreshold = 1, .edgeItems = 0}), "(...)");
}

TEST(TensorText, LongLinesAreBroken) {
  EXPECT_EQ(text(counting({6}), {.maxLineWidth = 11}), "(0, 1, 2,\n 3, 4, 5)");
  EXPECT_EQ(text(counting({6}), {.maxLineWidth = 0}), "(0, 1, 2, 3, 4, 5)");
  EXPECT_EQ(text(counting({3}), {.maxLineWidth = 1}), "(0,\n 1,\n 2)");
}

TEST(TensorText, SeparatorAndBracketsAreChosen) {
  const TextOptions options{.separator = " ", .openBracket = "[", .closeBracket = "]"};
  EXPECT_EQ(text(counting({2, 2}), options), "[[0 1]\n [2 3]]");
}

}  // namespace
}  // namespace sluice::ops
