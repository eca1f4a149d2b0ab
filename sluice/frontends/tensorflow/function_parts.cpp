// The parts of a traced function: what is before its loop, in it and behind it.
#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/frontends/tensorflow/function_trace.h"
#include "sluice/nn/tracer.h"

namespace sluice {
namespace {

/// Every part makes these for itself.
bool isFree(const ir::Op& op) {
  return op.is(ir::kVariable) || op.is(ir::kConstant);
}

std::string earlyName(const std::string& prefix, std::size_t i) {
  return fmt::format("{}/early{}", prefix, i);
}

std::string resultName(const std::string& prefix, std::size_t i) {
  return fmt::format("{}/result{}", prefix, i);
}

/// The variable that a value is the read of, or nothing.
std::string variableOf(const ir::Graph& graph, ir::Value value) {
  const ir::Op& op = graph.op(value.op);
  return op.is(ir::kVariable) ? op.attrs.text("var") : "";
}

/// Takes the blocks from a graph: they are those of the loop, and a part that runs once is on one
/// device. Returns where the ops went.
std::unordered_map<ir::OpId, ir::OpId> removeBlocks(ir::Graph& graph) {
  ir::Graph plain(graph.name());
  for (const ir::Variable& variable : graph.variables()) {
    plain.addVariable(variable);
  }
  std::unordered_map<ir::OpId, ir::OpId> ids;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    std::vector<ir::Value> inputs;
    for (const ir::Value value : op.inputs) {
      inputs.push_back({ids.at(value.op), value.out});
    }
    ids.emplace(
        id,
        plain.append({.def = *op.def,
                      .inputs = std::move(inputs),
                      .attrs = op.attrs,
                      .name = op.name,
                      .types = op.def->infer == nullptr ? op.outputs : std::vector<TensorType>()}));
  }
  graph = std::move(plain);
  return ids;
}

}  // namespace

FunctionPart FunctionTrace::partOf(std::size_t position) const {
  return position < loopFirst_    ? FunctionPart::Before
         : position < afterFirst_ ? FunctionPart::Loop
                                  : FunctionPart::After;
}

bool FunctionTrace::hasEffects(FunctionPart part) const {
  const ir::Graph& graph = nn::Tracer::current().graph();
  bool found = false;
  for (std::size_t p = first_; p < graph.numOps(); ++p) {
    const ir::Op& op = graph.op(graph.order()[p]);
    const bool counts = partOf(p) == part && op.def->traits.effect;
    if (counts && op.is(ir::kAssign) && part == FunctionPart::Before) {
      raise<Unsupported>("compile: buffer '{}' is written before the loop", op.attrs.text("var"));
    }
    found = found || counts;
  }
  return found;
}

void FunctionTrace::note(ir::Value value, std::size_t position, FunctionPart reader) {
  const ir::Op& op = nn::Tracer::current().graph().op(value.op);
  if (position < first_ || isFree(op) || partOf(position) == reader) {
    return;
  }
  if (partOf(position) == FunctionPart::Loop) {
    raise<Unsupported>(
        "compile: '{}' is a value of the loop's body that is read behind the loop, and the body "
        "does not return it",
        op.name);
  }
  const EarlyValue early{position - first_, value.out};
  if (std::ranges::find(plan.early, early) == plan.early.end()) {
    plan.early.push_back(early);
  }
}

void FunctionTrace::complete(const std::vector<nn::Tensor>& results) {
  const ir::Graph& graph = nn::Tracer::current().graph();
  std::unordered_map<ir::OpId, std::size_t> positions;
  for (const ir::OpId id : graph.order()) {
    positions.emplace(id, positions.size());
  }
  for (std::size_t p = loopFirst_; p < graph.numOps(); ++p) {
    for (const ir::Value value : graph.op(graph.order()[p]).inputs) {
      note(value, positions.at(value.op), partOf(p));
    }
  }
  for (const nn::Tensor& value : outfeedValues_) {
    note(value.value(), positions.at(value.value().op), FunctionPart::Loop);
  }
  for (const nn::Tensor& start : starts_) {
    const auto input = std::ranges::find(inputs_, start.value(), &nn::Tensor::value);
    const bool computed = input == inputs_.end();
    plan.before = plan.before || computed;
    plan.starts.emplace_back(computed ? std::nullopt : std::optional(input - inputs_.begin()));
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    const ir::Value value = results[r].value();
    note(value, positions.at(value.op), FunctionPart::After);
    const std::string variable = variableOf(graph, value);
    plan.after = plan.after || variable.empty();
    plan.results.push_back(variable.empty() ? resultName(prefix_, r) : variable);
  }
  plan.before = hasEffects(FunctionPart::Before) || plan.before || !plan.early.empty();
  plan.after = hasEffects(FunctionPart::After) || plan.after;
  plan.opsBefore = loopFirst_ - first_;
}

