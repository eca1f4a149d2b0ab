// Runs one op on a device as a program would: chooses the kernel, lays operands out, prepares and
// launches. Every buffer is between guard bytes, which are checked afterwards (a GoogleTest failure
// if they were overwritten).
#pragma once

#include <optional>
#include <vector>

#include "sluice/device/device.h"
#include "sluice/ir/graph.h"
#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

struct DeviceRun {
  const ir::OpDef& def;
  ir::Attrs attrs = {};
  std::vector<HostTensor> inputs = {};
  /// The layout for a kernel with LayoutRule::Follow.
  device::Layout follow = {};
  /// If set, output 0 shares the memory of this input.
  std::optional<std::size_t> inPlace = {};
  ir::RunInfo info = {};
};

/// Returns the results in plain layout.
std::vector<HostTensor> runOnDevice(device::Device& device, const DeviceRun& run);

/// Returns the outputs of a graph without variables; each of its ops runs separately.
std::vector<HostTensor> runOpByOp(device::Device& device,
                                  const ir::Graph& graph,
                                  const std::vector<HostTensor>& inputs);

/// Converts to a layout with strides, and back.
std::vector<std::byte> toLayout(const HostTensor& tensor, const device::Layout& layout);
HostTensor fromLayout(const TensorType& type, const std::byte* data, const device::Layout& layout);

}  // namespace sluice::testing
