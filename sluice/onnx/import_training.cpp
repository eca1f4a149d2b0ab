// Translations of the training ops of ai.onnx.preview.training: three optimizers in plain ops, and
// Gradient by differentiating a copy of what lies between two tensors.
#include <array>
#include <unordered_map>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/autodiff.h"

namespace sluice::onnx {
namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";

/// One optimizer node: rate, count of updates, then groups of as many tensors each (the tensors,
/// their gradients, the state).
class OptimizerNode {
 public:
  OptimizerNode(Node& node, std::size_t groups) : node_(node), b_(node.b) {
    const std::size_t tensors = node.numInputs() - 2;
    if (tensors == 0 || tensors % groups != 0) {
      raise<InvalidArgument>("expected a rate, a count and {} operands per tensor, got {} operands",
                             groups,
                             node.numInputs());
    }
    count_ = tensors / groups;
  }

  std::size_t tensors() const { return count_; }
  Value operand(std::size_t group, std::size_t i) { return node_.input(2 + group * count_ + i); }
  DType dtype(std::size_t i) { return b_.dtype(operand(0, i)); }
  Value rate(std::size_t i) { return ops::cast(b_, node_.input(0), dtype(i)); }
  Value updates(std::size_t i) { return ops::cast(b_, node_.input(1), dtype(i)); }
  /// Whether there was an update before.
  Value started() { return ops::greater(b_, node_.input(1), b_.scalar(node_.dtype(1), 0.0)); }
  Value number(std::size_t i, double value) { return b_.scalar(dtype(i), value); }
  Value scaled(std::size_t i, Value x, double factor) { return ops::mul(b_, x, number(i, factor)); }

  /// The gradient with that of the penalty on the tensor's size.
  Value regularized(std::size_t i) {
    const Value penalty = scaled(i, operand(0, i), node_.real("norm_coefficient", 0.0));
    return ops::add(b_, penalty, operand(1, i));
  }

 private:
  Node& node_;
  ir::GraphBuilder& b_;
  std::size_t count_ = 0;
};

/// Results come by kind: all tensors, then all states of one kind.
std::vector<Value> byKind(const std::vector<std::vector<Value>>& results) {
  std::vector<Value> all;
  for (std::size_t kind = 0; kind < results[0].size(); ++kind) {
    for (const std::vector<Value>& each : results) {
      all.push_back(each[kind]);
    }
  }
  return all;
}

std::vector<Value> adagrad(Node& node) {
  ir::GraphBuilder& b = node.b;
  OptimizerNode o(node, 3);
  std::vector<std::vector<Value>> results;
  for (std::size_t i = 0; i < o.tensors(); ++i) {
    const Value decay = o.scaled(i, o.updates(i), node.real("decay_factor", 0.0));
    const Value rate = ops::div(b, o.rate(i), ops::add(b, decay, o.number(i, 1.0)));
    const Value gradient = o.regularized(i);
    const Value squares = ops::add(b, o.operand(2, i), ops::square(b, gradient));
    const Value root = ops::add(b, ops::sqrt(b, squares), o.number(i, node.real("epsilon", 0.0)));
    const Value step = ops::div(b, ops::mul(b, rate, gradient), root);
    results.push_back({ops::sub(b, o.operand(0, i), step), squares});
  }
  return byKind(results);
}

/// The rate corrected for averages that started at 0; as it is before the first update.
Value adamRate(Node& node, OptimizerNode& o, std::size_t i) {
  ir::GraphBuilder& b = node.b;
  const Value one = o.number(i, 1.0);
  const auto missing = [&](std::string_view attr) {
    const Value left = ops::pow(b, o.number(i, node.real(attr)), o.updates(i));
    return ops::sub(b, one, left);
  };
  const Value corrected =
      ops::div(b, ops::mul(b, o.rate(i), ops::sqrt(b, missing("beta"))), missing("alpha"));
  return ops::where(b, o.started(), corrected, o.rate(i));
}

std::vector<Value> adam(Node& node) {
  ir::GraphBuilder& b = node.b;
  OptimizerNode o(node, 4);
  const double alpha = node.real("alpha", 0.9);
  const double beta = node.real("beta", 0.999);
  std::vector<std::vector<Value>> results;
  for (std::size_t i = 0; i < o.tensors(); ++i) {
    const Value gradient = o.regularized(i);
    const Value mean =
        ops::add(b, o.scaled(i, o.operand(2, i), alpha), o.scaled(i, gradient, 1.0 - alpha));
    const Value squares = ops::add(
        b, o.scaled(i, o.operand(3, i), beta), o.scaled(i, ops::square(b, gradient), 1.0 - beta));
    const Value root = ops::add(b, ops::sqrt(b, squares), o.number(i, node.real("epsilon", 0.0)));
    const Value step = ops::div(b, ops::mul(b, adamRate(node, o, i), mean), root);
    const Value moved = ops::sub(b, o.operand(0, i), step);
    const double left = 1.0 - node.real("norm_coefficient_post", 0.0);
    results.push_back({o.scaled(i, moved, left), mean, squares});
  }
  return byKind(results);
}

std::vector<Value> momentum(Node& node) {
  ir::GraphBuilder& b = node.b;
  OptimizerNode o(node, 3);
  const double alpha = node.real("alpha");
  const std::string mode = node.text("mode");
  if (mode != "standard" && mode != "nesterov") {
    raise<InvalidArgument>("mode is '{}', expected standard or nesterov", mode);
  }
  std::vector<std::vector<Value>> results;
  for (std::size_t i = 0; i < o.tensors(); ++i) {
    const Value gradient = o.regularized(i);
    const Value factor =
        ops::where(b, o.started(), o.number(i, node.real("beta")), o.number(i, 1.0));
    const Value velocity =
        ops::add(b, o.scaled(i, o.operand(2, i), alpha), ops::mul(b, factor, gradient));
    const Value direction =
        mode == "nesterov" ? ops::add(b, gradient, o.scaled(i, velocity, alpha)) : velocity;
    const Value step = ops::mul(b, o.rate(i), direction);
    results.push_back({ops::sub(b, o.operand(0, i), step), velocity});
  }
  return byKind(results);
}

/// Appends copies of the ops that depend on replaced values, composites in their parts.
class PathCopy {
 public:
  PathCopy(ir::GraphBuilder& b, std::unordered_map<Value, Value> replaced)
      : b_(b), copies_(std::move(replaced)) {}

