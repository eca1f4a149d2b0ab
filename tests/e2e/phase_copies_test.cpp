// What moves between the phases of a program: which tensors leave the devices under each liveness,
// which go straight from device to device, and when weights are loaded. Every number is counted by
// hand from the rule that a tensor stays on its device for two phases after its last use.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/virtual_clock.h"
#include "sluice/runtime/simulator.h"
#include "sluice/sluice.h"
#include "tests/support/lane_text.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kChainRows = 4;
constexpr std::int64_t kChainWidth = 8;
constexpr std::size_t kActivationBytes = kChainRows * kChainWidth * sizeof(float);
constexpr std::size_t kWeightBytes = kChainWidth * kChainWidth * sizeof(float);

/// Layer i is h = tanh(x w) in block "b<i>"; the loss belongs to the last block.
struct PhaseChain : nn::Module {
  explicit PhaseChain(int count) {
    for (int i = 0; i < count; ++i) {
      weights.push_back(&addParameter(fmt::format("w{}", i),
                                      {DType::F32, Shape{kChainWidth, kChainWidth}},
                                      ir::Initializer::uniform(-0.5, 0.5)));
    }
  }

  nn::Tensor forward(nn::Tensor x) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const nn::Block block(fmt::format("b{}", i));
      x = nn::tanh(nn::matmul(x, weights[i]->use()));
    }
    if (!withLoss) {
      return x;
    }
    const nn::Block block(fmt::format("b{}", weights.size() - 1));
    return nn::mean(x * x);
  }

  std::vector<nn::Parameter*> weights;
  bool withLoss = false;
};

HostTensor chainInput(std::int64_t microBatches) {
  return testing::randomTensor(
      3, {DType::F32, Shape{kChainRows * microBatches, kChainWidth}}, -1, 1);
}

/// How often things move in a round of one micro-batch.
struct Moves {
  int flushed = 0;  ///< activations to remote memory
  int fetched = 0;  ///< and from it
  int weightsFlushed = 0;
  int weightsFetched = 0;
  std::vector<std::string> direct = {};  ///< activations and gradients, "0>1"

  bool operator==(const Moves&) const = default;
};
void PrintTo(const Moves& moves, std::ostream* out) {
  *out << fmt::format("activations -{} +{}, weights -{} +{}, direct {}",
                      moves.flushed,
                      moves.fetched,
                      moves.weightsFlushed,
                      moves.weightsFetched,
                      fmt::join(moves.direct, " "));
}

Moves movesOf(const program::Program& p) {
  Moves moves;
  for (const program::Transfer& transfer : p.transfers) {
    const program::Buffer& from = p.buffer(transfer.from);
    const program::Buffer& to = p.buffer(transfer.to);
    if (from.isRemote()) {
      ++(from.region == program::Region::State ? moves.weightsFetched : moves.fetched);
    } else if (to.isRemote()) {
      ++(to.region == program::Region::State ? moves.weightsFlushed : moves.flushed);
    } else if (!transfer.oncePerRound) {
      EXPECT_EQ(transfer.bytes, kActivationBytes) << transfer.name;
      moves.direct.push_back(fmt::format("{}>{}", from.device, to.device));
    }
  }
  return moves;
}

/// Three layers in training, with one micro-batch per round.
program::Program trainedChain(const Strategy& strategy) {
  PhaseChain net(3);
  net.withLoss = true;
  Options options;
  options.setExecutionStrategy(strategy);
  auto model = trainingModel(net, options, optim::SGD(0.1));
  model.compile(std::vector{chainInput(1)});
  return model.program();
}

/// The output of `layers` layers for two micro-batches, and the program that made it.
std::pair<HostTensor, program::Program> inferredChain(int layers, const Strategy& strategy) {
  PhaseChain net(layers);
  Options options;
  options.deviceIterations(2).setExecutionStrategy(strategy);
  auto model = inferenceModel(net, options);
  const HostTensor y = model(chainInput(2));
  return {y, model.program()};
}

SerialPhasedExecution serialChain() {
  return SerialPhasedExecution{"b0", "b1", "b2"}.order(PhaseOrder::PhaseMajor);
}
ParallelPhasedExecution parallelChain() {
  return ParallelPhasedExecution{"b0", "b1", "b2"}.order(PhaseOrder::PhaseMajor);
}

