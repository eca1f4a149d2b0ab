// The body of a control-flow op as kernels over planned memory. `planBody` chooses a kernel for
// every op with the table of the CPU, changes storage layouts where kernels want other ones, and
// places what the body computes in one piece of scratch memory. What depends only on fixed inputs
// runs once, before the first iteration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/device/device.h"
#include "sluice/ir/graph.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::devices::cpu {

/// Of memory that kernels work on.
inline constexpr std::size_t kBodyAlignment = 64;

/// What a body meets from outside. Inputs that are not fixed change between iterations.
struct BodyFrame {
  std::size_t fixedFrom = 0;  ///< inputs from this one on are fixed
  std::size_t carried = 0;    ///< output i < carried becomes input i of the next iteration
  /// Whether the other inputs and outputs are rows of tensors: these need not be aligned, and then
  /// kernels work on copies.
  bool rows = false;
};

/// The buffers of a plan are numbered: first the inputs of the body, then its outputs, then what
/// the plan adds.
struct BodyPlan {
  struct Placed {
    std::size_t buffer;
    std::size_t offset;  ///< in scratch
  };
  struct Constant {
    std::size_t buffer;
    HostTensor value;
  };

  std::vector<device::KernelCall> before;  ///< once
  std::vector<device::KernelCall> each;    ///< per iteration
  std::size_t buffers = 0;
  std::vector<Placed> placed = {};
  std::vector<Constant> constants = {};
  std::size_t scratchBytes = 0;
  /// By carried value: whether its output is its input, as it is.
  std::vector<bool> unchanged = {};
  /// By carried value: a second place in scratch, which takes turns with the result's; none if the
  /// new value may overwrite the old one.
  std::vector<std::optional<std::size_t>> spare = {};
};

/// Says which kernel an op of a body gets. Called once per op that is computed, in order.
using ChooseKernel = FunctionRef<device::Choice(const ir::OpView&)>;

BodyPlan planBody(const ir::Graph& body, const BodyFrame& frame, ChooseKernel choose);

/// Choices as one text, which the Choice of a control-flow op has as its config.
std::string choicesText(std::span<const device::Choice> choices);
/// Throws Unsupported for a text that choicesText did not write.
std::vector<device::Choice> parseChoices(std::string_view text);

}  // namespace sluice::devices::cpu
