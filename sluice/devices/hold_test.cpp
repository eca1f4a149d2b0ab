#include "sluice/devices/hold.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace sluice::devices {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::messageOf;

TEST(HeldDevices, AreNobodyElsesUntilTheLastCopyOfTheHoldEnds) {
  const KindInfo four{.name = "four of them", .count = 4};
  EXPECT_EQ(freeDevices(four), 4);
  Hold three = holdDevices(four, 3);
  EXPECT_EQ(freeDevices(four), 1);
  EXPECT_THAT(messageOf<DeviceError>([&] { holdDevices(four, 2); }),
              AllOf(HasSubstr("no 2 devices of kind 'four of them'"),
                    HasSubstr("there are 4, 3 of them held")));
  EXPECT_EQ(freeDevices(four), 1) << "a refusal takes nothing";
  const Hold copy = three;
  const Hold last = holdDevices(four, 1);
  three.reset();
  EXPECT_EQ(freeDevices(four), 0);
  EXPECT_EQ(freeDevices({.name = "another kind", .count = 2}), 2);
}

TEST(HeldDevices, AreTheFirstThatAreFree) {
  const KindInfo five{.name = "five of them", .count = 5};
  Hold first = holdDevices(five, 2);
  const Hold second = holdDevices(five, 1);
  EXPECT_THAT(first->ids, ElementsAre(0, 1));
  EXPECT_THAT(second->ids, ElementsAre(2));
  first.reset();
  EXPECT_THAT(holdDevices(five, 3)->ids, ElementsAre(0, 1, 3));
  EXPECT_EQ(freeDevices(five), 4);
}

TEST(HeldDevices, OfAKindOfAnyNumberAreNotCounted) {
  const KindInfo endless{.name = "endless"};
  const Hold many = holdDevices(endless, 1'000'000);
  EXPECT_TRUE(many->ids.empty());
  EXPECT_EQ(many->count, 1'000'000);
  EXPECT_GT(freeDevices(endless), 1'000'000);
}

TEST(HeldDevices, OfAKindThatCannotBeUsedSayWhy) {
  const KindInfo broken{.name = "broken", .unusable = "its driver is asleep", .count = 4};
  EXPECT_EQ(freeDevices(broken), 0);
  EXPECT_THAT(messageOf<DeviceError>([&] { holdDevices(broken, 1); }),
              HasSubstr("its driver is asleep"));
}

}  // namespace
}  // namespace sluice::devices
