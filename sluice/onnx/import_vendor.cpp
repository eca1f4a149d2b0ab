// Translations of ops of the domain ai.graphcore whose attributes or operands differ from ours.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

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

/// The subgraph takes the place of the node.
std::vector<Value> call(Node& node) {
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < node.numInputs(); ++i) {
    inputs.push_back(node.input(i));
  }
  return node.inlineBody("callee", inputs);
}

std::vector<Value> abortRun(Node& node) {
  if (node.has(0)) {
    ops::abort(node.b, node.input(0));
  } else {
    ops::abort(node.b);
  }
  return {};
}

std::vector<Value> ctcBeamSearchDecoder(Node& node) {
  const Value lengths = ops::cast(node.b, node.input(1), DType::I64);
  const ops::CtcDecoded decoded =
      ops::ctcBeamSearchDecoder(node.b,
                                node.input(0),
                                lengths,
                                {.blank = node.integer("blank", 0),
                                 .beamWidth = node.integer("beamWidth", 100),
                                 .topPaths = node.integer("topPaths", 1)});
  return {decoded.probabilities,
          ops::cast(node.b, decoded.lengths, DType::U32),
          ops::cast(node.b, decoded.paths, DType::U32)};
}

/// The vendor's name of a format of 8-bit floats, which are u8 here.
std::string_view float8Format(const Node& node, std::string_view attr) {
  const std::string named = node.text(attr, "FLOAT8_143");
  if (named != "FLOAT8_143" && named != "FLOAT8_152") {
    raise<InvalidArgument>("{} must be FLOAT8_143 or FLOAT8_152, got '{}'", attr, named);
  }
  return named == "FLOAT8_143" ? "f143" : "f152";
}

std::vector<Value> pow2ScaleThenCast(Node& node) {
  return {ops::pow2ScaleThenCast(
      node.b, node.input(0), node.input(1), float8Format(node, "to"), node.flag("nanOnOverflow"))};
}

std::vector<Value> castThenPow2Scale(Node& node) {
  const std::string to = node.text("to", "FLOAT");
  if (to != "FLOAT" && to != "FLOAT16") {
    raise<InvalidArgument>("to must be FLOAT or FLOAT16, got '{}'", to);
  }
  return {ops::castThenPow2Scale(node.b,
                                 node.input(0),
                                 node.input(1),
                                 to == "FLOAT" ? DType::F32 : DType::F16,
                                 float8Format(node, "from"))};
}

/// As dropout of the versions that leave it to the runtime.
std::vector<Value> shapedDropout(Node& node) {
  const Value x = node.input(0);
  if (!node.forTraining()) {
    return {ops::identity(node.b, x)};
  }
  return {ops::shapedDropout(node.b, x, Shape(node.integers("shape")), node.real("ratio", 0.5))};
}

/// Only the layout in the vendor's memory differs.
std::vector<Value> tensorRemap(Node& node) {
  return {ops::identity(node.b, node.input(0))};
}

constexpr std::array kVendorTranslations = {
    Translation{"Abort", abortRun, ops::kVendorDomain},
    Translation{"BitwiseXnor", bitwiseXnor, ops::kVendorDomain},
    Translation{"Call", call, ops::kVendorDomain},
    Translation{"CastThenPow2Scale", castThenPow2Scale, ops::kVendorDomain},
    Translation{"CtcBeamSearchDecoder", ctcBeamSearchDecoder, ops::kVendorDomain},
    Translation{"Fmod", fmod, ops::kVendorDomain},
    Translation{"Gelu", gelu, ops::kVendorDomain},
    Translation{"GeluErf", geluErf, ops::kVendorDomain},
    Translation{"IncrementMod", incrementMod, ops::kVendorDomain},
    Translation{"Init", init, ops::kVendorDomain},
    Translation{"Pow2ScaleThenCast", pow2ScaleThenCast, ops::kVendorDomain},
    Translation{"Remainder", remainder, ops::kVendorDomain},
    Translation{"Reverse", reverse, ops::kVendorDomain},
    Translation{"Scale", scale, ops::kVendorDomain},
    Translation{"ScaledAdd", scaledAdd, ops::kVendorDomain},
    Translation{"ShapedDropout", shapedDropout, ops::kVendorDomain},
    Translation{"TensorRemap", tensorRemap, ops::kVendorDomain},
    Translation{"Zeros", zeros, ops::kVendorDomain},
    Translation{"ZerosLike", zerosLike, ops::kVendorDomain},
};

}  // namespace

std::span<const Translation> vendorTranslations() {
  return kVendorTranslations;
}

}  // namespace sluice::onnx
