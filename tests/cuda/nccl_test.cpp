// NCCL with one GPU: a group of one, and copies from the GPU to itself.
#include "sluice/devices/cuda/nccl.h"

#include <array>
#include <cstdio>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/cuda_queue.h"
#include "tests/support/message_of.h"

namespace sluice::devices::cuda {
namespace {

using device::PeerMove;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kCount = (1 << 20) + 3;
constexpr std::size_t kBytes = kCount * sizeof(float);

class OneGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = nccl::whyUnusable(); !why.empty()) {
      GTEST_SKIP() << "without NCCL: " << why;
    }
    gpu = makeCudaDevice();
    queue = gpu->makeQueue();
    memory = gpu->allocate(2 * kBytes);
    for (std::size_t i = 0; i < kCount; ++i) {
      values.push_back(static_cast<float>(i % 4099));
    }
    device::copyIn(*queue, memory->at(), values.data(), kBytes);
    queue->fill(memory->at(kBytes), std::byte{7}, kBytes);
  }

  std::unique_ptr<device::PeerGroup> join() const {
    device::PeerPort& port = *queue->peerPort();
    return port.join(port.invite(), 0, 1, [] {});
  }
  std::vector<float> second() const {
    std::vector<float> read(kCount);
    device::copyOut(*queue, read.data(), memory->at(kBytes), kBytes);
    return read;
  }
  /// From the first half of the memory to the second, by the GPU itself.
  std::array<PeerMove, 2> moves() const {
    return {PeerMove{.way = PeerMove::Way::Send, .at = memory->at(), .bytes = kBytes},
            PeerMove{.way = PeerMove::Way::Receive, .at = memory->at(kBytes), .bytes = kBytes}};
  }

  std::unique_ptr<device::Device> gpu;
  std::unique_ptr<device::Memory> memory;
  std::unique_ptr<device::Queue> queue;
  std::vector<float> values;
};

TEST_F(OneGpu, HasOnePlaceOnWhicheverQueue) {
  const std::string place = queue->peerPort()->place();
  EXPECT_EQ(place.size(), 32U);
  EXPECT_EQ(makeCudaDevice({.shares = 2})->makeQueue()->peerPort()->place(), place);
}

TEST_F(OneGpu, GathersItsOwnPart) {
  const auto group = join();
  group->gather(*queue, memory->at(), memory->at(kBytes), kBytes, [] {});
  EXPECT_EQ(second(), values);
}

TEST_F(OneGpu, SendsToItselfAgainAndAgainAfterWorkThatCameBefore) {
  const auto group = join();
  for (int round = 0; round < 20; ++round) {
    values[0] = static_cast<float>(-round);
    const device::HostMemory now(values.data(), kBytes);
    queue->copy(memory->at(), now.at(), kBytes);
    group->exchange(*queue, moves(), [] {});
    EXPECT_TRUE(queue->isIdle());
    ASSERT_EQ(second(), values);
  }
}

TEST_F(OneGpu, AGroupOutlivesItsPort) {
  auto group = join();
  queue.reset();
  memory.reset();
  gpu.reset();
  group.reset();
}

TEST_F(OneGpu, AWaitThatEndsLeavesTheQueueUsable) {
  const auto group = join();
  constexpr std::size_t kMuch = std::size_t{128} << 20U;
  const auto large = gpu->allocate(2 * kMuch);
  for (int i = 0; i < 300; ++i) {  // so that the group has to wait
    queue->copy(large->at(), large->at(kMuch), kMuch);
  }
  EXPECT_THAT(messageOf<DeviceError>([&] {
                group->exchange(*queue, moves(), [] { raise<DeviceError>("the time is over"); });
              }),
              HasSubstr("the time is over"));
  queue->finish();
  queue->copy(memory->at(kBytes), memory->at(), kBytes);
  queue->finish();
  EXPECT_EQ(second(), values);
  EXPECT_THROW(group->exchange(*queue, moves(), [] {}), InternalError);
}

TEST_F(OneGpu, AnErrorNamesTheCall) {
  EXPECT_THROW(queue->peerPort()->join(device::PeerPort::Invitation(5), 0, 1, [] {}),
               InternalError);
  const auto group = join();
  const std::array<PeerMove, 2> both = moves();
  EXPECT_THAT(messageOf<DeviceError>([&] {  // a receive from itself without its send
                group->exchange(*queue, std::span(both).subspan(1), [] {});
              }),
              AllOf(HasSubstr("NCCL: ncclGroupEnd failed"), HasSubstr("NCCL_DEBUG")));
}

}  // namespace
}  // namespace sluice::devices::cuda
