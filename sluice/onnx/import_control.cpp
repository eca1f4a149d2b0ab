// Translations of control flow. A Loop with a known trip count becomes a loop op, and an If on a
// computed condition a branch op, if their bodies can be cut out of the graph. Else a body is
// inlined once for every time it runs, and a computed condition keeps both results, of which
// `where` takes one. A condition that is known decides here.
#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/onnx/files.h"
#include "sluice/onnx/sequence.h"
#include "sluice/onnx/translations.h"
#include "sluice/onnx/unroll.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Values = std::vector<Value>;

/// Says which inputs to bind so that the value is known, and why.
[[noreturn]] void requireKnown(Node& node, Value value, std::string_view why) {
  try {
    node.evaluate(value);
  } catch (const NeedsConstant& error) {
    throw NeedsConstant(
        fmt::format("{}: shape depends on computed values; bind the inputs that decide it in "
                    "ImportOptions.constants",
                    why),
        error.inputs());
  }
  SLUICE_CHECK(false, "a value that is known was held for computed");
}

Value asCondition(Node& node, Value value) {
  const TensorType& type = node.b.type(value);
  if (type.dtype != DType::Bool || type.shape.elements() != 1) {
    raise<InvalidArgument>("a condition must be one bool, got {}", type.str());
  }
  return type.shape.rank() == 0 ? value : ops::reshape(node.b, value, Shape{});
}

bool isTrue(Node& node, Value condition) {
  return node.evaluate(condition).at(0) != 0.0;
}

/// One of two results by a condition that is computed.
Value select(Node& node, Value condition, Value yes, Value no) {
  if (yes == no) {
    return yes;
  }
  const ir::Graph& graph = node.b.graph();
  if (isSequence(graph, yes) && isSequence(graph, no)) {
    Values parts = elementsOf(graph, yes);
    const Values others = elementsOf(graph, no);
    if (parts.size() != others.size()) {
      requireKnown(node, condition, "a condition chooses between sequences of other lengths");
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = select(node, condition, parts[i], others[i]);
    }
    return makeSequence(node, std::move(parts));
  }
  if (node.b.type(yes) != node.b.type(no)) {
    requireKnown(node,
                 condition,
                 fmt::format("a condition chooses between {} and {}",
                             node.b.type(yes).str(),
                             node.b.type(no).str()));
  }
  return ops::where(node.b, condition, yes, no);
}

/// Whether both have the same types, and no sequence is among them.
bool areTensorsAlike(Node& node, const Values& values, const Values& others) {
  const ir::Graph& graph = node.b.graph();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (isSequence(graph, values[i]) || isSequence(graph, others[i]) ||
        graph.type(values[i]) != graph.type(others[i])) {
      return false;
    }
  }
  return true;
}

Values ifElse(Node& node) {
  const Value condition = asCondition(node, node.input(0));
  if (node.canEvaluate(condition)) {
    return node.inlineBody(isTrue(node, condition) ? "then_branch" : "else_branch", {});
  }
  const std::size_t first = node.b.graph().numOps();
  Values results = node.inlineBody("then_branch", {});
  const std::size_t second = node.b.graph().numOps();
  const Values others = node.inlineBody("else_branch", {});
  if (results.size() != others.size()) {
    raise<InvalidArgument>("the branches have {} and {} results", results.size(), others.size());
  }
  if (areTensorsAlike(node, results, others)) {
    if (const auto chosen = ops::cutBranches(node.b,
                                             condition,
                                             {first, second, results},
                                             {second, node.b.graph().numOps(), others})) {
      return *chosen;
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = select(node, condition, results[i], others[i]);
  }
  return results;
}

/// A Loop while it is unrolled.
struct Loop {
  std::int64_t limit = 0;
  Value condition;    ///< of the next run
  Value active = {};  ///< valid once a condition was computed: whether the loop still runs
  Values carried = {};
  Rows scanned = {};
  bool wantsRows = false;
};

Values runBody(Node& node, const Loop& loop, std::int64_t run) {
  Values inputs = {node.b.constant(HostTensor::scalar(run)), loop.condition};
  inputs.insert(inputs.end(), loop.carried.begin(), loop.carried.end());
  Values results = node.inlineBody("body", inputs);
  if (results.size() <= loop.carried.size()) {
    raise<InvalidArgument>("the body must give a condition and {} values, got {}",
                           loop.carried.size(),
                           results.size());
  }
  results[0] = asCondition(node, results[0]);
  return results;
}

/// Whether the body may run once more.
bool mayRun(Node& node, Loop& loop) {
  if (node.canEvaluate(loop.condition)) {
    return isTrue(node, loop.condition);
  }
  if (loop.wantsRows) {
    requireKnown(node, loop.condition, "a computed condition ends the loop that makes rows");
  }
  if (loop.limit > node.limits().runs) {
    requireKnown(node, loop.condition, "a computed condition ends a loop of no known trip count");
  }
  loop.active =
      loop.active.valid() ? ops::logicalAnd(node.b, loop.active, loop.condition) : loop.condition;
  return true;
}

void takeResults(Node& node, Loop& loop, const Values& results) {
  const std::size_t count = loop.carried.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Value fresh = results[i + 1];
    loop.carried[i] =
        loop.active.valid() ? select(node, loop.active, fresh, loop.carried[i]) : fresh;
  }
  if (loop.wantsRows) {
    loop.scanned.add(node, std::span(results).subspan(count + 1));
  }
  loop.condition = results[0];
}

