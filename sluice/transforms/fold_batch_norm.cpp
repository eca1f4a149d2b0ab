#include "sluice/transforms/fold_batch_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/window_ops.h"
#include "sluice/transforms/purity.h"
#include "sluice/transforms/replace_op.h"

namespace sluice::transforms {
namespace {

using ir::Op;
using ir::OpId;
using ir::Value;
using Numbers = std::vector<double>;

/// The values of constants, and of what is computed from constants alone.
class Constants {
 public:
  explicit Constants(const ir::Graph& graph) : graph_(graph) {}

  const std::optional<HostTensor>& of(Value value) {
    if (const auto known = known_.find(value); known != known_.end()) {
      return known->second;
    }
    return known_.emplace(value, computed(graph_.op(value.op))).first->second;
  }

 private:
  std::optional<HostTensor> computed(const Op& op) {
    if (op.is(ir::kConstant)) {
      return op.attrs.tensor("value");
    }
    if (op.inputs.empty() || op.outputs.size() != 1 || !isPure(op) || op.def->traits.random) {
      return std::nullopt;
    }
    std::vector<HostTensor> operands;
    for (const Value input : op.inputs) {
      const std::optional<HostTensor>& operand = of(input);
      if (!operand) {
        return std::nullopt;
      }
      operands.push_back(*operand);
    }
    return ops::evaluate(*op.def, op.attrs, operands)[0];
  }

  const ir::Graph& graph_;
  std::unordered_map<Value, std::optional<HostTensor>> known_;
};

/// The numbers of a tensor that is added to [n, channels, ...], if it has one per channel.
std::optional<Numbers> perChannel(const HostTensor& tensor, const Shape& result) {
  const std::span dims = tensor.shape().dims();
  const std::size_t rank = result.dims().size();
  if (dims.size() > rank) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const bool isChannel = i + rank - dims.size() == 1;
    if (dims[i] != 1 && !(isChannel && dims[i] == result[1])) {
      return std::nullopt;
    }
  }
  Numbers numbers = tensor.toDoubles();
  numbers.resize(static_cast<std::size_t>(result[1]), numbers.at(0));
  return numbers;
}

/// Which operand is the weight of a product whose results have their channels at axis 1.
std::optional<std::size_t> weightOf(const ir::Graph& graph, const Op& op) {
  if (op.is(ops::kConv)) {
    return 1;
  }
  if (op.is(ops::kConvGradInput)) {
    return 0;
  }
  const bool isMatrix = op.is(ops::kMatMul) && op.outputs[0].shape.rank() == 2 &&
                        graph.type(op.inputs[1]).shape.rank() == 2;
  return isMatrix ? std::optional<std::size_t>(1) : std::nullopt;
}

/// The channel of the results that an element of the weight counts for, by its place on the first
/// two axes of the weight.
std::int64_t channelOf(const Op& product, const Shape& weight, std::int64_t i, std::int64_t j) {
  if (product.is(ops::kConvGradInput)) {
    const std::int64_t perGroup = weight[0] / product.attrs.integer("groups");
    return i / perGroup * weight[1] + j;
  }
  return product.is(ops::kMatMul) && !product.attrs.flag("transposeB") ? j : i;
}

/// A float32 from which rounding to 16 bits gives what it would give from the number itself: one
/// that is not exact is cut, and its last bit set.
float cutToOdd(double number) {
  auto cut = static_cast<float>(number);
  if (static_cast<double>(cut) == number || !std::isfinite(cut)) {
    return cut;
  }
  if (std::abs(static_cast<double>(cut)) > std::abs(number)) {
    cut = std::nextafter(cut, 0.0F);
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(cut) | 1U);
}

/// Rounds the numbers to the type, once; nothing if one of them is not finite then.
std::optional<HostTensor> rounded(const TensorType& type, const Numbers& numbers) {
  const bool half = type.dtype == DType::F16 || type.dtype == DType::BF16;
  HostTensor tensor(type);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    tensor.set(at, half ? static_cast<double>(cutToOdd(numbers[i])) : numbers[i]);
    if (!std::isfinite(tensor.at(at))) {
      return std::nullopt;
    }
  }
  return tensor;
}

/// Smaller numbers of the type have fewer bits.
double smallestNormal(DType dtype) {
  constexpr double kOfFloat16 = 0x1p-14;
  return dtype == DType::F64   ? std::numeric_limits<double>::min()
         : dtype == DType::F16 ? kOfFloat16
                               : std::numeric_limits<float>::min();  // bfloat16 has its exponents
}

/// The weight with each channel scaled; nothing if the largest element of one would lose bits.
std::optional<HostTensor> scaledWeight(const Op& product,
                                       const HostTensor& weight,
                                       const Numbers& scale) {
  const Shape& shape = weight.shape();
  const std::int64_t inner = shape.elements() / (shape[0] * shape[1]);
  Numbers numbers = weight.toDoubles();
  Numbers before(scale.size());
  Numbers after(scale.size());
  auto number = numbers.begin();
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      const auto c = static_cast<std::size_t>(channelOf(product, shape, i, j));
      for (std::int64_t k = 0; k < inner; ++k, ++number) {
        before[c] = std::max(before[c], std::abs(*number));
        *number *= scale[c];
        after[c] = std::max(after[c], std::abs(*number));
      }
    }
  }
  const double least = smallestNormal(weight.dtype());
  for (std::size_t c = 0; c < scale.size(); ++c) {
    if (before[c] >= least && after[c] < least && scale[c] != 0) {
      return std::nullopt;
    }
  }
  return rounded(weight.type(), numbers);
}