  void run() {
    const auto order = b_.graph().order();
    copy({order.begin(), order.end()}, false);
  }

  /// The value computed from the replaced ones; none if it does not depend on them.
  Value of(Value value) const {
    const auto found = copies_.find(value);
    return found == copies_.end() ? Value() : found->second;
  }

 private:
  static bool isComposite(const ir::Op& op) {
    return op.def->grad == nullptr && op.def->decompose != nullptr;
  }

  void copy(const std::vector<ir::OpId>& ops, bool parts) {
    for (const ir::OpId id : ops) {
      const ir::Op& op = b_.graph().op(id);
      bool touched = parts && isComposite(op);
      std::vector<Value> inputs;
      for (const Value input : op.inputs) {
        const Value now = of(input);
        touched = touched || now.valid();
        inputs.push_back(now.valid() ? now : input);
      }
      if (!touched) {
        continue;
      }
      const std::vector<Value> results =
          isComposite(op) ? expanded(op, inputs) : b_.addMany(*op.def, inputs, op.attrs);
      for (std::size_t i = 0; i < results.size(); ++i) {
        copies_.emplace(op.out(i), results[i]);  // keeps the replaced ones
      }
    }
  }

  std::vector<Value> expanded(const ir::Op& op, const std::vector<Value>& inputs) {
    const std::size_t first = b_.graph().numOps();
    const std::vector<TensorType> types = b_.graph().inputTypes(op);
    std::vector<Value> results = op.def->decompose(b_, ir::view(op, types), inputs);
    const auto made = b_.graph().order().subspan(first);
    copy({made.begin(), made.end()}, true);
    for (Value& result : results) {
      result = of(result).valid() ? of(result) : result;
    }
    return results;
  }

  ir::GraphBuilder& b_;
  std::unordered_map<Value, Value> copies_;
};

/// Operands take the places of the tensors `xs` and `zs` name, all independent of each other; the
/// results are the slopes of the sum of `y` along the `xs`.
std::vector<Value> gradient(Node& node) {
  ir::GraphBuilder& b = node.b;
  std::vector<std::string> names = node.texts("xs");
  const std::size_t count = names.size();
  const std::vector<std::string> fixed = node.texts("zs");
  names.insert(names.end(), fixed.begin(), fixed.end());
  if (names.size() != node.numInputs()) {
    raise<InvalidArgument>(
        "xs and zs name {} tensors, got {} operands", names.size(), node.numInputs());
  }
  std::unordered_map<Value, Value> replaced;
  std::vector<Value> variables;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Value fresh = ops::identity(b, node.input(i));
    replaced.emplace(node.named(names[i]), fresh);
    if (i < count) {
      variables.push_back(fresh);
    }
  }
  const Value y = node.named(node.text("y"));
  PathCopy path(b, std::move(replaced));
  path.run();
  const std::size_t first = b.graph().numOps();
  const Value copy = path.of(y).valid() ? path.of(y) : y;
  const Value sum = b.shape(copy).rank() == 0 ? copy : ops::reduceSum(b, copy, {});
  std::vector<Value> grads = transforms::differentiate(b.graph(), sum, variables);
  // In this graph they are as any other op.
  const auto made = b.graph().order().subspan(first);
  for (const ir::OpId id : std::vector<ir::OpId>(made.begin(), made.end())) {
    ir::Placement place = b.graph().op(id).place;
    place.pass = ir::Pass::Forward;
    b.graph().setPlacement(id, place);
  }
  return grads;
}

constexpr std::array kTrainingTranslations = {
    Translation{"Adagrad", adagrad, kDomain},
    Translation{"Adam", adam, kDomain},
    Translation{"Gradient", gradient, kDomain},
    Translation{"Momentum", momentum, kDomain},
};

}  // namespace

std::span<const Translation> trainingTranslations() {
  return kTrainingTranslations;
}

}  // namespace sluice::onnx
