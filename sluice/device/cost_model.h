// CostModel: how long the work of a device would take. A device whose time is modelled implements
// it beside Device; the simulator (runtime/simulator.h) asks it and computes nothing. Times are in
// ticks of the modelled clock, so they are the same on every machine and in every run.
#pragma once

#include <cstdint>
#include <string>

#include "sluice/device/device.h"
#include "sluice/device/device_info.h"

namespace sluice::device {

/// What surrounds the kernels. A rate of 0 means that it takes no time.
struct MachineRates {
  Link peer = {};                ///< from one device to another
  Link host = {};                ///< between a device and the host, in each direction
  Link remote = {};              ///< between a device and remote memory, in each direction
  double sumBytesPerSecond = 0;  ///< of a sum over replicas, all that is read
  double syncSeconds = 0;        ///< from the last arrival at a barrier to its end
  double taskSeconds = 0;        ///< fixed cost of every task, except barriers
  /// Until a thread that sleeps goes on. What serves remote memory or other processes sleeps while
  /// it has nothing to do, and so does what waits for it.
  double wakeSeconds = 0;
  /// More than 0: all devices share this many cores, and a kernel, a copy between devices or a sum
  /// needs one. 0: each device computes by itself, and its ports copy beside its kernels.
  std::int32_t cores = 0;
  /// Feeds and drains that the host serves at the same time; 0: as many as there are.
  std::int32_t hostStreams = 0;
  /// More than 1: replicas and devices are dealt out to this many processes, as the library deals
  /// them out (program/owners.h), and each process has its own `cores`.
  std::int32_t processes = 1;
  Link process = {};  ///< from one process to another
  /// What each further message takes that a process sends to others for the same sum.
  double messageSeconds = 0;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  /// For people: "ipu2".
  virtual std::string target() const = 0;
  virtual std::int64_t ticksPerSecond() const = 0;
  virtual const MachineRates& machine() const = 0;
  /// Of one kernel that nobody disturbs. A pure function.
  virtual std::int64_t kernelTicks(const KernelCall& call) const = 0;
};

/// Null if the time of the device is not modelled.
inline const CostModel* costModelOf(const Device& device) {
  return dynamic_cast<const CostModel*>(&device);
}

}  // namespace sluice::device
