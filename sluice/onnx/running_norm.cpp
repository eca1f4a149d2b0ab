// What is looked for, once for the mean and once for the variance of a batch norm:
//
//     statistic -> [cast] -> mul(., 1 - momentum) -+
//                                                  +-> add -> assign to `variable`
//     `variable` ----------> mul(., momentum) -----+
#include "sluice/onnx/running_norm.h"

#include <array>
#include <optional>
#include <unordered_map>

#include "sluice/onnx/proto.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/eliminate_dead.h"

namespace sluice::onnx {
namespace {

using ir::Value;

/// A running average and how it is kept.
struct Average {
  std::string variable;
  double momentum = 0.0;
  Value next;       ///< the new average
  ir::OpId assign;  ///< writes it
};

/// The only op that reads the value; nullptr if there are none or several.
const ir::Op* onlyReader(const ir::Graph& graph, const ir::Users& users, Value value) {
  const auto uses = users.of(value);
  return uses.size() == 1 && !users.isOutput(value) ? &graph.op(uses[0].op) : nullptr;
}

std::optional<double> scalarOf(const ir::Graph& graph, Value value) {
  const ir::Op& op = graph.op(value.op);
  if (!op.is(ir::kConstant) || op.attrs.tensor("value").shape().rank() != 0) {
    return std::nullopt;
  }
  return op.attrs.tensor("value").at(0);
}

/// The number that is rounded to `factor` and whose complement is rounded to `rest`.
std::optional<double> momentumOf(DType dtype, double factor, double rest) {
  const double momentum = decimalDouble(static_cast<float>(factor));
  const auto rounded = [&](double number) {
    return HostTensor::full({dtype, Shape{}}, number).at(0);
  };
  const bool fits = rounded(momentum) == factor && rounded(1.0 - momentum) == rest;
  return fits ? std::optional(momentum) : std::nullopt;
}

/// The assign that writes the value to the variable.
const ir::Op* assignOf(const ir::Graph& graph,
                       const ir::Users& users,
                       Value value,
                       const std::string& variable) {
  for (const ir::Use& use : users.of(value)) {
    const ir::Op& op = graph.op(use.op);
    if (op.is(ir::kAssign) && op.attrs.text("var") == variable && op.attrs.text("mode") == "set") {
      return &op;
    }
  }
  return nullptr;
}

std::optional<Average> averageOf(const ir::Graph& graph, const ir::Users& users, Value statistic) {
  const ir::Op* reader = onlyReader(graph, users, statistic);
  if (reader != nullptr && reader->is(ops::kCast)) {
    statistic = reader->out();
    reader = onlyReader(graph, users, statistic);
  }
  if (reader == nullptr || !reader->is(ops::kMul) || reader->inputs[0] != statistic) {
    return std::nullopt;
  }
  const ir::Op* sum = onlyReader(graph, users, reader->out());
  if (sum == nullptr || !sum->is(ops::kAdd) || sum->inputs[1] != reader->out()) {
    return std::nullopt;
  }
  const ir::Op& kept = graph.op(sum->inputs[0].op);
  const std::optional<double> rest = scalarOf(graph, reader->inputs[1]);
  if (!kept.is(ops::kMul) || !rest) {
    return std::nullopt;
  }
  const ir::Op& running = graph.op(kept.inputs[0].op);
  const std::optional<double> factor = scalarOf(graph, kept.inputs[1]);
  if (!running.is(ir::kVariable) || !factor) {
    return std::nullopt;
  }
  const std::string& variable = running.attrs.text("var");
  const ir::Op* assign = assignOf(graph, users, sum->out(), variable);
  const std::optional<double> momentum = momentumOf(running.outputs[0].dtype, *factor, *rest);
  if (assign == nullptr || !momentum) {
    return std::nullopt;
  }
  return Average{variable, *momentum, sum->out(), assign->id};
}

Value appendRead(ir::Graph& graph, const ir::Op& op, const std::string& variable) {
  return {graph.append({.def = ir::kVariable,
                        .attrs = {{"var", variable}},
                        .name = variable,
                        .place = op.place,
                        .types = {graph.findVariable(variable)->type}}),
          0};
}

const ir::Op& appendJoined(ir::Graph& graph,
                           const ir::Op& norm,
                           const Average& mean,
                           const Average& variance) {
  const Value oldMean = appendRead(graph, norm, mean.variable);
  const Value oldVariance = appendRead(graph, norm, variance.variable);
  return graph.op(graph.append(
      {.def = kRunningBatchNorm,
       .inputs = {norm.inputs[0], norm.inputs[1], norm.inputs[2], oldMean, oldVariance},
       .attrs = {{"epsilon", norm.attrs.real("epsilon")}, {"momentum", mean.momentum}},
       .name = norm.name,
       .place = norm.place,
       .types = {norm.outputs[0], graph.type(oldMean), graph.type(oldVariance)}}));
}

constexpr std::array<ir::AttrSpec, 2> kRunningAttrs = {
    {{.name = "epsilon", .kind = ir::AttrKind::Real, .required = true},
     {.name = "momentum", .kind = ir::AttrKind::Real, .required = true}}};

}  // namespace

constinit const ir::OpDef kRunningBatchNorm{.name = "running_batch_norm",
                                            .minInputs = 5,
                                            .maxInputs = 5,
                                            .outputs = 3,
                                            .attrs = kRunningAttrs};

void joinRunningStatistics(ir::Graph& graph) {
  const std::vector<ir::OpId> before(graph.order().begin(), graph.order().end());
  const ir::Users users = graph.users();
  std::vector<ir::OpId> order;
  std::vector<ir::OpId> gone;
  std::unordered_map<Value, Value> replacements;
  for (const ir::OpId id : before) {
    const ir::Op& norm = graph.op(id);
    if (norm.is(ops::kBatchNorm)) {
      const std::optional<Average> mean = averageOf(graph, users, norm.out(1));
      const std::optional<Average> variance = averageOf(graph, users, norm.out(2));
      const double epsilon = norm.attrs.real("epsilon");
      if (mean && variance && mean->momentum == variance->momentum &&
          decimalDouble(static_cast<float>(epsilon)) == epsilon) {
        const std::size_t first = graph.numOps();
        const ir::Op& joined = appendJoined(graph, norm, *mean, *variance);
        const auto made = graph.order().subspan(first);
        order.insert(order.end(), made.begin(), made.end());
        replacements.insert({{norm.out(), joined.out()},
                             {mean->next, joined.out(1)},
                             {variance->next, joined.out(2)}});
        gone.insert(gone.end(), {mean->assign, variance->assign});
      }
    }
    order.push_back(id);
  }
  if (gone.empty()) {
    return;
  }
  graph.reorder(std::move(order));
  graph.replaceUses(replacements);
  graph.remove(gone);
  transforms::eliminateDead(graph);
}

}  // namespace sluice::onnx
