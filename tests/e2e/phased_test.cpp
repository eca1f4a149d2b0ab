// Phased execution: variables and activations in remote memory, the same bits as on one device.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/program/memory_plan.h"
#include "sluice/program/virtual_clock.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/arena.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::deep;
using testing::DeepGpt;
using testing::DeepTraining;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::kUpdates;
using testing::mostBytes;
using testing::onOneDevice;
using testing::ResidualMlp;
using testing::Towers;
using testing::train;

std::vector<Strategy> phasedStrategies() {  // named by their number in this list
  std::vector<Strategy> all;
  const std::vector<Phase> five = {"b0", "b1", "b2", "b3", "b4"};
  const std::vector<Phase> three = {Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")};
  for (const std::vector<Phase>& phases : {five, three}) {
    for (const Liveness liveness : {Liveness::AlwaysLive,
                                    Liveness::OffChipAfterFwd,
                                    Liveness::OffChipAfterFwdNoOverlap,
                                    Liveness::OffChipAfterEachPhase}) {
      for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
        all.push_back(SerialPhasedExecution(phases).setTensorsLiveness(liveness).order(order));
        all.push_back(ParallelPhasedExecution(phases).setTensorsLiveness(liveness).order(order));
      }
    }
    all.push_back(SerialPhasedExecution(phases).useSeparateBackwardPhase(true));
  }
  return all;
}

class PhasedStrategies : public ::testing::TestWithParam<Strategy> {};

TEST_P(PhasedStrategies, GivesTheBitsOfOneDevice) {
  Options options = onOneDevice();
  options.setExecutionStrategy(GetParam());
  EXPECT_EQ(differenceBetweenRounds(train<BlockedCnn>(onOneDevice(), kUpdates),
                                    train<BlockedCnn>(options, kUpdates)),
            "");
  EXPECT_EQ(differenceBetweenRounds(train<ResidualMlp>(onOneDevice(), kUpdates),
                                    train<ResidualMlp>(options, kUpdates)),
            "");
  options.deviceIterations(kUpdates);
  EXPECT_EQ(differenceBetweenRounds(train<BlockedGpt>(onOneDevice(), kUpdates),
                                    train<BlockedGpt>(options, kUpdates)),
            "");
}

INSTANTIATE_TEST_SUITE_P(Matrix, PhasedStrategies, ::testing::ValuesIn(phasedStrategies()));

TEST(Phased, MayMeetAtBarriers) {
  const Bits expected = train<ResidualMlp>(onOneDevice(), kUpdates);
  for (const SyncPattern pattern :
       {SyncPattern::Full, SyncPattern::SinglePipeline, SyncPattern::ReplicaAndLadder}) {
    for (const Strategy& strategy : phasedStrategies()) {
      Options options = onOneDevice();
      options.setExecutionStrategy(strategy).barriers(true).syncPattern(pattern);
      EXPECT_EQ(differenceBetweenRounds(expected, train<ResidualMlp>(options, kUpdates)), "")
          << options.str();
    }
  }
}

/// The variables of the first replica after a few updates.
template <class Net>
Bits trainReplicas(const Options& options) {
  Net net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::int64_t count = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t update = 0; update < kUpdates; ++update) {
    model.run(testing::makeInputs(Net::inputs(), update * count, count));
  }
  return testing::bitsOf(model.session());
}

TEST(Phased, CombinesWithReplicasRecomputationAndThreads) {
  Options plain = onOneDevice();
  plain.replicationFactor(2);
  const Bits cnn = trainReplicas<BlockedCnn>(plain);
  const Bits gpt = trainReplicas<BlockedGpt>(plain);
  const std::vector<Phase> phases = {Phase("b0"), Phase("b1", "b2"), Phase("b3", "b4")};
  for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
    for (const Strategy& strategy : {Strategy(SerialPhasedExecution(phases).order(order)),
                                     Strategy(ParallelPhasedExecution(phases).order(order))}) {
      Options options = plain;
      options.setExecutionStrategy(strategy);
      options.recomputation(Recomputation::Pipeline).threads(2);
      SCOPED_TRACE(strategy.str());
      EXPECT_EQ(differenceBetweenRounds(cnn, trainReplicas<BlockedCnn>(options)), "");
      EXPECT_EQ(differenceBetweenRounds(gpt, trainReplicas<BlockedGpt>(options)), "");
    }
  }
}