void FunctionTrace::replaceEarly(const std::vector<EarlyValue>& early) {
  ir::Graph& graph = nn::Tracer::current().graph();
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  std::unordered_map<ir::Value, ir::Value> reads;
  const std::vector<ir::OpId> order(graph.order().begin(), graph.order().end());
  for (std::size_t k = 0; k < early.size(); ++k) {
    const ir::Value value{order.at(first_ + early[k].op), early[k].out};
    declare(earlyName(prefix_, k), graph.type(value));
    const ir::OpId read = graph.insertBefore(order[first_],
                                             {.def = ir::kVariable,
                                              .attrs = {{"var", earlyName(prefix_, k)}},
                                              .name = earlyName(prefix_, k),
                                              .types = {graph.type(value)}});
    reads.emplace(value, ir::Value{read, 0});
  }
  graph.replaceUses(reads);
  for (std::vector<nn::Tensor>* list : {&outfeedValues_, &carried_}) {
    for (nn::Tensor& tensor : *list) {
      const auto found = reads.find(tensor.value());
      tensor = found == reads.end() ? tensor : nn::Tensor(b, found->second);
    }
  }
}

FunctionTrace::Stored FunctionTrace::storedBy(FunctionPart part,
                                              const std::vector<EarlyValue>& early,
                                              const std::vector<nn::Tensor>& results) const {
  const ir::Graph& graph = nn::Tracer::current().graph();
  Stored stored;
  if (part == FunctionPart::Before) {
    for (std::size_t k = 0; k < early.size(); ++k) {
      const ir::OpId op = graph.order()[first_ + early[k].op];
      stored.emplace_back(earlyName(prefix_, k), ir::Value{op, early[k].out});
    }
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      stored.emplace_back(carryName(prefix_, i), starts_[i].value());
    }
  }
  for (std::size_t r = 0; part == FunctionPart::After && r < results.size(); ++r) {
    if (variableOf(graph, results[r].value()).empty()) {
      stored.emplace_back(resultName(prefix_, r), results[r].value());
    }
  }
  return stored;
}

std::vector<ir::OpId> FunctionTrace::opsOutside(FunctionPart part) const {
  const ir::Graph& graph = nn::Tracer::current().graph();
  std::vector<ir::OpId> others;
  for (std::size_t p = first_; p < graph.numOps(); ++p) {
    const ir::OpId id = graph.order()[p];
    if (partOf(p) != part && !isFree(graph.op(id))) {
      others.push_back(id);
    }
  }
  return others;
}

void FunctionTrace::keepLoop(const FunctionPlan& complete) {
  if (complete.opsBefore != loopFirst_ - first_) {
    raise<Unsupported>(
        "compile: what is computed before the loop is not the same when training (dropout or batch "
        "norm, say); compute it in the loop");
  }
  ir::Graph& graph = nn::Tracer::current().graph();
  const std::vector<ir::OpId> others = opsOutside(FunctionPart::Loop);
  replaceEarly(complete.early);
  graph.remove(others);
  std::erase_if(nn::Tracer::current().memoryHints(),
                [&](const nn::MemoryHint& hint) { return !graph.contains(hint.value.op); });
}

nn::Tensor FunctionTrace::keepOnce(FunctionPart part,
                                   const FunctionPlan& complete,
                                   const std::vector<nn::Tensor>& results) {
  ir::Graph& graph = nn::Tracer::current().graph();
  ir::GraphBuilder& b = nn::Tracer::current().builder();
  const std::vector<ir::OpId> others = opsOutside(part);
  const Stored stored = storedBy(part, complete.early, results);
  for (const auto& [name, value] : stored) {
    declare(name, graph.type(value));
    b.assign(name, value);
  }
  if (part == FunctionPart::After) {
    replaceEarly(complete.early);
  }
  // Where there are only effects, any output will do.
  const ir::Value output =
      stored.empty() ? b.scalar(DType::F32, 0) : graph.op(graph.order().back()).inputs[0];
  graph.remove(others);
  const std::unordered_map<ir::OpId, ir::OpId> ids = removeBlocks(graph);
  nn::Tracer::current().memoryHints().clear();
  return {b, {ids.at(output.op), output.out}};
}

}  // namespace sluice
