// The Engine over several devices: the bits of one device whatever the order that tasks become
// ready in, errors and stalls, and no byte outside the plan of any device.
#include <array>
#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "tests/support/arena.h"
#include "tests/support/device_group.h"
#include "tests/support/machine.h"
#include "tests/support/small_models.h"
#include "tests/support/staged_models.h"
#include "tests/support/tensor_types.h"

namespace sluice::runtime {
namespace {

using testing::f32;

using schedule::PipelineKind;
using sluice::testing::Chain;
using Group = sluice::testing::DeviceGroup;
using sluice::testing::chainModel;
using sluice::testing::ChainRun;
using sluice::testing::inputsOf;
using sluice::testing::MapFeed;
using sluice::testing::MapSink;
using sluice::testing::PromptFeed;
using sluice::testing::PromptSink;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Hashes of all variables after two steps of two rounds.
std::map<std::string, std::uint64_t> trained(const ir::Graph& graph,
                                             const ChainRun& run,
                                             const EngineOptions& options) {
  std::int32_t devices = 0;
  for (const std::int32_t d : run.deviceOfStage) {
    devices = std::max(devices, d + 1);
  }
  Group group(static_cast<std::size_t>(devices), options);
  const Chain chain = group.lower(graph, run);
  program::verify(chain.program);
  const auto loaded = group.load(chain);
  for (int step = 0; step < 2; ++step) {
    group.step(*loaded, inputsOf(graph, 2 * run.microBatches));
  }
  std::map<std::string, std::uint64_t> bits;
  for (const ir::Variable& variable : graph.variables()) {
    bits[variable.name] = group.state->read(variable.name).hash();
  }
  return bits;
}

std::atomic<std::uint64_t> delaySeed{0};

/// Lets other threads go first, or makes them wait, as the seed says.
void delay(std::size_t lane, std::int64_t count) {
  std::uint64_t x = delaySeed.load() + lane * 0x9E3779B97F4A7C15U +
                    static_cast<std::uint64_t>(count) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 31U)) * 0x94D049BB133111EBU;
  switch ((x >> 60U) % 4) {
    case 0:
      std::this_thread::yield();
      break;
    case 1: {
      std::atomic<std::uint64_t> turns{(x >> 40U) % 4000};
      while (turns.load(std::memory_order_relaxed) > 0) {
        turns.fetch_sub(1, std::memory_order_relaxed);
      }
      break;
    }
    default:
      break;
  }
}

/// What a pipeline with a device for each stage needs to run a step.
struct StepWork {
  double entries = 0;  ///< of its tables
  double looks = 0;    ///< at lanes, to find the next task
};

StepWork workOf(std::int32_t stages, std::size_t replicas) {
  const ir::Graph graph = chainModel({.blocks = stages});
  ChainRun run{.microBatches = 2};
  for (std::int32_t s = 0; s < stages; ++s) {
    run.deviceOfStage.push_back(s);
  }
  Group group(static_cast<std::size_t>(stages), {.workers = 1});
  const Chain chain = group.lower(graph, run);
  std::vector<std::unique_ptr<ModelState>> more;
  while (more.size() + 1 < replicas) {
    more.push_back(
        std::make_unique<ModelState>(group.state->devices(), sluice::testing::kGroupSeed));
    more.back()->adopt(chain.state);
    group.engine->addReplica(*more.back());
  }
  group.state->adopt(chain.state);
  const auto loaded = group.engine->load(chain.program, replicas);
  PromptFeed feed(loaded->program(), inputsOf(graph, 2 * static_cast<std::int64_t>(replicas)));
  PromptSink sink(loaded->program());
  group.engine->run(*loaded, {.feed = feed, .sink = sink});
  return {static_cast<double>(loaded->tableEntries()),
          static_cast<double>(group.engine->lanesLookedAt())};
}

TEST(EngineOnSeveralDevices, TablesGrowWithStagesAndReplicasNotWithTheirSquares) {
  const double few = workOf(16, 1).entries;
  EXPECT_LE(workOf(32, 1).entries, 2.1 * few);
  EXPECT_LE(workOf(16, 8).entries, 8 * few);
  EXPECT_LE(workOf(1, 16).entries, 2.1 * workOf(1, 8).entries);
}