TEST(Phased, RunsStagesOfOnePhaseOnDifferentDevices) {
  const Bits towers = train<Towers>(onOneDevice({"b0", "b1", "b2", "b3", "b4", "b5"}), kUpdates);
  for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
    const std::vector<Phase> phases = {Phase(Stage("b0"), Stage("b1")),
                                       Phase(Stage("b2"), Stage("b3")),
                                       Phase(Stage("b4"), Stage("b5"))};
    for (const Strategy& strategy : {Strategy(SerialPhasedExecution(phases).order(order)),
                                     Strategy(ParallelPhasedExecution(phases).order(order))}) {
      Options options = onOneDevice();
      options.setExecutionStrategy(strategy);
      SCOPED_TRACE(strategy.str());
      EXPECT_EQ(differenceBetweenRounds(towers, train<Towers>(options, kUpdates)), "");
    }
  }
}

TEST(Phased, TrainsInAPartOfTheMemory) {
  const Strategy whole =
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")});
  DeepTraining plain(deep(whole));
  const std::size_t need = mostBytes(plain.program());
  const Bits expected = plain.bits(2);
  for (const Strategy& strategy : {Strategy(SerialPhasedExecution(DeepGpt::phases(4))),
                                   Strategy(ParallelPhasedExecution(DeepGpt::phases(4)))}) {
    Options options = deep(strategy);
    options.memoryPerDevice(need * 2 / 5);
    DeepTraining phased(options);
    EXPECT_LE(mostBytes(phased.program()), need * 2 / 5);
    EXPECT_EQ(differenceBetweenRounds(expected, phased.bits(2)), "");
  }
}

TEST(Phased, CutsAModelIntoPhases) {
  const Strategy whole =
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")});
  DeepTraining plain(deep(whole));
  const std::size_t need = mostBytes(plain.program());
  const Bits expected = plain.bits(2);
  // Of two phases one is loaded while the other computes: together they are the whole.
  std::size_t before = std::numeric_limits<std::size_t>::max();
  for (const std::int64_t phases : {2, 4, 8}) {
    SCOPED_TRACE(phases);
    DeepTraining serial(deep(SerialPhasedExecution(Phase::automatic(phases))));
    EXPECT_LT(mostBytes(serial.program()), phases > 2 ? std::min(before, need) : before);
    before = mostBytes(serial.program());
    EXPECT_EQ(differenceBetweenRounds(expected, serial.bits(2)), "");
    DeepTraining parallel(deep(ParallelPhasedExecution(Phase::automatic(phases))));
    EXPECT_EQ(differenceBetweenRounds(expected, parallel.bits(2)), "");
  }
}

TEST(Phased, LoadsAheadUnlessToldOtherwise) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  const auto strategy = [](IoSchedule io) {
    return SerialPhasedExecution(DeepGpt::phases(4))
        .order(PhaseOrder::PhaseMajor)
        .schedule(PhaseSchedule::Batch)
        .io(io);
  };
  const auto planned = [&](IoSchedule io, std::size_t budget) {
    Options options = deep(strategy(io), 8);
    options.memoryPerDevice(budget);
    return mostBytes(DeepTraining(options).program());
  };
  const std::size_t ahead = planned(IoSchedule::Preload, 0);
  const std::size_t demanded = planned(IoSchedule::OnDemand, 0);
  EXPECT_LT(demanded, ahead);
  EXPECT_EQ(planned(IoSchedule::Automatic, 0), ahead);
  EXPECT_EQ(planned(IoSchedule::Automatic, demanded), demanded);
  EXPECT_THROW(planned(IoSchedule::Preload, demanded), OutOfMemory);
  EXPECT_EQ(differenceBetweenRounds(DeepTraining(deep(strategy(IoSchedule::Preload), 4)).bits(2),
                                    DeepTraining(deep(strategy(IoSchedule::OnDemand), 4)).bits(2)),
            "");
}

