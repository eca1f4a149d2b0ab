// Synchronisation groups: the devices that meet at a barrier before one of them exchanges data.
// Every device is in one group for exchanges between devices and in one for the host and remote
// memory. Patterns differ in how they divide the devices into groups.
#pragma once

#include <cstdint>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice::schedule {

enum class SyncPattern : std::uint8_t {
  Full,             ///< all devices meet for everything
  SinglePipeline,   ///< each device communicates with the host alone
  ReplicaAndLadder  ///< even and odd devices take turns
};

/// The devices that wait when `device` communicates with the host or remote memory; ascending.
std::vector<std::int32_t> hostGroup(SyncPattern pattern, std::int32_t device, std::int32_t devices);

/// The devices that wait when data goes from one device to another; ascending.
std::vector<std::int32_t> exchangeGroup(SyncPattern pattern,
                                        std::int32_t from,
                                        std::int32_t to,
                                        std::int32_t devices);

}  // namespace sluice::schedule

#pragma GCC visibility pop
