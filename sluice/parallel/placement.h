// Placement: gives every op of a finished graph its stage and its device. Nothing here changes a
// value: ops are only told where to run (rule R1).
//
//   forward ops    the stage of their block; a stage may not read what a later one makes
//   backward ops   the stage of the op they differentiate, or an earlier one where they join
//                  gradients of several stages; those of concurrent stages in a stage before them
//   leaves         inputs, constants and variable reads: with the reader that data comes to first
//   update ops     where the variable is that they work for; what serves all of them on one device
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::parallel {

/// Which device each stage runs on, and the stage of each block of the graph.
struct StageMap {
  std::vector<std::int32_t> deviceOfStage = {0};
  std::vector<std::int32_t> stageOfBlock = {};
  std::vector<std::int32_t> slotOfStage = {};  ///< equal: concurrent; empty: one after the other
};

/// The device of each variable.
using VariableHomes = std::map<std::string, std::int32_t, std::less<>>;

/// Places every op. `homes` names variables that other programs of the model have placed; all
/// variables of the graph are added to it, and those that the loop writes move to where it does.
/// Throws InvalidArgument when data would flow to an earlier or a concurrent stage (naming tensor,
/// ops and stages), when concurrent stages share a variable, or when blocks cover only some of the
/// ops.
void placeByBlocks(ir::Graph& graph, const StageMap& map, VariableHomes& homes);

/// The same for ops that carry stages and devices themselves, as the Builder sets them: when none
/// has a stage, the device is the stage; when only some have one, or a stage is on two devices, it
/// throws InvalidArgument. Returns the device of each stage.
std::vector<std::int32_t> placeByAnnotations(ir::Graph& graph, VariableHomes& homes);

}  // namespace sluice::parallel
