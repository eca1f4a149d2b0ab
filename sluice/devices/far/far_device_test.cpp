#include "sluice/devices/far/far_device.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_memory.h"
#include "sluice/ops/arithmetic_ops.h"
#include "tests/support/message_of.h"

namespace sluice::devices::far {
namespace {

using device::Address;
using device::Stamp;
using ::testing::HasSubstr;

constexpr std::size_t kFloats = 1024;
constexpr std::size_t kBytes = kFloats * sizeof(float);

std::vector<float> counting(float first) {
  std::vector<float> values(kFloats);
  for (std::size_t i = 0; i < kFloats; ++i) {
    values[i] = first + static_cast<float>(i);
  }
  return values;
}

/// x * x of a vector, as a segment of one kernel: buffer 0 in, buffer 1 out.
std::unique_ptr<device::Executable> square(device::Device& device) {
  device::KernelCall call;
  call.def = &ops::kMul;
  call.attrs = ir::completeAttrs(ops::kMul, {});
  const TensorType type{DType::F32, Shape{static_cast<std::int64_t>(kFloats)}};
  call.inputTypes = {type, type};
  call.outputTypes = {type};
  call.name = "square";
  call.choice = device.kernels().choose(call.view());
  call.inputs = {0, 0};
  call.outputs = {1};
  return device.prepare({&call, 1});
}

/// A clock that counts its calls, and one that waits at a gate first: the queue whose stamps it
/// gives stands still there.
std::atomic<std::int64_t> calls{0};
std::atomic<bool> gateIsOpen{false};
std::int64_t countCalls() {
  return ++calls;
}
std::int64_t waitAtTheGate() {
  gateIsOpen.wait(false);
  return countCalls();
}
void openGate() {
  gateIsOpen = true;
  gateIsOpen.notify_all();
}

/// A queue that stands at the gate, and an event after that.
class GatedQueue {
 public:
  explicit GatedQueue(device::Device& device)
      : queue_(device.makeQueue()), event_(device.makeEvent()) {
    gateIsOpen = false;
    queue_->useClock(waitAtTheGate);
    queue_->stamp(stamp_, 1);
    queue_->record(*event_);
  }
  ~GatedQueue() { openGate(); }
  GatedQueue(const GatedQueue&) = delete;
  GatedQueue& operator=(const GatedQueue&) = delete;

  device::Queue& queue() { return *queue_; }
  const device::Event& event() const { return *event_; }
  const Stamp& stamp() const { return stamp_; }

