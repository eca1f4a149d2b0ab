// Kernels whose tiles can be run one by one, by any thread and in any order, with nothing before or
// after them. A segment runs the tiles of several such kernels in one parallel region.
#pragma once

#include <cstdint>

#include "sluice/devices/cpu/kernel.h"

namespace sluice::devices::cpu {

class TileKernel : public Kernel {
 public:
  virtual std::int64_t tiles() const = 0;
  virtual void runTile(const KernelRun& run, std::int64_t tile) const = 0;

  void run(const KernelRun& run) override {
    run.workers.parallelFor(tiles(), [&](std::int64_t tile) { runTile(run, tile); });
  }
};

}  // namespace sluice::devices::cpu
