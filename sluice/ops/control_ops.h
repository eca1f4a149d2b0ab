// Control flow: ops that run bodies (body.h). They lie in one segment, as all ops do, and a device
// compiles a body once. `decompose` gives their forms without control flow, for devices that have
// no kernel for them and for files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::ops {

using ir::GraphBuilder;
using ir::Value;

/// loop(carried..., scanned..., fixed...) -> carried..., rows...: runs `body` `count` times.
/// - A carried operand is the body's input in the first iteration; in later ones it is what the
///   body returned in the iteration before. The result is what the last iteration returned.
/// - A scanned operand has `count` rows on its first axis; each iteration gets one.
/// - A fixed operand is the same in every iteration.
/// - The other outputs of the body are rows of results whose first axis has extent `count`.
/// If `reverse` is set, the first iteration has the last row.
extern const ir::OpDef kLoop;

/// branch(condition, operands...) -> results: `then` or `else`, by a bool that is computed. The
/// other one does not run.
extern const ir::OpDef kBranch;

/// Whether the op runs bodies: true for loop and branch.
bool isControlFlow(const ir::OpDef& def);

/// More iterations are not unrolled: each is a copy of the body.
inline constexpr std::int64_t kMaxUnrolled = 10'000;

/// The operands of a loop by kind; attributes of an op of kLoop.
struct LoopView {
  const ir::Graph& body;
  std::int64_t count;
  std::size_t carried;
  std::size_t scanned;
  bool reverse;

  LoopView(const ir::Attrs& attrs);  // NOLINT(google-explicit-constructor): the same in other words
  bool isCarried(std::size_t input) const { return input < carried; }
  bool isScanned(std::size_t input) const { return !isCarried(input) && input < carried + scanned; }
  bool isFixed(std::size_t input) const { return input >= carried + scanned; }
  /// Whether the unrolled form has an identity for this carried result (loop.cpp says why).
  bool isCopied(std::size_t result) const;
  /// The row that iteration i reads and writes.
  std::int64_t row(std::int64_t i) const { return reverse ? count - 1 - i : i; }
};

/// The type of a row of a tensor, which must have an axis.
TensorType rowType(const TensorType& type);
/// The type of so many rows.
TensorType rowsType(std::int64_t count, const TensorType& row);

struct LoopParts {
  ir::GraphRef body;
  std::int64_t count = 0;
  std::vector<Value> carried = {};
  std::vector<Value> scanned = {};
  std::vector<Value> fixed = {};
  bool reverse = false;
};
/// Returns the last carried values, then the rows.
std::vector<Value> loop(GraphBuilder& b, const LoopParts& parts);

std::vector<Value> branch(GraphBuilder& b,
                          Value condition,
                          std::vector<Value> operands,
                          ir::GraphRef thenBody,
                          ir::GraphRef elseBody);

}  // namespace sluice::ops
