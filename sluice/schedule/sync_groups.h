// Synchronisation groups: which devices meet at a barrier before one of them exchanges data. Every
// device is in one group for exchange between devices and in one for the host and remote memory;
// patterns differ in how they cut the devices into groups.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::schedule {

enum class SyncPattern : std::uint8_t {
  Full,             ///< everybody meets for everything
  SinglePipeline,   ///< each device alone talks to the host
  ReplicaAndLadder  ///< even and odd devices take turns
};

/// Who waits when `device` talks to the host or to remote memory; ascending.
std::vector<std::int32_t> hostGroup(SyncPattern pattern, std::int32_t device, std::int32_t devices);

/// Who waits when data goes from one device to another; ascending.
std::vector<std::int32_t> exchangeGroup(SyncPattern pattern,
                                        std::int32_t from,
                                        std::int32_t to,
                                        std::int32_t devices);

}  // namespace sluice::schedule
