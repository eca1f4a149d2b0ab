// Small graphs that tests lower to programs, and the results of running them in rounds, computed by
// the reference kernels alone.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ops/interpreter.h"

namespace sluice::testing {

/// y = tanh(x w + bias) [rows, 3] for x [rows, 6], plus a constant: one input, one output.
ir::Graph inferenceModel(std::int64_t rows = 4);

/// Same as above, with a target input, mean squared error, gradients accumulated with `mode` and a
/// momentum update; the outputs are "loss" and "y".
ir::Graph trainingModel(std::string_view mode = "sum", std::int64_t rows = 4);

/// The inputs of micro-batch `index` of a graph, uniform in [-1, 1).
ops::TensorMap randomInputs(const ir::Graph& graph, std::uint64_t seed, std::int64_t index);

/// Runs the loop over micro-batches and the update after it, op by op.
class RoundReference {
 public:
  RoundReference(const ir::Graph& graph, std::uint64_t seed);

  /// Runs one round with as many micro-batches as there are inputs; returns the outputs of each. A
  /// result of the update is an output of every micro-batch.
  std::vector<ops::TensorMap> round(std::span<const ops::TensorMap> inputs, ir::RunInfo first = {});

  ops::TensorMap variables;

 private:
  ir::Graph loop_;
  ir::Graph update_;
};

}  // namespace sluice::testing
