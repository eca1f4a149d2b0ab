// SimTarget: what a modelled device can do per second, as data. Built-in targets have the published
// figures of the IPU; others are JSON files, which `sluice calibrate` writes for this machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/cost_model.h"

namespace sluice::devices::sim {

struct SimTarget {
  std::string name;
  std::string description;
  std::int64_t clockHz = 1'000'000'000;
  std::size_t memoryBytes = 0;      ///< 0: not limited
  device::ComputeRates flops = {};  ///< of types that are 0, and of integers, as for f32
  double memoryBytesPerSecond = 0;  ///< of the memory that kernels read and write; 0: no limit
  std::int64_t kernelTicks = 0;     ///< fixed cost of a kernel
  device::MachineRates machine = {};
  bool ipuRules = false;  ///< the rules of the IPU apply: powers of two, minimum accumulation
  /// Measured kernels: seconds by kernelKey.
  std::map<std::string, double, std::less<>> kernels = {};
  std::map<std::string, std::string> sources = {};  ///< where a figure comes from, by its name

  bool operator==(const SimTarget& other) const { return print(*this) == print(other); }
  /// As JSON; parseTarget reads it back.
  friend std::string print(const SimTarget& target);
};

/// Throws ConfigFileError, naming `where` and the key, for what is not a whole target.
SimTarget parseTarget(std::string_view json, std::string_view where);

/// The names of the built-in targets: ipu1, ipu2, ipu21.
std::vector<std::string> builtInTargets();

/// The file of the target "measured": measured.json in SLUICE_CACHE_DIR, else in the user's cache
/// folder. Empty if there is no such folder.
std::string measuredPath();

/// A built-in target, "measured", or the path of a JSON file, which ends in .json; empty: ipu2.
/// Throws InvalidArgument for another name, ConfigFileError for a file that is not there or wrong.
SimTarget findTarget(std::string_view name);

}  // namespace sluice::devices::sim
