// Translations of reductions: axes are an attribute in older versions and an operand in newer ones.
#include <array>

#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

struct Axes {
  std::vector<std::int64_t> axes;
  bool keepDims = true;
  bool none = false;  ///< no axes at all: nothing is reduced
};

Axes axesOf(Node& node) {
  Axes result{.axes = node.integersOf("axes", 1), .keepDims = node.flag("keepdims", true)};
  result.none = result.axes.empty() && node.flag("noop_with_empty_axes");
  return result;
}

using Reduce = Value (*)(ir::GraphBuilder&, Value, std::vector<std::int64_t>, bool);

std::vector<Value> reduceWith(Node& node, Reduce reduce, Value x) {
  const Axes axes = axesOf(node);
  return {axes.none ? ops::identity(node.b, x) : reduce(node.b, x, axes.axes, axes.keepDims)};
}

template <Reduce kReduce>
std::vector<Value> reduce(Node& node) {
  return reduceWith(node, kReduce, node.input(0));
}

std::vector<Value> reduceL1(Node& node) {
  return reduceWith(node, ops::reduceSum, ops::abs(node.b, node.input(0)));
}

std::vector<Value> reduceSumSquare(Node& node) {
  return reduceWith(node, ops::reduceSum, ops::square(node.b, node.input(0)));
}

std::vector<Value> reduceL2(Node& node) {
  return {ops::sqrt(node.b, reduceSumSquare(node)[0])};
}

std::vector<Value> reduceLogSum(Node& node) {
  return {ops::log(node.b, reduce<ops::reduceSum>(node)[0])};
}

constexpr std::array kReductionsTranslations = {
    Translation{"ReduceL1", reduceL1},
    Translation{"ReduceL2", reduceL2},
    Translation{"ReduceLogSum", reduceLogSum},
    Translation{"ReduceLogSumExp", reduce<ops::reduceLogSumExp>},
    Translation{"ReduceMax", reduce<ops::reduceMax>},
    Translation{"ReduceMean", reduce<ops::reduceMean>},
    Translation{"ReduceMin", reduce<ops::reduceMin>},
    Translation{"ReduceProd", reduce<ops::reduceProd>},
    Translation{"ReduceSum", reduce<ops::reduceSum>},
    Translation{"ReduceSumSquare", reduceSumSquare},
};

}  // namespace

std::span<const Translation> reductionTranslations() {
  return kReductionsTranslations;
}

}  // namespace sluice::onnx
