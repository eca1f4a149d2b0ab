#include "sluice/schedule/sync_groups.h"

namespace sluice::schedule {
namespace {

std::vector<std::int32_t> everyOther(std::int32_t first, std::int32_t step, std::int32_t devices) {
  std::vector<std::int32_t> group;
  for (std::int32_t d = first; d < devices; d += step) {
    group.push_back(d);
  }
  return group;
}

constexpr std::int32_t kLadder = 2;

}  // namespace

std::vector<std::int32_t> hostGroup(SyncPattern pattern,
                                    std::int32_t device,
                                    std::int32_t devices) {
  switch (pattern) {
    case SyncPattern::SinglePipeline:
      return {device};
    case SyncPattern::ReplicaAndLadder:
      return everyOther(device % kLadder, kLadder, devices);
    case SyncPattern::Full:
      break;
  }
  return everyOther(0, 1, devices);
}

std::vector<std::int32_t> exchangeGroup(SyncPattern pattern,
                                        std::int32_t from,
                                        std::int32_t to,
                                        std::int32_t devices) {
  const bool inside = pattern == SyncPattern::ReplicaAndLadder && from % kLadder == to % kLadder;
  return inside ? everyOther(from % kLadder, kLadder, devices) : everyOther(0, 1, devices);
}

}  // namespace sluice::schedule
