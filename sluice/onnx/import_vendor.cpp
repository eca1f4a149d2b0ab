// Translations of ops of the domain ai.graphcore whose attributes or operands differ from ours.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

constexpr std::string_view kDomain = "ai.graphcore";

Value scaled(Node& node, Value x, double factor) {
  return ops::mul(node.b, x, node.b.scalar(node.b.dtype(x), factor));
}

std::vector<Value> scale(Node& node) {
  return {scaled(node, node.input(0), node.real("scale", 1.0))};
}

/// a x + b y; the factors are attributes or, behind the two summands, operands.
std::vector<Value> scaledAdd(Node& node) {
  const auto part = [&](std::size_t i, std::string_view attr) {
    const Value x = node.input(i);
    return node.has(i + 2) ? ops::mul(node.b, x, node.input(i + 2))
                           : scaled(node, x, node.real(attr, 1.0));
  };
  const Value first = part(0, "scale0");
  return {ops::add(node.b, first, part(1, "scale1"))};
}

std::vector<Value> incrementMod(Node& node) {
  const Value x = node.input(0);
  const DType dtype = node.b.dtype(x);
  const double modulus = node.real("modulus");
  if (!(modulus > 0.0)) {
    raise<InvalidArgument>("the modulus must be positive, got {}", modulus);
  }
  const Value next = ops::add(node.b, x, node.b.scalar(dtype, node.real("increment")));
  return {ops::mod(node.b, next, node.b.scalar(dtype, modulus))};
}

std::vector<Value> fmod(Node& node) {
  return {ops::mod(node.b, node.input(0), node.input(1), true)};
}

std::vector<Value> remainder(Node& node) {
  return {ops::mod(node.b, node.input(0), node.input(1))};
}

std::vector<Value> bitwiseXnor(Node& node) {
  return {ops::bitwiseNot(node.b, ops::bitwiseXor(node.b, node.input(0), node.input(1)))};
}

std::vector<Value> gelu(Node& node) {
  return {ops::gelu(node.b, node.input(0), "tanh")};
}

std::vector<Value> geluErf(Node& node) {
  return {ops::gelu(node.b, node.input(0))};
}

std::vector<Value> reverse(Node& node) {
  return {ops::reverse(node.b, node.input(0), node.integers("dimensions"))};
}

std::vector<Value> zerosLike(Node& node) {
  return {ops::full(node.b, node.type(0), 0.0)};
}

std::vector<Value> zeros(Node& node) {
  const DType dtype = node.dtypeAttr("dtype", DType::F32);
  return {ops::full(node.b, {dtype, Shape(node.integers("shape"))}, 0.0)};
}

/// What has no value yet is 0 too.
std::vector<Value> init(Node& node) {
  const DType dtype = node.dtypeAttr("tensor_type", DType::F32);
  return {ops::full(node.b, {dtype, Shape(node.integers("shape"))}, 0.0)};
}

constexpr std::array kTranslations = {
    Translation{"BitwiseXnor", bitwiseXnor, kDomain},
    Translation{"Fmod", fmod, kDomain},
    Translation{"Gelu", gelu, kDomain},
    Translation{"GeluErf", geluErf, kDomain},
    Translation{"IncrementMod", incrementMod, kDomain},
    Translation{"Init", init, kDomain},
    Translation{"Remainder", remainder, kDomain},
    Translation{"Reverse", reverse, kDomain},
    Translation{"Scale", scale, kDomain},
    Translation{"ScaledAdd", scaledAdd, kDomain},
    Translation{"Zeros", zeros, kDomain},
    Translation{"ZerosLike", zerosLike, kDomain},
};

}  // namespace

std::span<const Translation> vendorTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
