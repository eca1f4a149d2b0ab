// Phases of a graph without phased blocks: taken from the annotations of its ops, or found by
// cutting the graph into parts of about equal weights. Works on the forward graph; the backward ops
// made from it inherit what is set here, and placement reads it.
#pragma once

#include <cstdint>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

struct AnnotatePhases {
  std::int32_t phases = 1;
  std::int32_t groups = 1;  ///< of devices that take turns
  /// Whether ops may say themselves in which phase they run.
  bool annotated = true;
};

/// Sets phase, stage and device of every forward op that is no leaf. An op without a phase gets one
/// by the bytes of the weights read up to it, at least that of what it reads; without a device it
/// gets that of its phase's group. Each device of a phase is a stage. Throws InvalidArgument for a
/// phase that is not there and for an op that reads what a later phase makes.
void annotatePhases(ir::Graph& graph, const AnnotatePhases& options);

}  // namespace sluice::parallel