TEST(TensorsLiveness, DecidesWhatLeavesTheDeviceOfSerialPhases) {
  // Of x, h0, h1, h2 and of the gradients of h1 and h0. The last layer reads h2 only in its own
  // phases, the first one reads x in its own.
  // Phases 0, 1, 2 and backward 4, 3, 2: x waits from 0 to 4, everything else at most two phases.
  const Moves live{.flushed = 1, .fetched = 1, .weightsFlushed = 3, .weightsFetched = 4};
  EXPECT_EQ(movesOf(trainedChain(serialChain())), live);
  EXPECT_EQ(movesOf(trainedChain(serialChain().setTensorsLiveness(Liveness::AlwaysLive))), live);
  // Backward 10, 9, 8, or phases 0, 2, 4 and 14, 12, 10: x, h0, h1 and h2 are off between the
  // passes, and so is each weight.
  const Moves between{.flushed = 4, .fetched = 4, .weightsFlushed = 3, .weightsFetched = 6};
  for (const Liveness liveness : {Liveness::OffChipAfterFwd, Liveness::OffChipAfterFwdNoOverlap}) {
    EXPECT_EQ(movesOf(trainedChain(serialChain().setTensorsLiveness(liveness))), between);
  }
  // Phases 0, 4, 8 and 22, 18, 14: nothing waits on the device for the next phase that reads it.
  // x and h2 come back once, h0 and h1 three times, each gradient once.
  const Moves each{.flushed = 6, .fetched = 10, .weightsFlushed = 3, .weightsFetched = 6};
  EXPECT_EQ(
      movesOf(trainedChain(serialChain().setTensorsLiveness(Liveness::OffChipAfterEachPhase))),
      each);
}

TEST(TensorsLiveness, DecidesWhatLeavesTheDevicesOfParallelPhases) {
  // Device 0 has phases 0 and 2, device 1 phase 1. h0 and h1 cross, and so do their gradients.
  const std::vector<std::string> crossings = {"0>1", "1>0", "0>1", "1>0"};
  // Backward 4, 3, 2: x and h0 wait on device 0 from 0 to 4. Device 1 uses h0 and h1 in 1 and 3.
  const Moves live{
      .flushed = 2, .fetched = 2, .weightsFlushed = 3, .weightsFetched = 4, .direct = crossings};
  EXPECT_EQ(movesOf(trainedChain(parallelChain())), live);
  EXPECT_EQ(movesOf(trainedChain(parallelChain().sendTensorsOffChipAfterFwd(false))), live);
  // Backward 10, 9, 8: the copies of h0 on device 1 and of h1 on device 0, and h1 and h2 where they
  // are made, leave as well.
  const Moves between{
      .flushed = 6, .fetched = 6, .weightsFlushed = 3, .weightsFetched = 6, .direct = crossings};
  EXPECT_EQ(movesOf(trainedChain(parallelChain().sendTensorsOffChipAfterFwd(true))), between);
}

TEST(PhaseCopies, GoFromDeviceToDeviceInsideAndBetweenPhases) {
  const std::vector<Stage> whole = {Stage("b0", "b1", "b2", "b3")};
  const HostTensor expected = inferredChain(4, ShardedExecution(whole)).first;
  const Strategy between = ParallelPhasedExecution{"b0", "b1", "b2", "b3"};
  const Strategy inside =
      SerialPhasedExecution{Phase(Stage("b0"), Stage("b1")), Phase(Stage("b2"), Stage("b3"))};
  for (const Strategy& strategy : {between, inside}) {
    SCOPED_TRACE(strategy.str());
    const auto [y, p] = inferredChain(4, strategy);
    EXPECT_TRUE(y.sameBits(expected));
    const Moves moves = movesOf(p);
    EXPECT_THAT(moves.direct, ElementsAre("0>1", "1>0", "0>1"));
    EXPECT_EQ(moves.flushed, 0);
    EXPECT_EQ(moves.fetched, 0);
    EXPECT_EQ(program::remoteBytesPerRound(p), 4 * kWeightBytes);
  }
}

/// When each layer computes and when its weight is loaded.
struct LayerTimes {
  std::vector<program::TaskSpan> compute;
  std::vector<program::TaskSpan> load;
  std::int64_t end = 0;
};

