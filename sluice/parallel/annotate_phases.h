// Finds the phases of a graph without phased blocks: from the annotations of its ops, or by cutting
// the graph into parts with about equal weight bytes. Works on the forward graph; backward ops
// inherit the phases that are set here, and placement reads them.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

struct AnnotatePhases {
  std::int32_t phases = 1;
  std::int32_t groups = 1;  ///< groups of devices that take turns
  /// Whether ops may choose their phase themselves.
  bool annotated = true;
};

/// Sets phase, stage and device of every forward op that is not a leaf. An op without a phase gets
/// one by the bytes of the weights read up to it, but no earlier than the phases of its operands.
/// An op without a device gets the device of its phase's group. Each device of a phase is a stage.
/// Throws InvalidArgument for a phase that does not exist and for an op that reads a value of a
/// later phase.
void annotatePhases(ir::Graph& graph, const AnnotatePhases& options);

}  // namespace sluice::parallel
