// Translations of the ai.graphcore ops that exchange values between the replicas of a model.
#include <array>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/vendor.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

using Operator = ops::CollectiveOperator;
/// The vendor's numbers.
enum class GroupType : std::uint8_t { All, Consecutive, Orthogonal, None };

Operator operatorOf(const Node& node) {
  const std::int64_t number = node.integer("__collectiveOperator", 0);
  if (number < 0 || number > static_cast<std::int64_t>(Operator::Local)) {
    raise<InvalidArgument>("__collectiveOperator must be a number from 0 to {}, got {}",
                           static_cast<int>(Operator::Local),
                           number);
  }
  return static_cast<Operator>(number);
}

/// As far as it is said: by the node or by who imports it; else 0.
std::int64_t knownReplicas(const Node& node) {
  const std::int64_t replicas = node.integer("replicas", node.replicas());
  if (replicas < 0) {
    raise<InvalidArgument>("expected a number of replicas from 1 on, got {}", replicas);
  }
  return replicas;
}

std::int64_t replicasOf(const Node& node) {
  const std::int64_t replicas = knownReplicas(node);
  if (replicas == 0) {
    node.unsupported(
        "the result depends on how many replicas there are: say so with ImportOptions::replicas");
  }
  return replicas;
}

/// Whether each replica is a group of its own. Groups of some replicas are refused.
bool isAlone(const Node& node) {
  const Ints group = node.integers("__collectiveCommGroup");
  if (group.empty()) {
    return false;
  }
  if (group.size() != 2 || group[0] < 0 || group[0] > static_cast<int>(GroupType::None)) {
    raise<InvalidArgument>("__collectiveCommGroup must be a type from 0 to 3 and a size");
  }
  const auto type = static_cast<GroupType>(group[0]);
  const bool all =
      type == GroupType::All || (type == GroupType::Consecutive && group[1] == knownReplicas(node));
  if (type != GroupType::None && !all) {
    node.unsupported("exchanges in groups of replicas are not supported, only between all of them");
  }
  return type == GroupType::None;
}

Value flat(Node& node, Value x) {
  return ops::reshape(node.b, x, Shape{node.b.shape(x).elements()});
}

/// x of all replicas as [replicas, ...].
Value stacked(Node& node) {
  const Value x = node.input(0);
  Ints dims = node.shape(0).dims();
  dims.insert(dims.begin(), replicasOf(node));
  return ops::replicaGather(node.b, flat(node, x), Shape(std::move(dims)), replicasOf(node));
}

/// The operand of a sum that stands for another operator, and what the sum is then multiplied by.
std::pair<Value, double> summand(Node& node, Operator op) {
  const Value x = node.input(0);
  return {op == Operator::SquareAdd ? ops::mul(node.b, x, x) : x,
          op == Operator::Mean ? 1.0 / static_cast<double>(replicasOf(node)) : 1.0};
}

Value timesFactor(Node& node, Value sum, double factor) {
  return factor == 1.0 ? sum : ops::mul(node.b, sum, node.b.scalar(node.b.dtype(sum), factor));
}

/// Only sums are made by the exchange itself; of the others every replica gets all operands.
Value reduced(Node& node, Operator op) {
  switch (op) {
    case Operator::Mul:
      return ops::reduceProd(node.b, stacked(node), {0}, false);
    case Operator::Min:
      return ops::reduceMin(node.b, stacked(node), {0}, false);
    case Operator::Max:
      return ops::reduceMax(node.b, stacked(node), {0}, false);
    case Operator::LogicalAnd:
    case Operator::LogicalOr: {
      if (node.dtype(0) != DType::Bool) {
        raise<InvalidArgument>("logical operators need an operand of type bool, got {}",
                               node.type(0).str());
      }
      const Value numbers = ops::cast(node.b, stacked(node), DType::I32);
      return ops::cast(node.b,
                       op == Operator::LogicalAnd ? ops::reduceMin(node.b, numbers, {0}, false)
                                                  : ops::reduceMax(node.b, numbers, {0}, false),
                       DType::Bool);
    }
    case Operator::Local:
      return ops::identity(node.b, node.input(0));
    case Operator::Add:
    case Operator::Mean:
    case Operator::SquareAdd:
      break;
  }
  const auto [x, factor] = summand(node, op);
  return timesFactor(node, ops::replicaSum(node.b, x, knownReplicas(node)), factor);
}

void requireOneOperand(const Node& node) {
  if (node.has(1)) {
    node.unsupported("a tensor that the layout of the exchange is taken from is not supported");
  }
}

std::vector<Value> allReduce(Node& node) {
  requireOneOperand(node);
  const Operator op = operatorOf(node);
  if (isAlone(node)) {
    return {op == Operator::SquareAdd ? summand(node, op).first
                                      : ops::identity(node.b, node.input(0))};
  }
  return {reduced(node, op)};
}

/// As the vendor's op, a vector.
std::vector<Value> allGather(Node& node) {
  requireOneOperand(node);
  if (isAlone(node)) {
    return {flat(node, node.input(0))};
  }
  return {flat(node, stacked(node))};
}

std::vector<Value> reduceScatter(Node& node) {
  requireOneOperand(node);
  const Operator op = operatorOf(node);
  if (op != Operator::Add && op != Operator::Mean && op != Operator::SquareAdd) {
    node.unsupported("only sums and means of replicas are scattered");
  }
  if (isAlone(node)) {
    return {flat(node, op == Operator::SquareAdd ? summand(node, op).first : node.input(0))};
  }
  const auto [x, factor] = summand(node, op);
  return {timesFactor(node, ops::replicaSumScatter(node.b, x, replicasOf(node)), factor)};
}

constexpr std::array kVendorReplicasTranslations = {
    Translation{"ReplicatedAllGather", allGather, ops::kVendorDomain},
    Translation{"ReplicatedAllReduce", allReduce, ops::kVendorDomain},
    Translation{"ReplicatedReduceScatter", reduceScatter, ops::kVendorDomain},
};

}  // namespace

std::span<const Translation> vendorReplicaTranslations() {
  return kVendorReplicasTranslations;
}

}  // namespace sluice::onnx