 private:
  Stamp stamp_;
  std::unique_ptr<device::Queue> queue_;
  std::unique_ptr<device::Event> event_;
};

TEST(FarMemory, CannotBeReadByTheHost) {
  const auto device = makeFarDevice();
  const auto memory = device->allocate(kBytes);
  EXPECT_EQ(memory->host(), nullptr);
  EXPECT_EQ(memory->kind(), device::MemoryKind::Device);
  EXPECT_FALSE(device->info().hostReadable);
  EXPECT_THAT(sluice::testing::messageOf<InternalError>([&] { device::hostPointer(memory->at()); }),
              HasSubstr("only its device can read"));
  const auto& far = dynamic_cast<const FarMemory&>(*memory);
  ASSERT_NE(far.wall(), far.behindTheWall());
  EXPECT_DEATH(static_cast<void>(*static_cast<const volatile std::byte*>(far.wall())), "");
}

TEST(FarMemory, IsRefusedOverTheBudgetOrTheMachine) {
  const auto device = makeFarDevice({.memoryBytes = 1000});
  EXPECT_THAT(sluice::testing::messageOf<OutOfMemory>([&] { device->allocate(1001); }),
              HasSubstr("kind far has a budget of 1000 bytes"));
  const auto free = makeFarDevice();
  EXPECT_THAT(
      sluice::testing::messageOf<OutOfMemory>([&] { free->allocate(std::size_t{1} << 62); }),
      HasSubstr("far device 0"));
}

TEST(FarDevice, RefusesOptionsThatMakeNoDevice) {
  EXPECT_THAT(sluice::testing::messageOf<InvalidArgument>([] { makeFarDevice({.alignment = 96}); }),
              HasSubstr("power of two"));
  EXPECT_THROW(makeFarDevice({.threads = 0}), InvalidArgument);
}

TEST(FarQueue, RunsACapturedLaunchAgain) {
  const auto device = makeFarDevice();
  const auto memory = device->allocate(2 * kBytes);
  const auto queue = device->makeQueue();
  const auto executable = square(*device);
  const auto capture = device->capture(*executable, std::array{memory->at(), memory->at(kBytes)});
  ASSERT_NE(capture, nullptr);
  for (const float first : {1.0F, 7.0F}) {
    const std::vector<float> values = counting(first);
    std::vector<float> results(kFloats);
    const device::HostMemory source(values.data(), kBytes);
    const device::HostMemory target(results.data(), kBytes);
    queue->copy(memory->at(), source.at(), kBytes);
    queue->replay(*capture);
    queue->copy(target.at(), memory->at(kBytes), kBytes);
    queue->finish();
    for (std::size_t i = 0; i < kFloats; ++i) {
      ASSERT_EQ(results[i], values[i] * values[i]);
    }
  }
  const auto cpu = devices::cpu::makeCpuDevice();
  EXPECT_EQ(cpu->capture(*executable, {}), nullptr);
  EXPECT_THAT(
      sluice::testing::messageOf<InternalError>([&] { cpu->makeQueue()->replay(*capture); }),
      HasSubstr("captures nothing"));
}

TEST(FarQueue, CopiesFillsAndRunsKernelsInOrder) {
  const auto device = makeFarDevice({.threads = 2});
  const auto memory = device->allocate(3 * kBytes);
  const auto queue = device->makeQueue();
  const auto executable = square(*device);
  const std::vector<float> values = counting(1);
  std::vector<float> results(2 * kFloats);
  const device::HostMemory source(values.data(), kBytes);
  const device::HostMemory target(results.data(), 2 * kBytes);
  queue->copy(memory->at(), source.at(), kBytes);
  queue->launch(*executable, std::array{memory->at(), memory->at(kBytes)});
  queue->fill(memory->at(2 * kBytes), std::byte{0}, kBytes);
  queue->copy(target.at(), memory->at(kBytes), 2 * kBytes);
  queue->finish();
  for (std::size_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(results[i], values[i] * values[i]);
    ASSERT_EQ(results[kFloats + i], 0.0F);
  }
  EXPECT_TRUE(queue->isIdle());
}

TEST(FarQueue, AddsUpInTheOrderGiven) {
  const auto device = makeFarDevice();
  const auto memory = device->allocate(4 * 256);
  const auto queue = device->makeQueue();
  // Other orders give 0 and 2.
  const std::array<float, 3> terms = {1e8F, 1.0F, -1e8F};
  std::vector<Address> from;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    from.push_back(memory->at(256 * i));
    device::copyIn(*queue, from.back(), &terms[i], sizeof(float));
  }
  queue->sum(memory->at(3 * 256), from, DType::F32, 1);
  float sum = -1;
  device::copyOut(*queue, &sum, memory->at(3 * 256), sizeof(float));
  EXPECT_EQ(sum, (1e8F + 1.0F) - 1e8F);
}

TEST(FarQueue, WorksWhileItsCallerGoesOn) {
  const auto device = makeFarDevice();
  GatedQueue gated(*device);
  EXPECT_FALSE(gated.event().isDone());
  EXPECT_FALSE(gated.event().await(std::chrono::milliseconds(1)));
  EXPECT_FALSE(gated.queue().isIdle());
  openGate();
  gated.queue().finish();
  EXPECT_TRUE(gated.event().isDone());
  EXPECT_TRUE(gated.queue().isIdle());
}

TEST(FarQueue, BeginsAfterTheEventsItWaitsForAndNoOthers) {
  const auto device = makeFarDevice();
  const auto other = makeFarDevice({.index = 1});
  GatedQueue gated(*device);
  const auto waiting = other->makeQueue();
  const auto free = other->makeQueue();
  Stamp last;
  Stamp first;
  waiting->useClock(countCalls);
  waiting->wait(gated.event());
  waiting->stamp(last, 1);
  free->useClock(countCalls);
  free->stamp(first, 1);
  free->finish();  // although the gate is closed
  EXPECT_FALSE(gated.event().isDone());
  openGate();
  waiting->finish();
  EXPECT_LT(first.time.load(), gated.stamp().time.load());
  EXPECT_LT(gated.stamp().time.load(), last.time.load());
}

TEST(FarQueue, TakesTheTimeOfItsLinks) {
  constexpr device::Link kSlow{.latencySeconds = 0.02};
  const auto near = makeFarDevice();
  const auto device = makeFarDevice({.index = 1, .hostLink = kSlow, .peerLink = kSlow});
  const auto here = device->allocate(kBytes);
  const auto there = near->allocate(kBytes);
  const std::vector<float> values = counting(0);
  const device::HostMemory host(values.data(), kBytes);
  const auto queue = device->makeQueue();
  std::array<Stamp, 4> stamps;
  queue->stamp(stamps[0], 1);
  queue->copy(here->at(), host.at(), kBytes);
  queue->stamp(stamps[1], 1);
  queue->copy(here->at(), there->at(), kBytes);
  queue->stamp(stamps[2], 1);
  queue->finish();
  // Never less than that; how much more is the machine's business.
  EXPECT_GE(stamps[1].time - stamps[0].time, 20'000'000);
  EXPECT_GE(stamps[2].time - stamps[1].time, 20'000'000);
}

TEST(FarQueue, RefusesEventsThatNobodyRecorded) {
  const auto device = makeFarDevice();
  const auto queue = device->makeQueue();
  const auto event = device->makeEvent();
  EXPECT_THAT(sluice::testing::messageOf<InternalError>([&] { queue->wait(*event); }),
              HasSubstr("no queue has recorded"));
  EXPECT_THAT(sluice::testing::messageOf<InternalError>([&] { event->isDone(); }),
              HasSubstr("no queue has recorded"));
  EXPECT_THAT(sluice::testing::messageOf<InternalError>(
                  [&] { event->await(std::chrono::milliseconds(1)); }),
              HasSubstr("no queue has recorded"));
}

TEST(FarQueue, RefusesBytesOutsideOfAMemory) {
  const auto device = makeFarDevice();
  const auto memory = device->allocate(kBytes);
  const auto queue = device->makeQueue();
  EXPECT_THAT(sluice::testing::messageOf<InternalError>(
                  [&] { queue->fill(memory->at(kBytes - 3), std::byte{0}, 4); }),
              HasSubstr("of a memory of 4096 bytes"));
  EXPECT_THAT(sluice::testing::messageOf<InternalError>([&] { queue->copy({}, memory->at(), 4); }),
              HasSubstr("no memory"));
}

TEST(FarQueue, PassesOverWhatFollowsAFailureAndIsAsNewAfterwards) {
  const auto device = makeFarDevice();
  const auto memory = device->allocate(kBytes);
  const auto first = device->makeQueue();
  const auto second = device->makeQueue();
  const auto event = device->makeEvent();
  std::atomic<bool> stop{true};
  first->stopWhen(&stop);
  Stamp before;
  Stamp after;
  first->stamp(before, 1);
  first->record(*event);
  second->wait(*event);
  second->stamp(after, 1);
  EXPECT_THROW(second->finish(), Cancelled);  // because of the other one
  EXPECT_NE(first->failure(), nullptr);
  EXPECT_THROW(first->finish(), Cancelled);
  EXPECT_EQ(before.number.load() + after.number.load(), 0);
  EXPECT_EQ(first->failure(), nullptr);
  stop = false;
  first->stamp(before, 2);
  first->finish();
  EXPECT_EQ(before.number.load(), 2);
}

/// Notes the threads that call it.
std::mutex stampersMutex;
std::set<std::thread::id> stampers;
std::int64_t noteThread() {
  const std::scoped_lock lock(stampersMutex);
  stampers.insert(std::this_thread::get_id());
  return countCalls();
}

/// Two queues that hand bytes to and fro, recorded.
struct HandedOver {
  HandedOver() {
    for (const auto& queue : {first.get(), second.get()}) {
      queue->useClock(noteThread);
      queue->stopWhen(&stop);
    }
    std::array<device::Queue*, 2> both = {first.get(), second.get()};
    capture = device->record(both, {}, [&] {
      first->copy(at(1), at(0), kBytes);
      first->record(*to);
      second->wait(*to);
      second->copy(at(2), at(1), kBytes);
      second->stamp(stamps[1], 1);
      second->record(*fro);
      first->wait(*fro);
      first->copy(at(3), at(2), kBytes);
      first->stamp(stamps[0], 1);
    });
  }
  Address at(std::size_t place) const { return memory->at(place * kBytes); }
  std::vector<float> replayed(float begin) {
    std::vector<float> values = counting(begin);
    device::copyIn(*first, at(0), values.data(), kBytes);
    first->replay(*capture);
    device::copyOut(*first, values.data(), at(3), kBytes);
    return values;
  }

