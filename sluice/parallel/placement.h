// Placement: gives every op of a finished graph its stage and its device. Nothing here changes a
// value: placement only decides where ops run (rule R1).
//
//   forward ops    the stage of their block; a stage may not read a value of a later stage
//   backward ops   the stage of the op that they differentiate, or an earlier one where they join
//                  gradients of several stages; of concurrent stages, a stage before them
//   leaves         inputs, constants and variable reads: the stage of the reader that data reaches
//                  first
//   update ops     the device of the variable that they update; ops for several, on one device
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// The device of each stage, and the stage of each block of the graph.
struct StageMap {
  std::vector<std::int32_t> deviceOfStage = {0};
  std::vector<std::int32_t> stageOfBlock = {};
  std::vector<std::int32_t> slotOfStage = {};  ///< equal: concurrent; empty: one after the other
};

/// The device of each variable.
using VariableHomes = std::map<std::string, std::int32_t, std::less<>>;

/// Places every op. `homes` names variables that other programs of the model have placed. All
/// variables of the graph are added to it, and variables that the loop writes move to the device
/// that writes them. Throws InvalidArgument if data would flow to an earlier or a concurrent stage
/// (naming tensor, ops and stages), if concurrent stages share a variable, or if blocks cover only
/// some of the ops.
void placeByBlocks(ir::Graph& graph, const StageMap& map, VariableHomes& homes);

/// Same as above, for ops that the Builder annotated with stages and devices. If no op has a stage,
/// the device is the stage. Throws InvalidArgument if only some ops have a stage or if a stage is
/// on two devices. Returns the device of each stage.
std::vector<std::int32_t> placeByAnnotations(ir::Graph& graph, VariableHomes& homes);

}  // namespace sluice::parallel