/// Every task is looked for. If all lanes were looked at each time, 8 times the replicas would take
/// 64 times the looks.
TEST(EngineOnSeveralDevices, TheSearchForTasksGrowsWithReplicasNotWithTheirSquare) {
  EXPECT_LE(workOf(1, 256).looks, 16 * workOf(1, 32).looks);
  EXPECT_LE(workOf(3, 256).looks, 16 * workOf(3, 32).looks);
}

TEST(EngineOnSeveralDevices, GivesTheBitsOfOneDeviceWhateverIsDelayed) {
  const ir::Graph graph = chainModel({.blocks = 4, .skip = true, .tied = true, .clipped = true});
  const auto expected = trained(graph, {.deviceOfStage = {0, 0, 0, 0}, .microBatches = 4}, {});
  std::uint64_t seed = 0;
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    for (const int workers : {1, 2, 4}) {
      delaySeed.store(++seed);
      const std::vector<std::int32_t> devices = seed % 2 == 0
                                                    ? std::vector<std::int32_t>{0, 1, 2, 3}
                                                    : std::vector<std::int32_t>{1, 0, 1, 2};
      EXPECT_EQ(trained(graph,
                        {.deviceOfStage = devices, .microBatches = 4, .kind = kind},
                        {.workers = workers, .beforeTask = delay}),
                expected)
          << schedule::name(kind) << ", " << workers << " workers, seed " << seed;
    }
  }
}

/// Scores in two blocks, then a loss that refuses labels out of range, on device 2.
ir::Graph lossModel() {
  ir::Graph graph("loss");
  ir::GraphBuilder b(graph);
  ir::Value y = b.input("scores", f32({2, 3}));
  for (int i = 0; i < 2; ++i) {
    b.place.block = graph.blockIndex("b" + std::to_string(i));
    y = ops::neg(b, y);
  }
  b.place.block = graph.blockIndex("b2");
  graph.addOutput("loss", ops::nllLoss(b, y, b.input("labels", {DType::I32, {2}})));
  return graph;
}

ops::TensorMap lossInputs(std::int32_t label) {
  return {{"scores", HostTensor::of<float>({2, 3}, {-1, -2, -3, -4, -5, -6})},
          {"labels", HostTensor::of<std::int32_t>({2}, {0, label})}};
}

TEST(EngineOnSeveralDevices, StopsAtAKernelsErrorAndWorksAfterwards) {
  for (const int workers : {1, 2, 3}) {
    Group group(3, {.workers = workers});
    const auto loaded =
        group.load(group.lower(lossModel(), {.deviceOfStage = {0, 1, 2}, .microBatches = 2}));
    std::vector<ops::TensorMap> inputs(8, lossInputs(2));
    inputs[3] = lossInputs(7);
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        group.step(*loaded, inputs);
        FAIL() << "label 7 of 3 classes was accepted";
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.message(), HasSubstr("7"));
        EXPECT_THAT(error.location(), HasSubstr("run of micro-batch 1, round 1, device 2"));
      }
      const MapSink sink = group.step(*loaded, {lossInputs(2), lossInputs(1)});
      EXPECT_EQ(sink.results.at("loss")[0].second.at(0), 3.5);
      EXPECT_EQ(sink.results.at("loss")[1].second.at(0), 3.0);
    }
  }
}

TEST(EngineOnSeveralDevices, ReportsAStallLaneByLaneAndWorksAfterwards) {
  Group group(2, {.stallTimeout = std::chrono::milliseconds(1500)});
  const ir::Graph graph = chainModel({.training = false});
  Chain chain = group.lower(graph, {.deviceOfStage = {0, 1}, .microBatches = 2});
  const auto good = group.load(chain);
  // The second micro-batch of device 1 waits for the end of its own lane, which never comes.
  program::Program& p = chain.program;
  const auto lane = std::ranges::find_if(p.lanes, [](const program::Lane& each) {
    return each.device == 1 && each.kind == program::LaneKind::Compute;
  });
  program::Task& victim = lane->tasks.back();
  victim.firstWait = static_cast<std::int32_t>(p.waits.size());
  victim.numWaits = 1;
  p.waits.push_back({.lane = static_cast<std::int32_t>(lane - p.lanes.begin()),
                     .task = static_cast<std::int32_t>(lane->tasks.size()) - 1});
  const auto broken = group.load(chain);
  const std::vector<ops::TensorMap> inputs = inputsOf(graph, 2);
  const MapSink before = group.step(*good, inputs);
  try {
    group.step(*broken, inputs);
    FAIL() << "a wait that never comes was passed";
  } catch (const DeviceError& error) {
    EXPECT_THAT(
        error.message(),
        AllOf(
            HasSubstr("stall: no task has ended for 1500 ms"),
            HasSubstr("load of device 0: finished feed x of micro-batch 1, round 0\n"),
            HasSubstr("compute of device 0: finished run forward 0 of micro-batch 1, round 0\n"),
            HasSubstr("compute of device 1: finished run forward 1 of micro-batch 0, round 0, next "
                      "is run forward 1 of micro-batch 1, round 0"),
            HasSubstr("store of device 1: finished drain y of micro-batch 0, round 0, next is "
                      "drain y of micro-batch 1, round 0")));
  }
  const MapSink after = group.step(*good, inputs);
  for (std::size_t m = 0; m < 2; ++m) {
    EXPECT_TRUE(after.results.at("y").at(m).second.sameBits(before.results.at("y").at(m).second));
  }
}