  std::unique_ptr<device::Device> device = makeFarDevice();
  std::unique_ptr<device::Memory> memory = device->allocate(4 * kBytes);
  std::unique_ptr<device::Queue> first = device->makeQueue();
  std::unique_ptr<device::Queue> second = device->makeQueue();
  std::unique_ptr<device::Event> to = device->makeEvent();
  std::unique_ptr<device::Event> fro = device->makeEvent();
  std::array<Stamp, 2> stamps;
  std::atomic<bool> stop{false};
  std::unique_ptr<device::Capture> capture;
};

TEST(FarQueue, ReplaysWhatSeveralQueuesWereGivenInTheThreadOfEach) {
  HandedOver recorded;
  stampers.clear();
  for (int i = 0; i < 200; ++i) {
    const auto begin = static_cast<float>(i);
    ASSERT_EQ(recorded.replayed(begin), counting(begin));
  }
  EXPECT_EQ(stampers.size(), 2U);
}

TEST(FarQueue, AReplayThatIsStoppedEndsInAllQueues) {
  HandedOver recorded;
  recorded.stop = true;
  recorded.first->replay(*recorded.capture);
  EXPECT_THROW(recorded.first->finish(), Cancelled);
  recorded.second->finish();
  recorded.first->stamp(recorded.stamps[0], 1);  // fails
  recorded.first->replay(*recorded.capture);     // is passed over
  EXPECT_THROW(recorded.first->finish(), Cancelled);
  recorded.second->finish();
  recorded.second->stamp(recorded.stamps[0], 1);
  recorded.first->replay(*recorded.capture);
  EXPECT_THROW(recorded.first->finish(), Cancelled);
  EXPECT_THROW(recorded.second->finish(), Cancelled);
  recorded.stop = false;
  EXPECT_EQ(recorded.replayed(3), counting(3));
}

TEST(FarQueue, KeepsAnyNumberOfCommands) {
  const auto device = makeFarDevice();
  GatedQueue gated(*device);
  const auto queue = device->makeQueue();
  queue->wait(gated.event());
  std::vector<Stamp> stamps(5000);
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    queue->stamp(stamps[i], static_cast<std::int64_t>(i) + 1);
  }
  openGate();
  queue->finish();
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    ASSERT_EQ(stamps[i].number.load(), static_cast<std::int64_t>(i) + 1);
    ASSERT_TRUE(i == 0 || stamps[i].time.load() >= stamps[i - 1].time.load());
  }
}

}  // namespace
}  // namespace sluice::devices::far
