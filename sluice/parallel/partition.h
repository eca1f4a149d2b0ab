// Devices and stages of a graph without blocks, as a Builder makes it: taken from the annotations
// of its ops, or found by cutting the graph into parts of similar work. Works on the forward graph;
// the backward ops made from it inherit what is set here, and placement reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// How ops get their devices: all on one, as annotated, by a cut of the graph, or by their phases
/// (see annotate_phases.h).
enum class VirtualGraphMode : std::uint8_t { Off, Manual, Auto, ExecutionPhases };

struct PartitionOptions {
  VirtualGraphMode mode = VirtualGraphMode::Off;
  bool pipelining = false;          ///< stages overlap; else one micro-batch at a time
  std::vector<double> ratios = {};  ///< of Auto: the devices' shares of the work; empty: equal
  std::int32_t devices = 1;         ///< of Auto without ratios
  bool training = false;            ///< activations are kept for the backward pass
  bool accumulation = false;        ///< a trainable weight has an accumulator as well
  ir::Value loss = {};              ///< of Auto: its gradient is work, too; not set: inference
  std::size_t memoryBytes = 0;      ///< of Auto: of a device; 0: any number
};

/// Sets device and stage of every forward op that is no leaf, or clears both if all of them are on
/// one device. Without pipelining a new stage begins wherever the device changes in the order of
/// the graph. With it a stage is what the ops say, or their device if none has one; neighbours on
/// one device are merged. Throws InvalidArgument for annotations of only some ops, a stage on two
/// devices, ratios that do not fit the number of devices, and pipelining on one device.
void annotateStages(ir::Graph& graph, const PartitionOptions& options);

}  // namespace sluice::parallel
