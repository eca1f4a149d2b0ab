// Cuts a Program into parts for several owners: processes, each of which runs the lanes of its own
// devices. No task of a part waits for a task of another part. Where data or a wait would go from
// one owner to another, there is a message: one side sends it, the other side receives it, and both
// know it by the same number. A send ends once its bytes may be overwritten, a receive once its
// bytes have arrived. Exchanges between replicas are not cut: waits for all replicas stay as they
// are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

struct Part {
  std::int32_t owner = 0;
  /// The part's own lanes, then the lanes of its messages. Everything else is a copy of the whole,
  /// and only the numbers of lanes differ.
  Program program;
  std::vector<std::int32_t> laneOfWhole;  ///< by lane; -1: only messages
};

/// The part that a device belongs to, if neighbours share one of `parts` parts.
constexpr std::int32_t partOf(std::int32_t device, std::int32_t devices, std::int32_t parts) {
  return parts == 1 ? 0 : (device < devices ? device : devices - 1) * parts / devices;
}

/// Makes a part for every owner from 0 to the largest; `ownerOf` gives the owner of each device.
std::vector<Part> split(const Program& whole, std::span<const std::int32_t> ownerOf);

/// Restores the whole. Throws InternalError if a message does not have exactly one sender and one
/// receiver on its two devices, if two lanes of messages have them in different orders, or if a
/// wait names a task that does not exist.
Program join(std::span<const Part> parts);

}  // namespace sluice::program