LayerTimes timesOf(const program::Program& p, std::int64_t compute, std::int64_t load) {
  runtime::SimCosts costs;
  for (const program::Segment& segment : p.segments) {
    costs.segments.push_back({.busy = segment.kind == program::SegmentKind::Forward ? compute : 0});
  }
  for (const program::Transfer& transfer : p.transfers) {
    costs.transfers.push_back({.busy = p.buffer(transfer.from).isRemote() ? load : 0});
  }
  const runtime::SimRun run = runtime::simulate(p, costs);
  LayerTimes times{std::vector<program::TaskSpan>(3), std::vector<program::TaskSpan>(3), run.end};
  for (const runtime::TaskTime& time : run.times) {
    const program::Task& task =
        p.lanes[static_cast<std::size_t>(time.lane)].tasks[static_cast<std::size_t>(time.task)];
    const auto subject = static_cast<std::size_t>(task.subject);
    if (task.kind == program::TaskKind::Run &&
        p.segments[subject].kind == program::SegmentKind::Forward) {
      times.compute[static_cast<std::size_t>(p.segments[subject].stage)] = {time.start, time.end};
    } else if (task.kind == program::TaskKind::Transfer &&
               p.buffer(p.transfers[subject].from).isRemote()) {
      const std::string& weight = p.transfers[subject].name;  // "w0", "w1", "w2"
      times.load[static_cast<std::size_t>(weight.at(1) - '0')] = {time.start, time.end};
    }
  }
  return times;
}

TEST(PhaseCopies, OneDeviceLoadsWhileTheOtherComputes) {
  PhaseChain net(3);
  Options options;
  options.setExecutionStrategy(parallelChain());
  auto model = inferenceModel(net, options);
  model.compile(std::vector{chainInput(1)});
  const program::Program& p = model.program();
  EXPECT_EQ(testing::passesOf(p, 0), "F0(0) F2(0)");
  EXPECT_EQ(testing::passesOf(p, 1), "F1(0)");
  const Moves moves = movesOf(p);
  EXPECT_EQ(moves, (Moves{.weightsFetched = 3, .direct = {"0>1", "1>0"}}));
  for (const program::Transfer& transfer : p.transfers) {
    if (p.buffer(transfer.from).isRemote()) {
      EXPECT_EQ(p.buffer(transfer.to).device, transfer.name == "w1" ? 1 : 0) << transfer.name;
    }
  }
  constexpr std::int64_t kCompute = 12;
  for (const std::int64_t load : {6, 12, 24}) {
    SCOPED_TRACE(load);
    const LayerTimes times = timesOf(p, kCompute, load);
    // The first weight is loaded before slot 0. A slot takes as long as the longer of computing a
    // layer and loading the weight of the next one.
    const std::int64_t slot = std::max(kCompute, load);
    EXPECT_EQ(times.compute[0], (program::TaskSpan{load, load + kCompute}));
    for (std::size_t layer = 1; layer < 3; ++layer) {
      EXPECT_LE(times.load[layer].start, times.compute[layer - 1].start) << layer;
      EXPECT_EQ(times.compute[layer].start,
                std::max(times.compute[layer - 1].end, times.load[layer].end));
    }
    EXPECT_LE(times.end, load + 2 * slot + kCompute);
    if (load <= kCompute) {
      EXPECT_EQ(times.end, load + 3 * kCompute);
    }
  }
}

/// Two columns of three weights, one per phase: the stages of a phase share nothing.
struct Columns : nn::Module {
  static constexpr int kPhases = 3;
  static std::string block(int phase, int column) { return fmt::format("p{}c{}", phase, column); }

  Columns() {
    for (int i = 0; i < 2 * kPhases; ++i) {
      weights.push_back(&addParameter(
          fmt::format("w{}", i), {DType::F32, Shape{1}}, ir::Initializer::constant(1)));
    }
  }

  /// The mean of x w0 w2 w4 + x w1 w3 w5.
  nn::Tensor forward(nn::Tensor x) {
    std::vector<nn::Tensor> columns = {x, x};
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int column = 0; column < 2; ++column) {
        const nn::Block b(block(phase, column));
        nn::Tensor& y = columns[static_cast<std::size_t>(column)];
        y = y * weights[static_cast<std::size_t>(2 * phase + column)]->use();
      }
    }
    const nn::Block b("sum");
    return nn::mean(columns[0] + columns[1]);
  }

  static std::vector<Phase> phases() {
    std::vector<Phase> all;
    for (int phase = 0; phase < kPhases; ++phase) {
      all.emplace_back(Stage(block(phase, 0)), Stage(block(phase, 1)));
    }
    all.emplace_back("sum");
    return all;
  }

  std::vector<nn::Parameter*> weights;
};

