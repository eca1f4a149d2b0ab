// Translations of random ops. Their numbers come from Sluice's own streams (the model's seed and
// the op's place), so the attribute `seed` has no effect: runs repeat without it.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

TensorType typeOfShape(Node& node) {
  return {node.dtypeAttr("dtype", DType::F32), Shape(node.integers("shape"))};
}

/// The type of the operand, which may be of an integer type if the node says another.
TensorType typeLike(Node& node) {
  return {node.dtypeAttr("dtype", node.dtype(0)), node.shape(0)};
}

template <TensorType (*kType)(Node&)>
std::vector<Value> randomNormal(Node& node) {
  return {ops::randomNormal(node.b, kType(node), node.real("mean", 0.0), node.real("scale", 1.0))};
}

template <TensorType (*kType)(Node&)>
std::vector<Value> randomUniform(Node& node) {
  return {ops::randomUniform(node.b, kType(node), node.real("low", 0.0), node.real("high", 1.0))};
}

std::vector<Value> bernoulli(Node& node) {
  const Value x = node.input(0);
  const Value hit = ops::less(node.b, ops::randomUniform(node.b, node.b.type(x)), x);
  return {ops::cast(node.b, hit, node.dtypeAttr("dtype", node.dtype(0)))};
}

/// Each sample is the class whose log-probability plus Gumbel noise is the largest.
std::vector<Value> multinomial(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  const TensorType type = b.type(x);
  const std::int64_t samples = node.integer("sample_size", 1);
  if (type.shape.rank() != 2 || samples < 1) {
    raise<InvalidArgument>(
        "expected [batch, classes] and at least one sample, got {} and {}", type.str(), samples);
  }
  const Shape all{type.shape[0], samples, type.shape[1]};
  const Value uniform = ops::randomUniform(b, {type.dtype, all});
  const Value noise = ops::neg(b, ops::log(b, ops::neg(b, ops::log(b, uniform))));
  const Value scores = ops::add(b, ops::unsqueeze(b, x, {1}), noise);
  const Value classes = ops::argMax(b, scores, -1);
  return {ops::cast(b, classes, node.dtypeAttr("dtype", DType::I32))};
}

/// Only in training: versions 1 and 6 by an attribute, from 12 on by an operand; those between
/// leave it to the runtime.
bool drops(Node& node) {
  if (node.version() >= 12) {
    return node.has(2) && node.realOf(2, 0.0) != 0.0;
  }
  return node.version() < 7 ? node.integer("is_test", 0) == 0 : node.forTraining();
}

std::vector<Value> dropout(Node& node) {
  ir::GraphBuilder& b = node.b;
  const Value x = node.input(0);
  const double ratio =
      node.version() >= 12 && node.has(1) ? node.realOf(1, 0.5) : node.real("ratio", 0.5);
  const bool random = drops(node) && ratio != 0.0;
  const DType maskType = node.version() >= 10 ? DType::Bool : b.dtype(x);
  const Value ones = ops::full(b, b.type(x), 1.0);
  if (!random) {
    return {ops::identity(b, x), ops::cast(b, ones, maskType)};
  }
  // The same ordinal makes the same choice for the elements and for the mask.
  const ir::Attrs attrs{{"p", ratio}, {"ordinal", b.nextRandomOrdinal()}};
  const Value y = b.add(ops::kDropout, {x}, attrs);
  if (!node.wants(1)) {
    return {y};
  }
  const Value kept = ops::cast(b, b.add(ops::kDropout, {ones}, attrs), DType::Bool);
  return {y, ops::cast(b, kept, maskType)};
}

constexpr std::array kRandomTranslations = {
    Translation{"Bernoulli", bernoulli},
    Translation{"Dropout", dropout},
    Translation{"Multinomial", multinomial},
    Translation{"RandomNormal", randomNormal<typeOfShape>},
    Translation{"RandomNormalLike", randomNormal<typeLike>},
    Translation{"RandomUniform", randomUniform<typeOfShape>},
    Translation{"RandomUniformLike", randomUniform<typeLike>},
};

}  // namespace

std::span<const Translation> randomTranslations() {
  return kRandomTranslations;
}

}  // namespace sluice::onnx