TEST(Phased, PicksTheOrderThatMovesFewerBytesAndFits) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kCountsCpuBytes;
  }
  constexpr std::int32_t kMicroBatches = 16;  // enough that what phases keep of them is the most
  const auto planned = [](PhaseOrder order, std::size_t budget) {
    Options options = deep(SerialPhasedExecution(DeepGpt::phases(4)).order(order), kMicroBatches);
    options.memoryPerDevice(budget);
    return DeepTraining(options).program();
  };
  const program::Program phases = planned(PhaseOrder::PhaseMajor, 0);
  const program::Program batches = planned(PhaseOrder::MicroBatchMajor, 0);
  const program::Program free = planned(PhaseOrder::Automatic, 0);
  ASSERT_LT(program::remoteBytesPerRound(phases), program::remoteBytesPerRound(batches));
  ASSERT_GT(mostBytes(phases), mostBytes(batches));
  EXPECT_EQ(program::remoteBytesPerRound(free), program::remoteBytesPerRound(phases));
  const program::Program tight = planned(PhaseOrder::Automatic, mostBytes(phases) - 1);
  EXPECT_EQ(program::remoteBytesPerRound(tight), program::remoteBytesPerRound(batches));
  // A budget that nothing fits: which phase, its need, and the smallest one that works.
  const std::string text = testing::messageOf<OutOfMemory>(
      [&] { planned(PhaseOrder::Automatic, mostBytes(batches) / 8); });
  EXPECT_THAT(text, AllOf(HasSubstr("device 0 needs"), HasSubstr("most of all in phase ")));
  const std::string before = "the smallest budget that works for these phases is ";
  ASSERT_THAT(text, HasSubstr(before));
  const std::string found = text.substr(text.find(before) + before.size());
  const std::size_t smallest = std::stoul(found);
  EXPECT_LE(smallest, mostBytes(batches));
  EXPECT_THAT(found, HasSubstr("bytes, with setTensorsLiveness(Liveness::OffChipAfterFwd);"));
  Options options =
      deep(SerialPhasedExecution(DeepGpt::phases(4)).setTensorsLiveness(Liveness::OffChipAfterFwd),
           kMicroBatches);
  Options less = options;
  options.memoryPerDevice(smallest);
  EXPECT_NO_THROW(DeepTraining(options).program()) << text;
  less.memoryPerDevice(smallest - 1);
  EXPECT_THROW(DeepTraining(less).program(), OutOfMemory);
}

TEST(Phased, InferenceLoadsEachWeightOncePerRound) {
  DeepGpt net(4, 32, 2, 8);
  Options options;
  options.deviceIterations(5);
  options.setExecutionStrategy(
      SerialPhasedExecution(DeepGpt::phases(4)).order(PhaseOrder::PhaseMajor));
  auto model = inferenceModel(net, options);
  std::size_t weights = 0;
  for (const auto& parameter : net.parameters()) {
    weights += parameter->type().bytes();
  }
  const std::vector<HostTensor> inputs = testing::makeInputs(net.inputs(), 0, 5);
  const std::vector<HostTensor> got = model.run(inputs);
  EXPECT_EQ(program::remoteBytesPerRound(model.program()), weights);
  DeepGpt plainNet(4, 32, 2, 8);
  Options plain;
  plain.deviceIterations(5);
  plain.setExecutionStrategy(
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")}));
  auto reference = inferenceModel(plainNet, plain);
  const std::vector<HostTensor> expected = reference.run(inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].hash(), expected[i].hash());
  }
}

