#include "sluice/schedule/sync_groups.h"

#include <gtest/gtest.h>

namespace sluice::schedule {
namespace {

using Group = std::vector<std::int32_t>;

TEST(SyncGroups, TheHostBlocksAllOneOrHalfOfFourDevices) {
  for (std::int32_t d = 0; d < 4; ++d) {
    EXPECT_EQ(hostGroup(SyncPattern::Full, d, 4), (Group{0, 1, 2, 3}));
    EXPECT_EQ(hostGroup(SyncPattern::SinglePipeline, d, 4), (Group{d}));
  }
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 0, 4), (Group{0, 2}));
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 1, 4), (Group{1, 3}));
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 2, 4), (Group{0, 2}));
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 3, 4), (Group{1, 3}));
}

TEST(SyncGroups, ExchangeJoinsEverybodyExceptInsideOfALadder) {
  for (const SyncPattern pattern :
       {SyncPattern::Full, SyncPattern::SinglePipeline, SyncPattern::ReplicaAndLadder}) {
    EXPECT_EQ(exchangeGroup(pattern, 0, 1, 4), (Group{0, 1, 2, 3}));
    EXPECT_EQ(exchangeGroup(pattern, 3, 0, 4), (Group{0, 1, 2, 3}));
  }
  EXPECT_EQ(exchangeGroup(SyncPattern::Full, 0, 2, 4), (Group{0, 1, 2, 3}));
  EXPECT_EQ(exchangeGroup(SyncPattern::SinglePipeline, 0, 2, 4), (Group{0, 1, 2, 3}));
  EXPECT_EQ(exchangeGroup(SyncPattern::ReplicaAndLadder, 0, 2, 4), (Group{0, 2}));
  EXPECT_EQ(exchangeGroup(SyncPattern::ReplicaAndLadder, 3, 1, 4), (Group{1, 3}));
}

TEST(SyncGroups, AnOddNumberOfDevicesHasAnEvenGroupOfOneMore) {
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 2, 3), (Group{0, 2}));
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 1, 3), (Group{1}));
  EXPECT_EQ(hostGroup(SyncPattern::ReplicaAndLadder, 0, 1), (Group{0}));
}

}  // namespace
}  // namespace sluice::schedule
