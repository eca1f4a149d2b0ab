// Parts of a Program, each run by an engine of its own as processes would: the same bits as the
// whole, and a failure of one ends all.
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/program/barriers.h"
#include "sluice/program/owners.h"
#include "sluice/runtime/communicator.h"
#include "tests/support/device_group.h"
#include "tests/support/fake_peers.h"
#include "tests/support/tensor_types.h"

namespace sluice::runtime {
namespace {

using schedule::PipelineKind;
using sluice::testing::Chain;
using sluice::testing::chainModel;
using sluice::testing::ChainRun;
using sluice::testing::DeviceGroup;
using sluice::testing::FakePeers;
using sluice::testing::inputsOf;
using sluice::testing::MapSink;
using sluice::testing::PortedDevice;
using ::testing::HasSubstr;

constexpr std::size_t kDevices = 4;

/// What a run left: variables and outputs.
struct Left {
  std::map<std::string, std::uint64_t> variables;
  std::map<std::string, std::vector<std::uint64_t>> outputs;

  bool operator==(const Left&) const = default;
};

void note(const MapSink& sink, Left& left) {
  for (const auto& [name, values] : sink.results) {
    for (const auto& [microBatch, value] : values) {
      left.outputs[name].push_back(value.hash());
    }
  }
}

struct Training {
  ir::Graph graph = chainModel({.blocks = 4, .skip = true, .tied = true, .dropout = true});
  ChainRun run = {.deviceOfStage = {0, 1, 2, 3}, .microBatches = 3, .lookahead = 2};
  std::string kind = "cpu";
  bool barriers = false;

