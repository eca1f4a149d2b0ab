// Runs one op on a device the way a program would: choose, lay operands out, prepare, launch. Every
// buffer stands between guard bytes, which are checked afterwards (a GoogleTest failure if broken).
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
  /// The layout that a kernel of LayoutRule::Follow is given.
  device::Layout follow = {};
  /// Output 0 lies in the memory of this input.
  std::optional<std::size_t> inPlace = {};
  ir::RunInfo info = {};
};

/// The results in plain layout.
std::vector<HostTensor> runOnDevice(device::Device& device, const DeviceRun& run);

/// The outputs of a graph without variables, each op of it run by itself.
std::vector<HostTensor> runOpByOp(device::Device& device,
                                  const ir::Graph& graph,
                                  const std::vector<HostTensor>& inputs);

/// The same elements stored in a layout that has strides, and back.
std::vector<std::byte> toLayout(const HostTensor& tensor, const device::Layout& layout);
HostTensor fromLayout(const TensorType& type, const std::byte* data, const device::Layout& layout);

}  // namespace sluice::testing
