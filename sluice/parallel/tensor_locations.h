// Tensor locations: which classes of tensors a model keeps on its devices and which in remote
// memory.
//
//   options.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sluice/ir/value.h"

#pragma GCC visibility push(default)

namespace sluice::ir {
class Graph;
}

namespace sluice::parallel {

/// Where the tensors of one class are.
struct TensorLocation {
  /// Not set: on the devices, except under phased execution.
  std::optional<bool> onChip;
  std::int64_t minElements = 2;  ///< smaller tensors stay on the devices
  bool sharded = false;          ///< each replica keeps a part
  std::int64_t minElementsToShard = 8192;
  bool loadsByIoTiles = false;
  bool storesByIoTiles = false;

  bool operator==(const TensorLocation&) const = default;
};

struct LocationPlan {
  TensorLocation activation;
  TensorLocation weight;
  TensorLocation optimizer;
  TensorLocation accumulator;
  /// By name of a variable, or of the op that makes an activation: whether it stays on the devices,
  /// whatever its class and size.
  std::map<std::string, bool, std::less<>> tensors = {};

  bool operator==(const LocationPlan&) const = default;
};

/// Whether tensors of the class leave the devices.
bool isOffChip(const TensorLocation& location, bool phased);

/// A value that an op tensor_location marks, or a variable.
struct MarkedTensor {
  std::string name;   ///< name of the op that makes it, or of the variable
  ir::OpId producer;  ///< the op that makes it, or that reads the variable
  bool onChip = true;
};
/// The marked tensors in the order of a placed graph.
std::vector<MarkedTensor> markedTensors(const ir::Graph& graph);

/// The variables of a finished graph that are kept in remote memory: weights, optimizer state and
/// accumulators of classes that go there and of sufficient size. A variable that the loop itself
/// assigns stays on its device, except for accumulators. Throws InvalidArgument for a tensor with a
/// location of its own that the graph does not have or that cannot leave its device.
std::set<std::string, std::less<>> remoteVariables(const ir::Graph& graph,
                                                   const LocationPlan& locations,
                                                   bool phased);

}  // namespace sluice::parallel

#pragma GCC visibility pop