/// A product and the bias that is added to it before their norm.
struct NormedProduct {
  const Op* product = nullptr;
  std::size_t weight = 0;   ///< which operand of the product
  const Op* add = nullptr;  ///< null: there is no bias
  Numbers bias;             ///< per channel
};

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), users_(graph.users()), constants_(graph) {}

  bool run() {
    bool changed = false;
    for (const OpId id : std::vector(graph_.order().begin(), graph_.order().end())) {
      if (graph_.contains(id) && graph_.op(id).is(ops::kBatchNormInference)) {
        changed = fold(graph_.op(id)) || changed;
      }
    }
    return changed;
  }

 private:
  /// The op that makes a value that one op reads; null if others read it or it is an output.
  const Op* makerFor(Value value) const {
    const bool once = users_.of(value).size() == 1 && !users_.isOutput(value);
    return once ? &graph_.op(value.op) : nullptr;
  }

  std::optional<NormedProduct> productOf(const Op& norm) {
    const Shape& shape = norm.outputs[0].shape;
    NormedProduct found{.product = makerFor(norm.inputs[0]),
                        .bias = Numbers(static_cast<std::size_t>(shape[1]))};
    if (found.product != nullptr && found.product->is(ops::kAdd)) {
      found.add = found.product;
      const std::size_t side = constants_.of(found.add->inputs[1]) ? 1 : 0;
      const std::optional<HostTensor> bias = constants_.of(found.add->inputs[side]);
      std::optional<Numbers> numbers = bias ? perChannel(*bias, shape) : std::nullopt;
      if (!numbers) {
        return std::nullopt;
      }
      found.product = makerFor(found.add->inputs[1 - side]);
      found.bias = std::move(*numbers);
    }
    if (found.product == nullptr || found.product->outputs[0] != norm.outputs[0]) {
      return std::nullopt;
    }
    const std::optional<std::size_t> weight = weightOf(graph_, *found.product);
    found.weight = weight.value_or(0);
    return weight ? std::optional(std::move(found)) : std::nullopt;
  }

  bool fold(const Op& norm) {
    const Shape& shape = norm.outputs[0].shape;
    const std::optional<NormedProduct> found =
        shape.elements() == 0 ? std::nullopt : productOf(norm);
    if (!found) {
      return false;
    }
    const auto constant = [&](const Op& op, std::size_t i) { return constants_.of(op.inputs[i]); };
    const auto gamma = constant(norm, 1);
    const auto beta = constant(norm, 2);
    const auto mean = constant(norm, 3);
    const auto variance = constant(norm, 4);
    const auto weight = constant(*found->product, found->weight);
    if (!gamma || !beta || !mean || !variance || !weight || weight->shape().elements() == 0) {
      return false;
    }
    Numbers scale = gamma->toDoubles();
    Numbers offset = beta->toDoubles();
    const double epsilon = norm.attrs.real("epsilon");
    for (std::size_t c = 0; c < scale.size(); ++c) {
      const auto i = static_cast<std::int64_t>(c);
      scale[c] /= std::sqrt(variance->at(i) + epsilon);
      offset[c] += (found->bias[c] - mean->at(i)) * scale[c];
    }
    const auto newWeight = scaledWeight(*found->product, *weight, scale);
    const auto newBias =
        rounded({norm.outputs[0].dtype, ops::channelShape(shape[1], shape.rank())}, offset);
    if (!newWeight || !newBias) {
      return false;
    }
    replace(norm, *found, *newWeight, *newBias);
    users_ = graph_.users();
    return true;
  }

  /// The bias is added where the norm was, so that no block is left without an op.
  void replace(const Op& norm,
               const NormedProduct& found,
               const HostTensor& weight,
               const HostTensor& bias) {
    const Op& product = *found.product;
    std::vector<Value> operands = product.inputs;
    Value& replaced = operands[found.weight];
    replaced = constantBefore(product, weight, graph_.op(replaced.op).name);
    const OpId scaled = copyBefore(graph_, product.id, product, std::move(operands));
    const Value offset = constantBefore(norm, bias, graph_.op(norm.inputs[2].op).name);
    const OpId sum = graph_.insertBefore(norm.id,
                                         {.def = ops::kAdd,
                                          .inputs = {graph_.op(scaled).out(), offset},
                                          .name = norm.name,
                                          .place = norm.place});
    graph_.replaceUses({{norm.out(), graph_.op(sum).out()}});
    std::vector<OpId> gone = {norm.id, product.id};
    if (found.add != nullptr) {
      gone.push_back(found.add->id);
    }
    graph_.remove(gone);
  }

  Value constantBefore(const Op& op, const HostTensor& value, const std::string& name) {
    const OpId made = graph_.insertBefore(
        op.id,
        {.def = ir::kConstant, .attrs = {{"value", value}}, .name = name, .place = op.place});
    return graph_.op(made).out();
  }

  ir::Graph& graph_;
  ir::Users users_;
  Constants constants_;
};

}  // namespace

bool foldBatchNorm(ir::Graph& graph) {
  return Folder(graph).run();
}

}  // namespace sluice::transforms