std::vector<Strategy> columnStrategies() {
  std::vector<Strategy> all;
  for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
    all.push_back(SerialPhasedExecution(Columns::phases()).order(order));
    all.push_back(ParallelPhasedExecution(Columns::phases()).order(order));
  }
  return all;
}

TEST(PhasedReplicas, AverageTheGradientsOfAllPhases) {
  for (const Strategy& strategy : columnStrategies()) {
    SCOPED_TRACE(strategy.str());
    Columns net;
    Options options;
    options.replicationFactor(2).setExecutionStrategy(strategy);
    options.training.gradientAccumulation(2);
    auto model = trainingModel(net, options, optim::SGD(0.5));
    model(HostTensor::of<float>({4}, {1, 2, 3, 4}));
    // While all weights are 1, the gradient of each is the mean of x: 2 of replica 0, 3 of 1.
    EXPECT_EQ(model.program().collectives.size(), 6U);
    for (const program::Collective& collective : model.program().collectives) {
      EXPECT_TRUE(collective.oncePerRound) << collective.name;
    }
    for (int i = 0; i < 2 * Columns::kPhases; ++i) {
      for (const std::size_t replica : {0U, 1U}) {
        EXPECT_EQ(model.session().read(fmt::format("w{}", i), replica).at(0), 1 - 0.5 * 2.5)
            << i << " of replica " << replica;
      }
    }
  }
}

/// When a pass of a stage runs: by stage, pass and micro-batch.
struct PassTimes {
  std::map<std::tuple<std::int32_t, bool, std::int32_t>, program::TaskSpan> spans;
  std::int64_t end = 0;
};

constexpr std::int64_t kPassTime = 7;

/// Every pass of a column's stage takes kPassTime, and nothing else takes any time.
PassTimes timesOfColumns(const program::Program& p) {
  program::ClockCosts costs;
  for (const program::Segment& segment : p.segments) {
    const bool column = !segment.oncePerRound() && segment.stage < 2 * Columns::kPhases;
    costs.segments.push_back(column ? kPassTime : 0);
  }
  const program::ClockRun run = program::runOnClock(p, costs);
  PassTimes times{.spans = {}, .end = run.end};
  for (std::size_t l = 0; l < p.lanes.size(); ++l) {
    for (std::size_t t = 0; t < p.lanes[l].tasks.size(); ++t) {
      const program::Task& task = p.lanes[l].tasks[t];
      if (task.kind != program::TaskKind::Run) {
        continue;
      }
      const program::Segment& segment = p.segments[static_cast<std::size_t>(task.subject)];
      const bool forward = segment.kind == program::SegmentKind::Forward;
      if (!segment.oncePerRound()) {
        times.spans[{segment.stage, forward, task.microBatch}] = run.lanes[l][t];
      }
    }
  }
  return times;
}

TEST(PhasedReplicas, StagesOfOnePhaseComputeAtTheSameTime) {
  constexpr std::int32_t kMicroBatches = 3;
  for (const std::int64_t replicas : {1, 2}) {
    for (const Strategy& strategy : columnStrategies()) {
      SCOPED_TRACE(fmt::format("{} replicas of {}", replicas, strategy.str()));
      Columns net;
      Options options;
      options.replicationFactor(replicas).setExecutionStrategy(strategy);
      options.training.gradientAccumulation(kMicroBatches);
      auto model = trainingModel(net, options, optim::SGD(0.5));
      model.compile(std::vector{HostTensor(DType::F32, Shape{kMicroBatches * replicas})});
      const PassTimes times = timesOfColumns(model.program());
      for (std::int32_t phase = 0; phase < Columns::kPhases; ++phase) {
        for (const bool forward : {true, false}) {
          for (std::int32_t m = 0; m < kMicroBatches; ++m) {
            EXPECT_EQ(times.spans.at({2 * phase, forward, m}),
                      times.spans.at({2 * phase + 1, forward, m}))
                << "phase " << phase << (forward ? " forward " : " backward ") << m;
          }
        }
      }
      // One group of devices: as long as one column alone. Two groups overlap their phases.
      const std::int64_t column = kMicroBatches * 2 * Columns::kPhases * kPassTime;
      if (strategy.kind() == parallel::StrategyKind::SerialPhased) {
        EXPECT_EQ(times.end, column);
      } else {
        EXPECT_LE(times.end, column);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
