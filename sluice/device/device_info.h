// DeviceInfo: what planning and people need to know of a device.
#pragma once

#include <cstddef>
#include <string>

#pragma GCC visibility push(default)

namespace sluice::device {

/// A path for data. 0 means not known, or no limit.
struct Link {
  double bytesPerSecond = 0;
  double latencySeconds = 0;
};

/// Multiplications and additions per second, by operand type. 0 means not known.
struct ComputeRates {
  double f32 = 0;
  double f16 = 0;
  double bf16 = 0;
  double f64 = 0;
};

struct DeviceInfo {
  std::string kind;         ///< "cpu", "far"
  std::string description;  ///< processor, instruction set, library versions: the scope of R10
  int index = 0;
  int threads = 1;
  std::size_t memoryBytes = 0;  ///< the budget of each share; 0: not limited
  std::size_t ownBytes = 0;     ///< the part of the budget that the kind itself takes
  std::size_t alignment = 64;   ///< of every buffer
  bool hostReadable = true;     ///< the host may read its memory
  bool asynchronous = false;    ///< queues return before the work is done
  int physicalId = 0;           ///< devices with the same number share hardware
  int shares = 1;               ///< number of sharers, each with these threads and this budget
  int copyEngines = 0;          ///< copies that can run beside kernels; 0: the host's threads copy
  double launchSeconds = 0;     ///< fixed cost of a launch; 0: not known
  ComputeRates rates = {};
  double memoryBytesPerSecond = 0;  ///< reads and writes together; 0: not known
  Link hostLink = {};
  Link peerLink = {};  ///< to another device of the kind
};

}  // namespace sluice::device

#pragma GCC visibility pop
