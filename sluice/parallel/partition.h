// Finds the devices and stages of a graph without blocks, as a Builder makes it: from the
// annotations of its ops, or by cutting the graph into parts of similar work. Works on the forward
// graph; backward ops inherit the stages that are set here, and placement reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/ir/value.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class Graph;
}

namespace sluice::parallel {

/// How ops get their devices: all on one device, as annotated, by a cut of the graph, or by their
/// phases (see annotate_phases.h).
enum class VirtualGraphMode : std::uint8_t { Off, Manual, Auto, ExecutionPhases };

struct PartitionOptions {
  VirtualGraphMode mode = VirtualGraphMode::Off;
  bool pipelining = false;          ///< stages overlap; otherwise one micro-batch at a time
  std::vector<double> ratios = {};  ///< Auto: the devices' shares of the work; empty: equal
  std::int32_t devices = 1;         ///< Auto without ratios: the number of devices
  bool training = false;            ///< activations are kept for the backward pass
  bool accumulation = false;        ///< every trainable weight has an accumulator
  ir::Value loss = {};              ///< Auto: its gradient is work, too; not set: inference
  std::size_t memoryBytes = 0;      ///< Auto: memory of a device; 0: not limited
};

/// Sets device and stage of every forward op that is not a leaf, or clears both if all ops are on
/// one device. Without pipelining a new stage begins wherever the device changes in the order of
/// the graph. With pipelining an op's stage is its annotation, or its device if no op has a stage;
/// neighbouring stages on one device are merged. Throws InvalidArgument if only some ops are
/// annotated, for a stage on two devices, for ratios that do not match the number of devices, and
/// for pipelining on one device.
void annotateStages(ir::Graph& graph, const PartitionOptions& options);

}  // namespace sluice::parallel

#pragma GCC visibility pop
