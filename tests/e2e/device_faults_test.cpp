// Devices that programs cannot be made for or that are lost: what the caller learns, and that a
// model goes on once they are back.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"
#include "tests/support/machine.h"
#include "tests/support/message_of.h"
#include "tests/support/small_models.h"
#include "tests/support/staged_models.h"
#include "tests/support/wrapped_device.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Chain;
using testing::chainModel;
using ::testing::HasSubstr;
using testing::Loss;
using testing::messageOf;
using testing::WrappedDevice;

constexpr std::int32_t kMicroBatches = 2;

/// A chain of two blocks that is trained, a device for each.
class Pair {
 public:
  Pair(std::unique_ptr<device::Device> first, std::unique_ptr<device::Device> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  Chain lower() const {
    return testing::lowerChain(chainModel({.blocks = 2}),
                               {.deviceOfStage = {0, 1}, .microBatches = kMicroBatches},
                               {program::targetOf(first_), program::targetOf(second_)});
  }

  void load(const Chain& chain) {
    state_.adopt(chain.state);
    loaded_ = engine_.load(chain.program);
    graph_ = chain.graph;
  }

  void step() {
    std::vector<ops::TensorMap> inputs;
    for (std::int64_t m = 0; m < kMicroBatches; ++m) {
      inputs.push_back(testing::randomInputs(graph_, 3, m));
    }
    testing::MapFeed feed(loaded_->program(), std::move(inputs));
    testing::MapSink sink(loaded_->program());
    engine_.run(*loaded_, {.feed = feed, .sink = sink});
  }

  std::map<std::string, std::uint64_t> weights() {
    std::map<std::string, std::uint64_t> bits;
    for (const ir::Variable& variable : graph_.variables()) {
      if (variable.role == ir::VariableRole::Weight) {
        bits[variable.name] = state_.read(variable.name).hash();
      }
    }
    return bits;
  }

  void detach() { state_.detach(); }

  WrappedDevice& second() { return second_; }
  WrappedDevice& first() { return first_; }

 private:
  WrappedDevice first_;
  WrappedDevice second_;
  runtime::ModelState state_{{&first_, &second_}, 5};
  // A machine that stands still for a second must not make a step leave its threads behind.
  runtime::Engine engine_{state_, {.stopGrace = std::chrono::minutes(5)}};
  std::unique_ptr<runtime::LoadedProgram> loaded_;
  ir::Graph graph_;
};

std::unique_ptr<device::Device> cpu(int index) {
  return devices::cpu::makeCpuDevice({.index = index});
}
std::unique_ptr<device::Device> far(int index) {
  return devices::far::makeFarDevice({.index = index});
}

/// A device is lost between load and run, and comes back.
void expectToGoOn(Pair& pair, Loss loss) {
  Pair undisturbed(cpu(0), cpu(1));
  undisturbed.load(undisturbed.lower());
  undisturbed.step();
  pair.load(pair.lower());
  const auto before = pair.weights();
  pair.second().loss = loss;
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THAT(messageOf<DeviceError>([&] { pair.step(); }),
                AllOf(HasSubstr("the device is gone"), HasSubstr("device 1")));
    pair.second().loss = Loss::No;
    EXPECT_EQ(pair.weights(), before);
    pair.second().loss = loss;
  }
  pair.second().loss = Loss::No;
  pair.step();
  EXPECT_EQ(pair.weights(), undisturbed.weights());
}

TEST(LostDevice, IsNamedToTheCallerAndTheModelGoesOnOnceItIsBack) {
  Pair pair(cpu(0), cpu(1));
  expectToGoOn(pair, Loss::AtLaunch);
}

TEST(LostDevice, ThatWorksByItselfRefusesTheLaunch) {
  Pair pair(far(0), far(1));
  expectToGoOn(pair, Loss::AtLaunch);
}

TEST(LostDevice, ThatHadAcceptedTheWorkIsNoticed) {
  Pair pair(far(0), far(1));
  expectToGoOn(pair, Loss::InQueue);
}

TEST(LostDevice, AmongDevicesOfAnotherKindIsNoticed) {
  Pair pair(cpu(0), far(1));
  expectToGoOn(pair, Loss::InQueue);
}

/// All queues of a GPU report its loss. The error tells which tasks they were in.
TEST(LostDevice, IsNamedWithTheTasksThatItHadBegun) {
  Pair pair(far(0), far(1));
  pair.load(pair.lower());
  pair.step();
  pair.second().loss = Loss::InAllQueues;
  EXPECT_THAT(messageOf<DeviceError>([&] { pair.step(); }),
              AllOf(HasSubstr("the device is gone"),
                    HasSubstr("(in run of micro-batch 0, round 0, device 1"),
                    HasSubstr("tasks begun and not ended: "),
                    HasSubstr("compute of device 1: run forward 1 of micro-batch 0, round 0")));
  pair.second().loss = Loss::No;
  pair.second().lossState.all = false;
  pair.step();
}

/// What the copies of the other device read and write ends with the call, so they may not be under
/// way any more.
TEST(LostDevice, EndsNoCallBeforeTheCopiesOfTheOthersAreOver) {
  Pair pair(devices::far::makeFarDevice({.hostLink = {.latencySeconds = 0.05}}), far(1));
  pair.load(pair.lower());
  pair.step();
  pair.second().loss = Loss::AtCopy;
  EXPECT_THAT(messageOf<DeviceError>([&] { pair.step(); }), HasSubstr("the device is gone"));
  for (const device::Queue* queue : pair.first().queues) {
    EXPECT_TRUE(queue->isIdle());
  }
  EXPECT_THAT(messageOf<DeviceError>([&] { pair.detach(); }), HasSubstr("the device is gone"));
  for (const device::Queue* queue : pair.first().queues) {
    EXPECT_TRUE(queue->isIdle());
  }
  pair.second().loss = Loss::No;
  pair.step();
}

TEST(DeviceKinds, OfWhichNeitherCanReadTheOtherCannotSend) {
  Pair pair(far(0), far(1));
  pair.second().said.kind = "moon";
  EXPECT_THAT(messageOf<Unsupported>([&] { pair.load(pair.lower()); }),
              AllOf(HasSubstr("'far'"), HasSubstr("'moon'"), HasSubstr("cannot send")));
  // One that the host can read can be sent to from every kind.
  Pair readable(far(0), cpu(1));
  readable.load(readable.lower());
  readable.step();
}

TEST(DeviceBudget, CountsWhatTheKindTakesForItself) {
  auto device = std::make_unique<WrappedDevice>(cpu(0));
  const ir::Graph graph = chainModel({.blocks = 1});
  const auto lowered = [&](std::size_t ownBytes, std::size_t budget) {
    device->said.ownBytes = ownBytes;
    program::StatePlan state;
    return program::lower(
        graph, state, {.memoryPerDevice = budget, .targets = {program::targetOf(*device)}});
  };
  const std::size_t needed = lowered(0, 0).devices[0].totalBytes();
  constexpr std::size_t kOwn = 1 << 20;
  EXPECT_EQ(lowered(kOwn, needed + kOwn).devices[0].totalBytes(), needed + kOwn);
  EXPECT_THAT(messageOf<OutOfMemory>([&] { lowered(kOwn, needed + kOwn - 1); }),
              HasSubstr("1024.0 KiB that the device takes for itself"));
  // Nothing fits a budget that the kind takes alone.
  EXPECT_THAT(messageOf<OutOfMemory>([&] { lowered(kOwn, kOwn); }),
              AllOf(HasSubstr("device 0 needs"), HasSubstr("takes for itself")));
}

}  // namespace
}  // namespace sluice