/// Whether no run changes the condition: it was passed on, or is written in the file.
bool staysTheSame(Node& node, Value before, Value after) {
  const auto source = [&](Value value) {
    const ir::Op* op = &node.b.graph().op(value.op);
    while (op->is(ops::kIdentity) || op->is(ops::kReshape)) {
      value = op->inputs[0];
      op = &node.b.graph().op(value.op);
    }
    return value;
  };
  const Value last = source(after);
  const bool constant = node.b.graph().op(last.op).is(ir::kConstant) && isTrue(node, last);
  return constant || last == source(before);
}

/// Elements of all sequences among the values.
std::size_t lengthOf(Node& node, const Values& values) {
  std::size_t length = 0;
  for (const Value value : values) {
    length += isSequence(node.b.graph(), value) ? elementsOf(node.b.graph(), value).size() : 0;
  }
  return length;
}

/// Refuses at once sequences that grow in every run: each run makes the whole of them anew.
void requireGrowth(Node& node, const Loop& loop, std::size_t before) {
  const std::size_t after = lengthOf(node, loop.carried);
  const auto runs = static_cast<double>(loop.limit);
  const double elements =
      after > before ? static_cast<double>(after - before) * runs * (runs + 1) / 2 : 0;
  if (elements > static_cast<double>(node.limits().sequenceElements)) {
    node.unsupported(
        fmt::format("sequences that grow in each of {} runs would have {:.0f} elements in all, the "
                    "limit is {}: raise ImportOptions::limits.sequenceElements",
                    loop.limit,
                    elements,
                    node.limits().sequenceElements));
  }
}

/// The loop as one op, if its trip count is known and its condition stays true.
std::optional<Values> rolledLoop(Node& node, const Loop& loop) {
  const ir::Graph& graph = node.b.graph();
  if (loop.limit < node.rollFrom() || loop.limit == std::numeric_limits<std::int64_t>::max() ||
      !node.canEvaluate(loop.condition) || !isTrue(node, loop.condition) ||
      std::ranges::any_of(loop.carried, [&](Value v) { return isSequence(graph, v); })) {
    return std::nullopt;
  }
  const Value numbers = ops::iota(node.b, {DType::I64, Shape{loop.limit}});
  const auto build = [&](std::span<const Value> carried,
                         std::span<const Value> rows) -> std::optional<ops::Iteration> {
    Values inputs = {rows[0], loop.condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    const Values results = node.inlineBody("body", inputs);
    if (results.size() <= carried.size() ||
        !staysTheSame(node, loop.condition, asCondition(node, results[0]))) {
      return std::nullopt;
    }
    const auto split = results.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size());
    return ops::Iteration{.carried = {results.begin() + 1, split}, .rows = {split, results.end()}};
  };
  return rollLoop(
      node, {.count = loop.limit, .carried = loop.carried, .scanned = {numbers}}, build);
}

Values loopTranslation(Node& node) {
  Loop loop;
  loop.limit = node.integerOf(0, std::numeric_limits<std::int64_t>::max());
  loop.condition =
      node.has(1) ? asCondition(node, node.input(1)) : node.b.constant(HostTensor::scalar(true));
  for (std::size_t i = 2; i < node.numInputs(); ++i) {
    loop.carried.push_back(node.input(i));
  }
  for (std::size_t i = loop.carried.size(); i < node.numOutputs(); ++i) {
    loop.wantsRows = loop.wantsRows || node.wants(i);
  }
  if (std::optional<Values> results = rolledLoop(node, loop)) {
    return std::move(*results);
  }
  std::int64_t run = 0;
  while (run < loop.limit && mayRun(node, loop)) {
    const Value before = loop.condition;
    const std::size_t opsBefore = node.b.graph().numOps();
    const std::size_t lengthsBefore = run == 0 ? lengthOf(node, loop.carried) : 0;
    takeResults(node, loop, runBody(node, loop, run));
    requireRuns(node, ++run);
    if (run == 1 && staysTheSame(node, before, loop.condition)) {
      requireAllRuns(node, loop.limit, node.b.graph().numOps() - opsBefore);
      requireGrowth(node, loop, lengthsBefore);
    }
  }
  if (run == 0 && loop.wantsRows) {
    loop.scanned.learn(
        node, std::span<const Value>(runBody(node, loop, 0)).subspan(loop.carried.size() + 1));
  }
  Values results = loop.carried;
  for (std::size_t i = 0; i < loop.scanned.rows.size(); ++i) {
    results.push_back(stack(node, std::move(loop.scanned.rows[i]), 0, loop.scanned.types[i]));
  }
  return results;
}

constexpr std::array kControlTranslations = {
    Translation{"If", ifElse},
    Translation{"Loop", loopTranslation, "", true},
    Translation{"Scan", importScan},
};

}  // namespace

std::span<const Translation> controlTranslations() {
  return kControlTranslations;
}

}  // namespace sluice::onnx
