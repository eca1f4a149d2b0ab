// Translations of element-wise ops that are not the same op under another name: legacy
// broadcasting, any number of operands, casts.
#include <algorithm>
#include <array>
#include <limits>

#include "sluice/base/error.h"
#include "sluice/onnx/identity_marks.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

/// Before version 7 the second operand was broadcast only on request, from `axis` on.
Value legacyOperand(Node& node) {
  const Value y = node.input(1);
  const Shape& x = node.shape(0);
  const Shape& shape = node.b.shape(y);
  if (node.version() >= 7 || node.integer("broadcast") == 0 || !node.hasAttr("axis")) {
    return y;
  }
  const std::int64_t axis = normalizeAxis(node.integer("axis"), x.rank());
  std::vector<std::int64_t> dims = shape.dims();
  if (axis + shape.rank() > x.rank()) {
    raise<InvalidArgument>(
        "{} cannot be broadcast to {} from axis {} on", shape.str(), x.str(), axis);
  }
  dims.resize(static_cast<std::size_t>(x.rank() - axis), 1);
  return ops::reshape(node.b, y, Shape(std::move(dims)));
}

template <const ir::OpDef& kDef>
std::vector<Value> binary(Node& node) {
  return {node.b.add(kDef, {node.input(0), legacyOperand(node)})};
}

template <const ir::OpDef& kDef>
std::vector<Value> variadic(Node& node) {
  Value result = node.input(0);
  for (std::size_t i = 1; i < node.numInputs(); ++i) {
    result = node.b.add(kDef, {result, node.input(i)});
  }
  return {node.numInputs() == 1 ? ops::identity(node.b, result) : result};
}

std::vector<Value> mean(Node& node) {
  const Value sum = variadic<ops::kAdd>(node)[0];
  const auto count = static_cast<double>(node.numInputs());
  return {ops::div(node.b, sum, node.b.scalar(node.b.dtype(sum), count))};
}

/// Before version 6 the type was a word.
DType castTarget(Node& node) {
  if (node.version() >= 6) {
    return node.dtypeAttr("to", DType::F32);
  }
  constexpr std::array<std::string_view, 13> kWords = {"FLOAT",
                                                       "UINT8",
                                                       "INT8",
                                                       "UINT16",
                                                       "INT16",
                                                       "INT32",
                                                       "INT64",
                                                       "STRING",
                                                       "BOOL",
                                                       "FLOAT16",
                                                       "DOUBLE",
                                                       "UINT32",
                                                       "UINT64"};
  const std::string word = node.text("to");
  const auto found = std::ranges::find(kWords, word);
  if (found == kWords.end()) {
    raise<InvalidArgument>("'{}' is not an element type", word);
  }
  return dtypeOf(found - kWords.begin() + 1);
}

std::vector<Value> castTo(Node& node) {
  return {ops::cast(node.b, node.input(0), castTarget(node))};
}

std::vector<Value> castLike(Node& node) {
  return {ops::cast(node.b, node.input(0), node.dtype(1))};
}

/// Exponents may be of another type than the base.
std::vector<Value> pow(Node& node) {
  const Value x = node.input(0);
  const Value y = legacyOperand(node);
  const DType dtype = node.b.dtype(x);
  if (node.b.dtype(y) == dtype) {
    return {ops::pow(node.b, x, y)};
  }
  // An integer base with a real exponent is raised as a real number and cut.
  const DType wide = isFloat(dtype) ? dtype : isFloat(node.b.dtype(y)) ? DType::F64 : dtype;
  const Value power = ops::pow(node.b, ops::cast(node.b, x, wide), ops::cast(node.b, y, wide));
  return {ops::cast(node.b, power, dtype)};
}

std::vector<Value> clip(Node& node) {
  Value x = node.input(0);
  if (node.version() < 11) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {ops::clamp(node.b, x, node.real("min", -kInfinity), node.real("max", kInfinity))};
  }
  const bool known = (!node.has(1) || node.isConstant(1)) && (!node.has(2) || node.isConstant(2));
  const bool both = node.has(1) && node.has(2);
  if (known && (both || (isFloat(node.dtype(0)) && (node.has(1) || node.has(2))))) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {ops::clamp(node.b, x, node.realOf(1, -kInfinity), node.realOf(2, kInfinity))};
  }
  if (node.has(1)) {
    x = ops::maximum(node.b, x, node.input(1));
  }
  if (node.has(2)) {
    x = ops::minimum(node.b, x, node.input(2));
  }
  return {node.has(1) || node.has(2) ? x : ops::identity(node.b, x)};
}

std::vector<Value> identity(Node& node) {
  if (const MarkedOp* marked = findMark(node.note())) {
    return {node.b.add(*marked->def, {node.input(0)}, marked->attrs)};
  }
  return {ops::identity(node.b, node.input(0))};
}

constexpr std::array kElementwiseTranslations = {
    Translation{"Add", binary<ops::kAdd>},
    Translation{"And", binary<ops::kLogicalAnd>},
    Translation{"Cast", castTo},
    Translation{"CastLike", castLike},
    Translation{"Clip", clip},
    Translation{"Div", binary<ops::kDiv>},
    Translation{"Equal", binary<ops::kEqual>},
    Translation{"Greater", binary<ops::kGreater>},
    Translation{"GreaterOrEqual", binary<ops::kGreaterEqual>},
    Translation{"Identity", identity, "", true},
    Translation{"Less", binary<ops::kLess>},
    Translation{"LessOrEqual", binary<ops::kLessEqual>},
    Translation{"Max", variadic<ops::kMaximum>},
    Translation{"Mean", mean},
    Translation{"Min", variadic<ops::kMinimum>},
    Translation{"Mul", binary<ops::kMul>},
    Translation{"Or", binary<ops::kLogicalOr>},
    Translation{"Pow", pow},
    Translation{"Sub", binary<ops::kSub>},
    Translation{"Sum", variadic<ops::kAdd>},
    Translation{"Xor", binary<ops::kLogicalXor>},
};

}  // namespace

std::span<const Translation> elementwiseTranslations() {
  return kElementwiseTranslations;
}

}  // namespace sluice::onnx