/// Per device: the first byte above everything that two rounds changed in painted arenas.
std::vector<std::size_t> highWaterMarks(const ir::Graph& graph,
                                        const ChainRun& run,
                                        std::vector<std::size_t>& plans) {
  constexpr std::size_t kMargin = 4096;
  std::vector<std::size_t> marks;
  for (const std::byte paint : {std::byte{0xA5}, std::byte{0x5A}}) {
    Group group(3);
    const auto loaded = group.load(group.lower(graph, run));
    const std::vector<program::DevicePlan>& devices = loaded->program().devices;
    marks.resize(devices.size());
    plans.resize(devices.size());
    for (std::size_t d = 0; d < devices.size(); ++d) {
      plans[d] = devices[d].transientBytes;
      group.state->reserveTransient(static_cast<std::int32_t>(d), plans[d] + kMargin);
      sluice::testing::paintTransient(*group.state, static_cast<std::int32_t>(d), paint);
    }
    group.step(*loaded, inputsOf(graph, 2 * run.microBatches));
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const std::vector<std::byte> arena =
          sluice::testing::readTransient(*group.state, static_cast<std::int32_t>(d));
      for (std::size_t i = marks[d]; i < arena.size(); ++i) {
        marks[d] = arena[i] != paint ? i + 1 : marks[d];
      }
    }
  }
  return marks;
}

ir::Graph elementwiseChain() {
  ir::Graph graph("elementwise");
  ir::GraphBuilder b(graph);
  ir::Value y = b.input("x", f32({37}));
  for (int i = 0; i < 3; ++i) {
    b.place.block = graph.blockIndex("b" + std::to_string(i));
    const ir::Value scaled = ops::mul(b, y, b.constant(HostTensor::full(f32({37}), 3 + i)));
    y = ops::exp(b, ops::sub(b, y, scaled));
    graph.addOutput("scaled" + std::to_string(i), scaled);
  }
  graph.addOutput("y", y);
  return graph;
}

TEST(EngineOnSeveralDevices, UsesAsManyBytesOfEachDeviceAsThePlanSays) {
  std::vector<std::size_t> plans;
  for (const PipelineKind kind : {PipelineKind::Grouped, PipelineKind::Sequential}) {
    const std::vector<std::size_t> marks = highWaterMarks(
        elementwiseChain(), {.deviceOfStage = {0, 1, 2}, .microBatches = 4, .kind = kind}, plans);
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_EQ((marks[d] + 63) / 64 * 64, plans[d]) << "device " << d;
      EXPECT_GT(plans[d], 0U);
    }
  }
  for (const PipelineKind kind : schedule::allPipelineKinds()) {
    const std::vector<std::size_t> marks =
        highWaterMarks(chainModel({.blocks = 4, .skip = true, .tied = true, .clipped = true}),
                       {.deviceOfStage = {0, 1, 0, 2}, .microBatches = 5, .kind = kind},
                       plans);
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_LE(marks[d], plans[d]) << "device " << d << ", " << schedule::name(kind);
    }
  }
}

/// Inputs that lie in a device's memory, one micro-batch after the other; the host has none.
struct PlacedFeed : HostFeed {
  explicit PlacedFeed(const device::Memory& given) : memory(given) {}
  const void* take(std::int32_t, std::int64_t) override {
    raise<InvalidArgument>("the host has no inputs");
  }
  device::Address placeOf(std::int32_t /*input*/, std::int64_t microBatch) override {
    return memory.at(static_cast<std::size_t>(microBatch) * kBytes);
  }
  static constexpr std::size_t kBytes = 4 * 6 * sizeof(float);
  const device::Memory& memory;
};

