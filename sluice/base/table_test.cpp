#include "sluice/base/table.h"

#include <cstdint>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Table, TakesNumbersOfAnyIntegerType) {
  Table<int> table = {4, 5, 6};
  EXPECT_EQ(table[std::int32_t{1}], 5);
  EXPECT_EQ(table[std::size_t{2}], 6);
  table[std::int64_t{0}] = 7;
  const Table<int>& same = table;
  EXPECT_EQ(same[0], 7);
}

TEST(Table, CountsWithTheTypeOfItsNumbers) {
  Table<int> table;
  static_assert(std::is_same_v<decltype(table.count()), std::int32_t>);
  EXPECT_EQ(table.count(), 0);
  const std::int32_t next = table.count();
  table.push_back(8);
  EXPECT_EQ(table[next], 8);
}

TEST(Table, HasNoNegativeNumbers) {
  const Table<int> table = {1, 2};
  EXPECT_FALSE(table.has(-1));
  EXPECT_TRUE(table.has(0));
  EXPECT_TRUE(table.has(1));
  EXPECT_FALSE(table.has(2));
}

TEST(Table, IsMadeOfAVectorAndIsOne) {
  const Table<bool> flags = std::vector<bool>{true, false};
  EXPECT_TRUE(flags[0]);
  EXPECT_EQ(flags, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace sluice
