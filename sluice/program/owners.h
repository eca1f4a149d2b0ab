// A Program cut into parts for several owners: processes, each of which runs the lanes of its own
// devices. No wait of a part is for a task of another one. Where data or a wait went from one owner
// to another there is a message: one side sends it, the other one receives it, and both know it by
// the same number. Each side ends by itself: a send once its bytes may be overwritten, a receive
// once they are there. What replicas add up is not cut: waits for all replicas stay as they are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

struct Part {
  std::int32_t owner = 0;
  /// Its lanes, then those of its messages; everything else is that of the whole, and so are all
  /// numbers but those of lanes.
  Program program;
  std::vector<std::int32_t> laneOfWhole;  ///< by lane; -1: of messages alone
};

/// A part for every owner from 0 to the last that is named; `ownerOf` says whose a device is.
std::vector<Part> split(const Program& whole, std::span<const std::int32_t> ownerOf);

/// The whole again. Throws InternalError if a message has not exactly one sender and one receiver,
/// on the devices that it goes between, if two lanes of messages have them in different orders, or
/// if a wait is for a task that is not there.
Program join(std::span<const Part> parts);

}  // namespace sluice::program
