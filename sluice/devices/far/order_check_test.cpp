// Work on the same bytes that nothing puts in order is refused when it is issued, whatever the
// threads of the queues do meanwhile.
#include "sluice/devices/far/order_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/far/far_device.h"

namespace sluice::devices::far {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kRoom = 4096;

/// Two queues of one device and one of another, and a memory of the first.
struct Queues {
  explicit Queues(HostWaits hostWaits = HostWaits::Count)
      : check(std::make_shared<OrderCheck>(hostWaits)) {}

  std::shared_ptr<OrderCheck> check;
  std::unique_ptr<device::Device> here = makeFarDevice({.orderCheck = check});
  std::unique_ptr<device::Device> there = makeFarDevice({.index = 1, .orderCheck = check});
  std::unique_ptr<device::Memory> memory = here->allocate(kRoom);
  std::unique_ptr<device::Memory> other = there->allocate(kRoom);
  std::unique_ptr<device::Queue> a = here->makeQueue();
  std::unique_ptr<device::Queue> b = here->makeQueue();
  std::unique_ptr<device::Queue> c = there->makeQueue();
  std::unique_ptr<device::Event> event = here->makeEvent();

  void write(device::Queue& queue, std::size_t begin = 0, std::size_t end = kRoom) {
    queue.fill(memory->at(begin), std::byte{1}, end - begin);
  }
  /// A quarter of the memory, to another place for each queue.
  void read(device::Queue& queue) {
    const std::size_t place = &queue == a.get() ? 0 : &queue == b.get() ? 1 : 2;
    queue.copy(other->at(place * kRoom / 4), memory->at(), kRoom / 4);
  }
  void order(device::Queue& first, device::Queue& then) {
    first.record(*event);
    then.wait(*event);
  }
};

template <class F>
void expectRefused(const F& work, const std::string& words) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.message(), AllOf(HasSubstr(words), HasSubstr("nothing puts")));
  }
}

TEST(OrderCheck, RefusesUsesOfTwoQueuesWithoutAnEventBetween) {
  Queues writes;
  writes.write(*writes.a);
  expectRefused([&] { writes.write(*writes.b); }, "a fill writes bytes 0 to 4096");
  Queues readAfter;
  readAfter.write(*readAfter.a);
  expectRefused([&] { readAfter.read(*readAfter.c); }, "a copy reads bytes 0 to 1024");
  Queues writeAfter;
  writeAfter.read(*writeAfter.c);
  expectRefused([&] { writeAfter.write(*writeAfter.a); }, "a fill writes");
}

TEST(OrderCheck, AcceptsWhatAnEventPutsInOrderAlsoThroughAThirdQueue) {
  Queues queues;
  queues.write(*queues.a);
  queues.order(*queues.a, *queues.b);
  queues.order(*queues.b, *queues.c);
  EXPECT_NO_THROW(queues.read(*queues.c));
  EXPECT_NO_THROW(queues.read(*queues.b));
  EXPECT_NO_THROW(queues.read(*queues.a));
}

TEST(OrderCheck, AnEventStandsForWhatCameBeforeItOnly) {
  Queues queues;
  queues.write(*queues.a);
  queues.a->record(*queues.event);
  queues.write(*queues.a);
  queues.c->wait(*queues.event);
  expectRefused([&] { queues.read(*queues.c); }, "a copy reads");
}

TEST(OrderCheck, ReadersNeedNoOrderAmongThemselvesButAllComeBeforeTheNextWrite) {
  Queues queues;
  EXPECT_NO_THROW(queues.read(*queues.b));
  EXPECT_NO_THROW(queues.read(*queues.c));
  queues.order(*queues.b, *queues.a);
  expectRefused([&] { queues.write(*queues.a); }, "a fill writes");
  queues.order(*queues.c, *queues.a);
  EXPECT_NO_THROW(queues.write(*queues.a));
}

TEST(OrderCheck, LooksAtBytesNotAtMemories) {
  Queues queues;
  queues.write(*queues.a, 0, 1024);
  EXPECT_NO_THROW(queues.write(*queues.b, 1024, 2048));
  EXPECT_NO_THROW(queues.write(*queues.b, 3072, 4096));
  expectRefused([&] { queues.write(*queues.a, 2047, 2049); }, "bytes 2047 to 2049");
  EXPECT_NO_THROW(queues.write(*queues.a, 2048, 3072));
  expectRefused([&] { queues.write(*queues.c, 1000, 3500); }, "bytes 1000 to 3500");
}

TEST(OrderCheck, WhatTheHostHasSeenTheEndOfIsBeforeAllThatIsIssuedLater) {
  Queues finished;
  finished.write(*finished.a);
  finished.a->finish();
  EXPECT_NO_THROW(finished.write(*finished.b));
  Queues awaited;
  awaited.write(*awaited.a);
  awaited.a->record(*awaited.event);
  while (!awaited.event->await(std::chrono::seconds(1))) {
  }
  EXPECT_NO_THROW(awaited.write(*awaited.b));
  awaited.b = awaited.here->makeQueue();  // the old one has ended, and so has its work
  EXPECT_NO_THROW(awaited.write(*awaited.c));
}

TEST(OrderCheck, DoesNotCountWhatTheHostMayHaveSeenInTimeByLuckIfToldSo) {
  Queues queues(HostWaits::Ignore);
  queues.write(*queues.a);
  queues.a->record(*queues.event);
  queues.c->wait(*queues.event);
  while (!queues.event->await(std::chrono::seconds(1))) {
  }
  queues.read(*queues.c);
  queues.a->finish();
  expectRefused([&] { queues.write(*queues.b); }, "a fill writes");
  queues.b->finish();
  queues.c->finish();  // and so is everything
  EXPECT_NO_THROW(queues.write(*queues.b));
}

TEST(OrderCheck, ForgetsAMemoryThatEnds) {
  Queues queues;
  queues.write(*queues.a);
  queues.a->finish();
  const device::Memory* memory = queues.memory.get();
  EXPECT_TRUE(queues.check->knows(memory));
  queues.memory.reset();
  EXPECT_FALSE(queues.check->knows(memory));

  std::unique_ptr<device::Memory> pinned = queues.here->allocatePinned(kRoom);
  memory = pinned.get();
  queues.a->copy(queues.other->at(), pinned->at(), kRoom);
  queues.a->finish();
  EXPECT_TRUE(queues.check->knows(memory));
  pinned.reset();
  EXPECT_FALSE(queues.check->knows(memory));
}

}  // namespace
}  // namespace sluice::devices::far
