// Small graphs that programs are lowered from in tests, and what running them in rounds should
// give, by the reference kernels alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ops/interpreter.h"

namespace sluice::testing {

/// y = tanh(x w + bias) [rows, 3] of x [rows, 6], with a constant added: one input, one output.
ir::Graph inferenceModel(std::int64_t rows = 4);

/// The same with a target input, mean squared error, gradients accumulated with `mode` and a
/// momentum update; outputs "loss" and "y".
ir::Graph trainingModel(std::string_view mode = "sum", std::int64_t rows = 4);

/// The inputs of micro-batch `index` of a graph, uniform in [-1, 1).
ops::TensorMap randomInputs(const ir::Graph& graph, std::uint64_t seed, std::int64_t index);

/// The loop of micro-batches and the update behind it, op by op.
class RoundReference {
 public:
  RoundReference(const ir::Graph& graph, std::uint64_t seed);

  /// One round of as many micro-batches as there are inputs; returns the outputs of each. What the
  /// update makes is an output of every micro-batch.
  std::vector<ops::TensorMap> round(std::span<const ops::TensorMap> inputs, ir::RunInfo first = {});

  ops::TensorMap variables;

 private:
  ir::Graph loop_;
  ir::Graph update_;
};

}  // namespace sluice::testing
