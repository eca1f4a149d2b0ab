// What the element-wise engine computes: a list of ops on numbered values. It comes from one op,
// from the body of a `fused` op, or from the part of such a body that follows its anchor.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::devices::cpu {

/// Operands and results are value numbers.
struct BodyOp {
  std::string_view name;
  const ir::Attrs* attrs;
  std::vector<std::size_t> inputs;
  std::size_t output;
};

/// Values 0 .. inputs-1 are the inputs, then constants, then results. All results have one shape.
struct BlockBody {
  /// In `sources`: the input is not an operand of the op but the result of its anchor.
  static constexpr std::size_t kAnchor = static_cast<std::size_t>(-1);

  std::vector<TensorType> values = {};
  std::vector<HostTensor> constants = {};
  std::vector<BodyOp> ops = {};
  std::vector<std::size_t> outputs = {};
  std::vector<std::size_t> sources = {};  ///< the operand of the op that each input is
  std::vector<std::size_t> targets = {};  ///< the result of the op that each output is

  std::size_t numInputs() const { return sources.size(); }
};

/// The body of an element-wise op.
BlockBody singleBody(const ir::OpView& op);

/// The body of a `fused` op without an anchor; nullopt if one of its ops is not element-wise.
std::optional<BlockBody> fusedBody(const ir::OpView& op);

/// The ops after the anchor of a `fused` op; the anchor's result is their last input. If the
/// anchor's result is also a result of the op, `kept` is its number and the body does not copy it.
struct Epilogue {
  BlockBody body = {};
  std::optional<std::size_t> kept = {};
};
Epilogue epilogueOf(const ir::OpView& op, const ir::Op& anchor);

}  // namespace sluice::devices::cpu