/// Outputs that stay in a device's memory.
struct PlacedSink : HostSink {
  explicit PlacedSink(const device::Memory& given) : memory(given) {}
  void put(std::int32_t, std::int64_t, const void*) override {
    raise<InvalidArgument>("the host wants no outputs");
  }
  device::Address roomFor(std::int32_t /*output*/, std::int64_t microBatch) override {
    return memory.at(static_cast<std::size_t>(microBatch) * PlacedFeed::kBytes);
  }
  const device::Memory& memory;
};

TEST(EngineOnADeviceOfItsOwn, TakesInputsAndLeavesOutputsInItsMemory) {
  constexpr std::int32_t kCount = 6;
  const ir::Graph graph = chainModel({.blocks = 2, .training = false});
  Group far(2, {}, "far");
  const auto loaded =
      far.load(far.lower(graph, {.deviceOfStage = {0, 1}, .microBatches = kCount / 2}));
  const std::vector<ops::TensorMap> inputs = inputsOf(graph, kCount);
  const MapSink expected = far.step(*loaded, inputs);
  const auto in = far.devices[0]->allocate(kCount * PlacedFeed::kBytes);
  const auto out = far.devices[1]->allocate(kCount * PlacedFeed::kBytes);
  const auto queue = far.devices[0]->makeQueue();
  for (std::size_t m = 0; m < kCount; ++m) {
    const HostTensor& x = inputs[m].at("x");
    ASSERT_EQ(x.byteCount(), PlacedFeed::kBytes);
    device::copyIn(*queue, in->at(m * PlacedFeed::kBytes), x.bytes(), x.byteCount());
  }
  PlacedFeed feed(*in);
  PlacedSink sink(*out);
  far.engine->run(*loaded, {.feed = feed, .sink = sink, .rounds = 2});
  for (std::size_t m = 0; m < kCount; ++m) {
    HostTensor y(expected.results.at("y")[m].second.type());
    ASSERT_EQ(y.byteCount(), PlacedFeed::kBytes);
    device::copyOut(*queue, y.bytes(), out->at(m * PlacedFeed::kBytes), y.byteCount());
    EXPECT_TRUE(y.sameBits(expected.results.at("y")[m].second)) << "micro-batch " << m;
  }
}

/// Captured are the kernels' launches of as many rounds as it takes until slots repeat; those of
/// later rounds and steps run again, with the numbers of their own micro-batches.
TEST(Replay, TakesWhatWasCapturedOnceSlotsRepeat) {
  const ir::Graph graph = chainModel({.blocks = 3, .training = false, .dropout = true});
  const ChainRun run{.deviceOfStage = {0, 1, 2}, .microBatches = 2, .lookahead = 2};
  Group far(3, {}, "far");
  Group cpu(3);
  const Chain chain = far.lower(graph, run);
  const auto replayed = far.load(chain);
  const auto plain = cpu.load(cpu.lower(graph, run));
  EXPECT_EQ(replayed->captures(), 0U);
  std::int64_t longest = 1;
  std::size_t launches = 0;  // of all rounds of the lanes' periods
  for (const program::Lane& lane : chain.program.lanes) {
    if (lane.kind == program::LaneKind::Compute) {
      const std::int64_t period = program::slotPeriod(chain.program, lane);
      longest = std::max(longest, period);
      launches += lane.tasks.size() * static_cast<std::size_t>(period);
    }
  }
  ASSERT_GT(longest, 1);
  const auto outputs = [&](Group& group, LoadedProgram& loaded, std::int64_t rounds) {
    return group.step(loaded, inputsOf(graph, rounds * run.microBatches)).results.at("y");
  };
  for (int step = 0; step < 3; ++step) {
    const auto found = outputs(far, *replayed, 3 * longest);
    const auto expected = outputs(cpu, *plain, 3 * longest);
    EXPECT_EQ(replayed->captures(), launches) << "step " << step;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].first, expected[i].first);
      EXPECT_TRUE(found[i].second.sameBits(expected[i].second)) << "step " << step << ", " << i;
    }
  }
  EXPECT_EQ(plain->captures(), 0U) << "a CPU device gains nothing by it";
}

}  // namespace
}  // namespace sluice::runtime