/// Painted before a step and read behind it, the devices' arenas show what was really used.
/// A phase of b x D x D activations with D x D weights in float16 computes b D operations for each
/// byte that it loads, and takes as long as the longer of both.
TEST(Phased, APhaseTakesAsLongAsTheLongerOfComputingAndLoading) {
  constexpr std::int64_t kBatch = 32;
  constexpr std::int64_t kSize = 250;
  ir::Graph graph("phase");
  ir::GraphBuilder builder(graph);
  const ir::Value x = builder.input("x", {DType::F16, Shape{kBatch, kSize, kSize}});
  const ir::Value w = builder.input("w", {DType::F16, Shape{kSize, kSize}});
  const ir::Op& product = graph.op(ops::matmul(builder, x, w).op);
  const std::vector<TensorType> types = graph.inputTypes(product);
  const double flops = product.def->cost(ir::view(product, types)).flops;
  EXPECT_EQ(flops, 2 * kBatch * kSize * kSize * kSize);
  EXPECT_EQ(flops / static_cast<double>(types[1].bytes()), kBatch * kSize);

  struct Layers : nn::Module {
    Layers() {
      for (int i = 0; i < 8; ++i) {
        weights.push_back(&addParameter(fmt::format("w{}", i),
                                        {DType::F32, Shape{16, 16}},
                                        ir::Initializer::uniform(-0.3, 0.3)));
      }
    }
    nn::Tensor forward(nn::Tensor x) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const nn::Block b(fmt::format("b{}", i));
        x = nn::matmul(x, weights[i]->use());
      }
      return x;
    }
    std::vector<nn::Parameter*> weights;
  };
  Layers net;
  std::vector<Phase> phases;
  for (int i = 0; i < 8; ++i) {
    phases.emplace_back(fmt::format("b{}", i));
  }
  Options options;
  options.setExecutionStrategy(SerialPhasedExecution(phases));
  auto model = inferenceModel(net, options);
  model.compile(std::vector{HostTensor(DType::F32, Shape{4, 16})});
  const program::Program& p = model.program();
  constexpr std::int64_t kCompute = 12;
  for (const std::int64_t load : {6, 12, 24}) {
    program::ClockCosts costs;
    for (const program::Segment& segment : p.segments) {
      costs.segments.push_back(
          segment.calls.empty() || segment.kind == program::SegmentKind::Pack ? 0 : kCompute);
    }
    for (const program::Transfer& transfer : p.transfers) {
      const bool weight = transfer.bytes == 16 * 16 * sizeof(float);
      costs.transfers.push_back(weight ? load : 0);
    }
    constexpr std::int32_t kRounds = 10;
    const std::int64_t took = program::runOnClock(p, costs, kRounds).end;
    const std::int64_t longer = std::max(kCompute, load);
    EXPECT_GE(took, kRounds * 8 * longer);
    EXPECT_LE(took, kRounds * 8 * longer + kCompute + load) << load;
  }
}

TEST(Phased, UsesAsManyBytesAsThePlanSays) {
  for (const Strategy& strategy :
       {Strategy(SerialPhasedExecution(DeepGpt::phases(4)).order(PhaseOrder::PhaseMajor)),
        Strategy(ParallelPhasedExecution(DeepGpt::phases(4)).order(PhaseOrder::MicroBatchMajor))}) {
    DeepGpt net(4, 32, 2, 8);
    auto model = trainingModel(net, deep(strategy), optim::AdamW(1e-2));
    auto other = inferenceModel(net, Options());
    const std::vector<HostTensor> inputs =
        testing::makeInputs(net.inputs(), 0, model.microBatchesPerStep());
    model.run(inputs);
    const std::size_t devices = model.program().devices.size();
    std::vector<std::size_t> highest(devices, 0);
    for (const std::byte paint : {std::byte{0xA5}, std::byte{0x5A}}) {
      other.run(testing::makeInputs(net.inputs(), 0, 1));  // then constants are written again
      for (std::size_t d = 0; d < devices; ++d) {
        testing::paintTransient(model.session().state(), static_cast<std::int32_t>(d), paint);
      }
      model.run(inputs);
      for (std::size_t d = 0; d < devices; ++d) {
        const std::vector<std::byte> arena =
            testing::readTransient(model.session().state(), static_cast<std::int32_t>(d));
        for (std::size_t i = 0; i < arena.size(); ++i) {
          highest[d] = arena[i] != paint ? std::max(highest[d], i + 1) : highest[d];
        }
      }
    }
    for (std::size_t d = 0; d < devices; ++d) {
      const std::size_t alignment = model.session().device(d).info().alignment;
      EXPECT_EQ((highest[d] + alignment - 1) / alignment * alignment,
                model.program().devices[d].transientBytes)
          << strategy.str() << " device " << d;
    }
  }
}