  Chain lower(const DeviceGroup& group) const {
    Chain chain = group.lower(graph, run);
    if (barriers) {
      program::addBarriers(chain.program, schedule::SyncPattern::Full);
    }
    return chain;
  }
  std::vector<ops::TensorMap> inputs() const { return inputsOf(graph, 4 * run.microBatches); }
};

constexpr int kSteps = 2;

Left runWhole(const Training& training) {
  DeviceGroup group(kDevices, {}, training.kind);
  const auto loaded = group.load(training.lower(group));
  Left left;
  for (int step = 0; step < kSteps; ++step) {
    note(group.step(*loaded, training.inputs()), left);
  }
  for (const ir::Variable& variable : training.graph.variables()) {
    left.variables[variable.name] = group.state->read(variable.name).hash();
  }
  return left;
}

/// With `direct`, devices of several owners copy to each other without the host.
Left runParts(const Training& training,
              const std::vector<std::int32_t>& ownerOf,
              FakePeers* direct = nullptr) {
  const auto devicesOf = [&](std::int32_t owner) {
    std::vector<std::unique_ptr<device::Device>> made;
    for (std::size_t d = 0; d < kDevices; ++d) {
      made.push_back(
          devices::makeDevice({.name = {.kind = training.kind}, .number = static_cast<int>(d)}));
      if (direct != nullptr) {
        made.back() = std::make_unique<PortedDevice>(
            std::move(made.back()), *direct, fmt::format("device {} of {}", d, owner));
      }
    }
    return made;
  };
  const std::int32_t owners = 1 + *std::ranges::max_element(ownerOf);
  const auto communicators = makeLocalCommunicators(owners);
  std::vector<Left> lefts(static_cast<std::size_t>(owners));
  const auto runPart = [&](std::int32_t owner) {
    const auto own = static_cast<std::size_t>(owner);
    // It has all devices, of which it uses its own.
    DeviceGroup group(devicesOf(owner));
    if (direct != nullptr) {
      communicators[own]->connectDevices();
    }
    Chain chain = training.lower(group);
    chain.program = program::split(chain.program, ownerOf)[own].program;
    const auto loaded = group.load(chain);
    const Peers peers{*communicators[own], ownerOf};
    for (int step = 0; step < kSteps; ++step) {
      note(group.step(*loaded, training.inputs(), &peers), lefts[own]);
    }
    for (const program::PlacedVariable& placed : chain.state.variables()) {
      if (ownerOf[static_cast<std::size_t>(placed.device)] == owner) {
        lefts[own].variables[placed.variable.name] = group.state->read(placed.variable.name).hash();
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::int32_t owner = 0; owner < owners; ++owner) {
    threads.emplace_back(runPart, owner);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Left all;
  for (Left& left : lefts) {
    all.variables.merge(left.variables);
    all.outputs.merge(left.outputs);
  }
  return all;
}

TEST(Parts, HaveTheBitsOfTheWhole) {
  for (const PipelineKind kind :
       {PipelineKind::Sequential, PipelineKind::OneForwardOneBackward, PipelineKind::ZeroBubble}) {
    for (const bool barriers : {false, true}) {
      Training training;
      training.run.kind = kind;
      training.barriers = barriers;
      const Left whole = runWhole(training);
      ASSERT_FALSE(whole.outputs.empty());
      for (const std::vector<std::int32_t>& ownerOf :
           {std::vector<std::int32_t>{0, 0, 1, 1}, {0, 1, 2, 3}, {1, 0, 1, 0}}) {
        SCOPED_TRACE(fmt::format(
            "{}, barriers {}, owners {}", schedule::name(kind), barriers, fmt::join(ownerOf, " ")));
        EXPECT_TRUE(runParts(training, ownerOf) == whole);
      }
    }
  }
}

TEST(Parts, OfFarDevicesHaveTheBitsOfTheWhole) {
  Training training;
  const Left whole = runWhole(training);
  training.kind = "far";
  EXPECT_TRUE(runParts(training, {0, 1, 1, 2}) == whole);
}

TEST(Parts, OfConnectedDevicesHaveTheBitsOfTheWhole) {
  for (const PipelineKind kind :
       {PipelineKind::Sequential, PipelineKind::OneForwardOneBackward, PipelineKind::ZeroBubble}) {
    Training training;
    training.run.kind = kind;
    const Left whole = runWhole(training);
    for (const std::string device : {"cpu", "far"}) {
      training.kind = device;
      for (const std::vector<std::int32_t>& ownerOf :
           {std::vector<std::int32_t>{0, 0, 1, 1}, {0, 1, 2, 3}, {1, 0, 1, 0}}) {
        SCOPED_TRACE(fmt::format(
            "{} on {}, owners {}", schedule::name(kind), device, fmt::join(ownerOf, " ")));
        FakePeers peers;
        EXPECT_TRUE(runParts(training, ownerOf, &peers) == whole);
        EXPECT_GT(peers.copies.load(), 0);
        EXPECT_EQ(peers.usedTwice.load(), 0);
      }
    }
  }
}

/// Two replicas, in engines of their own, of a device that gathers what both have made. Returns the
/// gathered bits of each step in both.
std::array<Left, 2> gatherInBoth(const std::string& kind, FakePeers* direct) {
  ir::Graph graph("gathers");
  ir::GraphBuilder b(graph);
  b.place.block = graph.blockIndex("b0");
  const ir::Value part = ops::neg(b, b.input("x", testing::f32({3})));
  graph.addOutput("y", ops::neg(b, ops::replicaGather(b, part, Shape{6}, 2)));
  const auto communicators = makeLocalCommunicators(2);
  std::array<Left, 2> lefts;
  const auto runReplica = [&](std::size_t own) {
    std::vector<std::unique_ptr<device::Device>> made;
    made.push_back(devices::makeDevice({.name = {.kind = kind}, .number = 0}));
    if (direct != nullptr) {
      made[0] = std::make_unique<PortedDevice>(std::move(made[0]), *direct, std::to_string(own));
      communicators[own]->connectDevices();
    }
    DeviceGroup group(std::move(made));
    const Chain chain = group.lower(graph, {.deviceOfStage = {0}});
    group.state->adopt(chain.state);
    const auto loaded = group.engine->load(chain.program, 1, {}, Replicas::Apart);
    const Peers peers{
        .communicator = *communicators[own],
        .rankOf = {static_cast<std::int32_t>(own)},
        .group = {.communicator = communicators[own].get(), .ranks = {0, 1}, .me = own},
        .hostCountsAll = false};
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const auto index = 10 * step + static_cast<std::int64_t>(own);
      note(group.step(*loaded, {testing::randomInputs(graph, 3, index)}, &peers), lefts[own]);
    }
  };
  std::thread other([&] { runReplica(1); });
  runReplica(0);
  other.join();
  return lefts;
}

TEST(Parts, GatherAmongConnectedDevicesWhatTheyGatherThroughTheHost) {
  for (const std::string kind : {"cpu", "far"}) {
    const std::array<Left, 2> staged = gatherInBoth(kind, nullptr);
    EXPECT_EQ(staged[0].outputs.at("y").size(), static_cast<std::size_t>(kSteps));
    EXPECT_TRUE(staged[0] == staged[1]);
    FakePeers peers;
    EXPECT_TRUE(gatherInBoth(kind, &peers) == staged);
    EXPECT_EQ(peers.copies.load(), 2 * 2 * kSteps);
  }
}

TEST(Parts, EndTogetherWhenOneFails) {
  const Training training;
  const std::vector<std::int32_t> ownerOf = {0, 0, 1, 1};
  const auto communicators = makeLocalCommunicators(2);
  std::array<std::string, 2> messages;
  const auto runPart = [&](std::size_t own) {
    EngineOptions options;
    if (own == 1) {
      options.beforeTask = [](std::size_t, std::int64_t count) {
        if (count == 2) {
          raise<DeviceError>("a cable was cut");
        }
      };
    }
    DeviceGroup group(kDevices, options);
    Chain chain = training.lower(group);
    chain.program = program::split(chain.program, ownerOf)[own].program;
    const auto loaded = group.load(chain);
    const Peers peers{*communicators[own], ownerOf};
    try {
      group.step(*loaded, training.inputs(), &peers);
    } catch (const Error& error) {
      messages[own] = error.what();
    }
  };
  std::thread other([&] { runPart(1); });
  runPart(0);
  other.join();
  EXPECT_THAT(messages[0], HasSubstr("the step of rank 1 has failed: "));
  EXPECT_THAT(messages[1], HasSubstr("a cable was cut"));
}

/// A rank in this process that notes which threads post its messages.
class NotedCommunicator final : public Communicator {
 public:
  NotedCommunicator(std::array<Inbox, 2>& inboxes, std::int32_t rank)
      : Communicator(rank, 2, kPatience), inboxes_(inboxes) {}

  std::mutex mutex;  // guards both
  std::set<std::thread::id> computing;
  int leftAtOnce = 0;  ///< messages that a thread has posted which also computes

 private:
  void doPost(std::int32_t to, std::int64_t number, MessageBytes bytes) override {
    {
      const std::scoped_lock lock(mutex);
      leftAtOnce += computing.contains(std::this_thread::get_id()) ? 1 : 0;
    }
    inboxes_[static_cast<std::size_t>(to)].deliver({rank(), 0, number}, std::move(bytes));
  }
  bool doAwait(std::int32_t from, std::int64_t number, std::chrono::milliseconds atMost) override {
    return own().await({from, 0, number}, atMost);
  }
  MessageBytes doFetch(std::int32_t from,
                       std::int64_t number,
                       std::chrono::milliseconds patience) override {
    return own().fetch({from, 0, number}, rank(), patience);
  }
  bool doHas(std::int32_t from, std::int64_t number) override {
    return own().has({from, 0, number});
  }
  void doInterrupt(std::string_view reason) override {
    for (Inbox& inbox : inboxes_) {
      inbox.interrupt(reason);
    }
  }
  void doRequireGoing() const override { own().requireGoing(); }
  Inbox& own() const { return inboxes_[static_cast<std::size_t>(rank())]; }

  std::array<Inbox, 2>& inboxes_;
};

/// A thread for messages alone may be the first to see one, but not every time.
TEST(Parts, SendShortMessagesFromTheThreadsThatHaveMadeThem) {
  const Training training;
  const std::vector<std::int32_t> ownerOf = {0, 0, 1, 1};
  std::array<Inbox, 2> inboxes;
  std::array<NotedCommunicator, 2> noted = {NotedCommunicator(inboxes, 0),
                                            NotedCommunicator(inboxes, 1)};
  const auto runPart = [&](std::size_t own) {
    Chain chain;
    EngineOptions options;
    options.beforeTask = [&](std::size_t lane, std::int64_t) {
      if (chain.program.lanes[lane].kind == program::LaneKind::Compute) {
        const std::scoped_lock lock(noted[own].mutex);
        noted[own].computing.insert(std::this_thread::get_id());
      }
    };
    DeviceGroup group(kDevices, options);
    chain = training.lower(group);
    chain.program = program::split(chain.program, ownerOf)[own].program;
    const auto loaded = group.load(chain);
    const Peers peers{noted[own], ownerOf};
    for (int step = 0; step < 10; ++step) {
      group.step(*loaded, training.inputs(), &peers);
    }
  };
  std::thread other([&] { runPart(1); });
  runPart(0);
  other.join();
  for (const NotedCommunicator& each : noted) {
    EXPECT_GT(each.leftAtOnce, 0);
  }
}

TEST(Parts, NeedTheirOtherOwners) {
  const Training training;
  DeviceGroup group(kDevices);
  Chain chain = training.lower(group);
  chain.program = program::split(chain.program, std::array{0, 0, 1, 1})[0].program;
  const auto loaded = group.load(chain);
  EXPECT_THROW(group.step(*loaded, training.inputs()), InternalError);
}

}  // namespace
}  // namespace sluice::runtime