TEST(Phased, IsExplained) {
  DeepTraining training(deep(SerialPhasedExecution(DeepGpt::phases(4))));
  const program::Program& program = training.program();
  EXPECT_THAT(training.model().explain(),
              AllOf(HasSubstr("Phased execution; 1 devices"),
                    HasSubstr("Schedule phase by phase"),
                    HasSubstr(fmt::format("remote memory: {} of state, {} of activations",
                                          program::formatBytes(program.remote.stateBytes),
                                          program::formatBytes(program.remote.transientBytes))),
                    HasSubstr("device 0 fetches ")));
}

/// one.
struct SixPhases : nn::Module {
  static constexpr int kPhases = 6;
  static int products(int phase) { return phase % 2 + 1; }
  static std::string block(int phase, int stage) {
    return fmt::format("phase{}_ipu{}", phase, stage);
  }

  SixPhases() {
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int stage = 0; stage < 2; ++stage) {
        for (int i = 0; i < products(phase); ++i) {
          weights.push_back(&addParameter(fmt::format("w{}_{}_{}", phase, stage, i),
                                          {DType::F32, Shape{10, 10}},
                                          ir::Initializer::uniform(-0.3, 0.3)));
        }
      }
    }
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    std::size_t next = 0;
    std::vector<nn::Tensor> halves = {x, x};
    for (int phase = 0; phase < kPhases; ++phase) {
      for (int stage = 0; stage < 2; ++stage) {
        const nn::Block b(block(phase, stage));
        nn::Tensor& half = halves[static_cast<std::size_t>(stage)];
        half = phase == 0 ? nn::slice(x, 0, 10 * stage, 10 * stage + 10) : half;
        for (int i = 0; i < products(phase); ++i) {
          half = nn::matmul(weights[next++]->use(), half);
        }
      }
    }
    const nn::Block b(block(kPhases - 1, 1));
    const nn::Tensor y = halves[0] + halves[1];
    return {y, nn::mean(nn::abs(y))};
  }

  std::vector<nn::Parameter*> weights;
};

TEST(Phased, PlacesTheExampleOfSixPhases) {
  std::vector<Phase> phases;
  std::vector<std::string> all;
  for (int phase = 0; phase < SixPhases::kPhases; ++phase) {
    std::vector<Stage> stages;
    for (int stage = 0; stage < 2; ++stage) {
      stages.emplace_back(SixPhases::block(phase, stage));
      all.push_back(SixPhases::block(phase, stage));
    }
    phases.emplace_back(std::move(stages));
  }
  const auto train = [](const Strategy& strategy,
                        std::map<std::string, std::pair<int, int>>* where) {
    SixPhases net;
    Options options;
    options.enforceIpuRules(isPhased(strategy.kind())).setExecutionStrategy(strategy);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    const HostTensor x = testing::makeInputs({{DType::F32, Shape{20, 1}}}, 0, 1)[0];
    std::vector<std::uint64_t> losses;
    for (int i = 0; i < 3; ++i) {
      losses.push_back(model.run({x}).back().hash());
    }
    for (const program::Segment& segment : model.program().segments) {
      for (const device::KernelCall& call : segment.calls) {
        if (segment.kind == program::SegmentKind::Forward) {
          for (const std::int32_t b : call.inputs) {
            const std::string& name = model.program().buffers[static_cast<std::size_t>(b)].name;
            where->insert_or_assign(name, std::pair(segment.stage / 2, segment.device));
          }
          where->insert_or_assign(call.name, std::pair(segment.stage / 2, segment.device));
        }
      }
    }
    return losses;
  };
  std::map<std::string, std::pair<int, int>> placed;
  std::map<std::string, std::pair<int, int>> ignored;
  const auto losses = train(ParallelPhasedExecution(phases), &placed);
  for (int phase = 0; phase < SixPhases::kPhases; ++phase) {
    for (int stage = 0; stage < 2; ++stage) {
      for (int i = 0; i < SixPhases::products(phase); ++i) {
        // Even phases on devices 0 and 2, odd ones on 1 and 3.
        EXPECT_EQ(placed.at(fmt::format("w{}_{}_{}", phase, stage, i)),
                  std::pair(phase, phase % 2 + 2 * stage));
      }
    }
  }
  EXPECT_EQ(placed.at("reduce_mean"), std::pair(5, 3));
  EXPECT_EQ(losses, train(ShardedExecution(std::vector<Stage>{Stage(all)}), &ignored));
}

}  // namespace
}  // namespace sluice
