// Phased execution: variables and activations in remote memory, the same bits as on one device.
#include <csignal>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sluice/base/recoverable_error.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/program/virtual_clock.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/deep_gpt.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::DeepGpt;
using ::testing::HasSubstr;
using testing::ResidualMlp;
using testing::Towers;
using testing::train;

constexpr std::int64_t kUpdates = 3;
constexpr std::int32_t kAccumulation = 4;

Options onOneDevice(std::vector<std::string> blocks = {"b0", "b1", "b2", "b3", "b4"}) {
  Options options;
  options.training.gradientAccumulation(kAccumulation);
  options.setExecutionStrategy(PipelinedExecution(std::vector<Stage>{Stage(std::move(blocks))}));
  return options;
}

/// Accumulators begin anew in every round; what they hold between rounds is nothing to keep.
std::string difference(Bits expected, Bits got) {
  const auto isAccumulator = [](const auto& variable) {
    return variable.first.ends_with(".accumulator");
  };
  std::erase_if(expected, isAccumulator);
  std::erase_if(got, isAccumulator);
  return testing::difference(expected, got);
}

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
  EXPECT_EQ(
      difference(train<BlockedCnn>(onOneDevice(), kUpdates), train<BlockedCnn>(options, kUpdates)),
      "");
  EXPECT_EQ(difference(train<ResidualMlp>(onOneDevice(), kUpdates),
                       train<ResidualMlp>(options, kUpdates)),
            "");
  options.deviceIterations(kUpdates);
  EXPECT_EQ(
      difference(train<BlockedGpt>(onOneDevice(), kUpdates), train<BlockedGpt>(options, kUpdates)),
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
      EXPECT_EQ(difference(expected, train<ResidualMlp>(options, kUpdates)), "") << options.str();
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
      EXPECT_EQ(difference(cnn, trainReplicas<BlockedCnn>(options)), "");
      EXPECT_EQ(difference(gpt, trainReplicas<BlockedGpt>(options)), "");
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
      EXPECT_EQ(difference(towers, train<Towers>(options, kUpdates)), "");
    }
  }
}

/// What is off the devices in the other strategies changes no bit either.
TEST(Offload, OfEveryClassGivesTheSameBits) {
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  const Bits cnn = train<BlockedCnn>(onOneDevice(), kUpdates);
  const Bits mlp = train<ResidualMlp>(onOneDevice(), kUpdates);
  const std::vector<Stage> stages = {Stage("b0", "b1"), "b2", Stage("b3", "b4")};
  for (int classes = 1; classes < 8; ++classes) {
    for (const Strategy& strategy : {Strategy(ShardedExecution(stages)),
                                     Strategy(PipelinedExecution(stages)),
                                     Strategy(PipelinedExecution(stages).schedule("zb-h1"))}) {
      Options options = onOneDevice();
      options.setExecutionStrategy(strategy);
      if ((classes & 1) != 0) {
        options.tensorLocations.setOptimizerLocation(off);
      }
      if ((classes & 2) != 0) {
        options.tensorLocations.setWeightLocation(off);
      }
      if ((classes & 4) != 0) {
        options.tensorLocations.setAccumulatorLocation(off);
      }
      SCOPED_TRACE(fmt::format("{}, classes {}", strategy.str(), classes));
      EXPECT_EQ(difference(cnn, train<BlockedCnn>(options, kUpdates)), "");
      EXPECT_EQ(difference(mlp, train<ResidualMlp>(options, kUpdates)), "");
    }
  }
}

std::size_t mostBytes(const program::Program& program) {
  std::size_t most = 0;
  for (const program::DevicePlan& device : program.devices) {
    most = std::max(most, device.totalBytes());
  }
  return most;
}

TEST(Offload, OfOptimizerStateTakesItFromTheDevices) {
  const auto planned = [](bool offload) {
    DeepGpt net(6, 32, 2, 8);
    Options options;
    options.training.gradientAccumulation(2);
    if (offload) {
      options.tensorLocations.setOptimizerLocation(
          TensorLocationSettings().useOnChipStorage(false));
    }
    auto model = trainingModel(net, options, optim::AdamW(1e-3));
    model.compile(testing::makeInputs(net.inputs(), 0, 2));
    return model.program();
  };
  const program::Program on = planned(false);
  const program::Program off = planned(true);
  std::size_t weights = 0;
  const DeepGpt net(6, 32, 2, 8);
  for (const nn::Parameter* parameter : net.parameters()) {
    weights += parameter->type().bytes();
  }
  // Two moments per weight leave, and come and go once per update.
  EXPECT_GE(off.remote.stateBytes, 2 * weights);
  EXPECT_LE(mostBytes(off) + off.remote.stateBytes, mostBytes(on) + off.remote.stateBytes / 4);
  EXPECT_EQ(program::remoteBytesPerRound(on), 0U);
  EXPECT_EQ(program::remoteBytesPerRound(off), 2 * 2 * weights);
}

TEST(Offload, KeepsSmallTensorsOnTheDevices) {
  const auto remoteBytes = [](std::int64_t smallest) {
    DeepGpt net(2, 32, 2, 8);
    Options options;
    options.tensorLocations.setWeightLocation(
        TensorLocationSettings().useOnChipStorage(false).minElementsForOffChip(smallest));
    auto model = trainingModel(net, options, optim::SGD(1e-3));
    model.compile(testing::makeInputs(net.inputs(), 0, 1));
    std::size_t bytes = 0;
    for (const nn::Parameter* parameter : net.parameters()) {
      bytes += parameter->type().shape.elements() >= smallest ? parameter->type().bytes() : 0;
    }
    return std::pair(model.program().remote.stateBytes, bytes);
  };
  for (const std::int64_t smallest : {2, 33, 4096}) {
    const auto [planned, expected] = remoteBytes(smallest);
    EXPECT_GE(planned, expected);
    EXPECT_LT(planned, expected + 64 * 40);  // each is aligned
  }
  EXPECT_EQ(remoteBytes(1 << 20).first, 0U);
}

TEST(Offload, ATensorMayHaveALocationOfItsOwn) {
  const auto trained = [](const Strategy& strategy, auto locate) {
    Options options = onOneDevice();
    options.setExecutionStrategy(strategy);
    locate(options.tensorLocations);
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    const std::int64_t count = model.microBatchesPerStep();
    for (std::int64_t update = 0; update < kUpdates; ++update) {
      model.run(testing::makeInputs(ResidualMlp::inputs(), update * count, count));
    }
    std::set<std::string> remote;
    std::set<std::string> moved;
    for (const program::PlacedVariable& placed : model.session().state().plan().variables()) {
      if (placed.device == program::kRemote) {
        remote.insert(placed.variable.name);
      }
    }
    for (const program::Transfer& transfer : model.program().transfers) {
      const program::Buffer& to = model.program().buffer(transfer.to);
      if (to.isRemote() && to.region == program::Region::Transient) {
        moved.insert(transfer.name);
      }
    }
    return std::tuple(testing::bitsOf(model.session()), remote, moved);
  };
  using Locations = TensorLocationOptions;
  const Strategy pipeline = PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")};
  const Strategy phased = SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"};
  const auto [plain, none, nothing] = trained(pipeline, [](Locations&) {});
  ASSERT_TRUE(none.empty());
  std::string weight;
  for (const auto& [name, bits] : plain) {
    weight = name.ends_with(".weight") ? name : weight;
  }
  ASSERT_FALSE(weight.empty());
  const auto [one, remote, still] =
      trained(pipeline, [&](Locations& l) { l.setTensorLocation(weight, false); });
  EXPECT_EQ(difference(plain, one), "");
  EXPECT_EQ(remote, std::set{weight});
  const auto [all, phasedRemote, activations] = trained(phased, [](Locations&) {});
  ASSERT_TRUE(phasedRemote.contains(weight));
  ASSERT_FALSE(activations.empty());
  const std::string activation = *activations.begin();
  const auto [kept, others, fewer] = trained(phased, [&](Locations& l) {
    l.setTensorLocation(weight, true).setTensorLocation(activation, true);
  });
  EXPECT_EQ(difference(plain, kept), "");
  EXPECT_EQ(others.size() + 1, phasedRemote.size());
  EXPECT_FALSE(others.contains(weight));
  EXPECT_FALSE(fewer.contains(activation));
  // Off the devices though its class stays.
  const auto [single, rest, lone] = trained(phased, [&](Locations& l) {
    l.setActivationLocation(TensorLocationSettings().useOnChipStorage(true));
    l.setTensorLocation(activation, false);
  });
  EXPECT_EQ(difference(plain, single), "");
  EXPECT_EQ(lone, std::set{activation});
  EXPECT_THAT(testing::messageOf([&] {
                trained(pipeline, [](Locations& l) { l.setTensorLocation("nobody", false); });
              }),
              HasSubstr("named 'nobody'"));
  EXPECT_THAT(testing::messageOf([&] {
                trained(pipeline,
                        [](Locations& l) { l.setTensorLocation("optimizer.step", false); });
              }),
              HasSubstr("always stays on its device"));
}

class DeepTraining {
 public:
  explicit DeepTraining(const Options& options)
      : net_(4, 32, 2, 8), model_(trainingModel(net_, options, optim::AdamW(1e-2))) {}

  Bits bits(std::int64_t updates) {
    for (std::int64_t update = 0; update < updates; ++update) {
      const std::int64_t count = model_.microBatchesPerStep();
      model_.run(testing::makeInputs(net_.inputs(), update * count, count));
    }
    return testing::bitsOf(model_.session());
  }
  const program::Program& program() {
    model_.compile(testing::makeInputs(net_.inputs(), 0, model_.microBatchesPerStep()));
    return model_.program();
  }
  auto& model() { return model_; }

 private:
  DeepGpt net_;
  Model model_;
};

Options deep(const Strategy& strategy, std::int64_t accumulation = 3) {
  Options options;
  options.training.gradientAccumulation(accumulation);
  options.setExecutionStrategy(strategy);
  return options;
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
    EXPECT_EQ(difference(expected, phased.bits(2)), "");
  }
}

TEST(Phased, CutsAModelIntoPhases) {
  const Strategy whole =
      ShardedExecution(std::vector<Stage>{Stage("layer0", "layer1", "layer2", "layer3", "head")});
  DeepTraining plain(deep(whole));
  const std::size_t need = mostBytes(plain.program());
  const Bits expected = plain.bits(2);
  std::size_t before = need;
  for (const std::int64_t phases : {2, 4, 8}) {
    DeepTraining serial(deep(SerialPhasedExecution(Phase::automatic(phases))));
    EXPECT_LT(mostBytes(serial.program()), before);
    before = mostBytes(serial.program());
    EXPECT_EQ(difference(expected, serial.bits(2)), "");
    DeepTraining parallel(deep(ParallelPhasedExecution(Phase::automatic(phases))));
    EXPECT_EQ(difference(expected, parallel.bits(2)), "");
  }
}

TEST(Phased, LoadsAheadUnlessToldOtherwise) {
  const auto strategy = [](IoSchedule io) {
    return SerialPhasedExecution(DeepGpt::phases(4)).order(PhaseOrder::PhaseMajor).io(io);
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
  EXPECT_EQ(difference(DeepTraining(deep(strategy(IoSchedule::Preload), 4)).bits(2),
                       DeepTraining(deep(strategy(IoSchedule::OnDemand), 4)).bits(2)),
            "");
}

TEST(Phased, PicksTheOrderThatMovesFewerBytesAndFits) {
  const auto planned = [](PhaseOrder order, std::size_t budget) {
    Options options = deep(SerialPhasedExecution(DeepGpt::phases(4)).order(order), 8);
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
      [&] { planned(PhaseOrder::Automatic, mostBytes(batches) / 4); });
  EXPECT_THAT(text, AllOf(HasSubstr("device 0 needs"), HasSubstr("most of all in phase ")));
  const std::string before = "the smallest budget that works for these phases is ";
  ASSERT_THAT(text, HasSubstr(before));
  const std::string found = text.substr(text.find(before) + before.size());
  const std::size_t smallest = std::stoul(found);
  EXPECT_LE(smallest, mostBytes(batches));
  EXPECT_THAT(found,
              HasSubstr("bytes, with setTensorsLiveness(Liveness::OffChipAfterFwdNoOverlap)"));
  Options options = deep(SerialPhasedExecution(DeepGpt::phases(4))
                             .setTensorsLiveness(Liveness::OffChipAfterFwdNoOverlap),
                         8);
  options.memoryPerDevice(smallest);
  EXPECT_NO_THROW(DeepTraining(options).program()) << text;
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
        std::ranges::fill(model.session().state().transient(static_cast<std::int32_t>(d)), paint);
      }
      model.run(inputs);
      for (std::size_t d = 0; d < devices; ++d) {
        const auto arena = model.session().state().transient(static_cast<std::int32_t>(d));
        for (std::size_t i = 0; i < arena.size(); ++i) {
          highest[d] = arena[i] != paint ? std::max(highest[d], i + 1) : highest[d];
        }
      }
    }
    for (std::size_t d = 0; d < devices; ++d) {
      EXPECT_EQ((highest[d] + 63) / 64 * 64, model.program().devices[d].transientBytes)
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
                    HasSubstr(fmt::format("remote memory: {} bytes of state, {} bytes of "
                                          "activations",
                                          program.remote.stateBytes,
                                          program.remote.transientBytes)),
                    HasSubstr("device 0 fetches ")));
}

TEST(Phased, RemoteMemoryMayBeAFile) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("sluice-remote-{}", ::getpid()))
          .string();
  const Strategy strategy = SerialPhasedExecution(DeepGpt::phases(4));
  const Bits expected = DeepTraining(deep(strategy)).bits(2);
  Options options = deep(strategy);
  options.remoteMemory(path);
  {
    DeepTraining training(options);
    EXPECT_EQ(difference(expected, training.bits(2)), "");
    EXPECT_EQ(std::filesystem::file_size(path + ".state"), training.program().remote.stateBytes);
    // A file that is cut short is an error that names it, and the model stays usable.
    std::filesystem::resize_file(path + ".state", 0);
    std::filesystem::resize_file(path + ".state.next", 0);
    EXPECT_THAT(testing::messageOf<RecoverableError>([&] { training.bits(1); }),
                HasSubstr(path + ".state"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".state"));
  const Options nowhere = options.clone().remoteMemory("/no/such/folder/remote");
  EXPECT_THAT(testing::messageOf<RecoverableError>([&] { DeepTraining(nowhere).bits(1); }),
              HasSubstr("/no/such/folder/remote.state"));
  const Options small = options.clone().remoteMemory("", "64KiB");
  EXPECT_THAT(testing::messageOf<OutOfMemory>([&] { DeepTraining(small).program(); }),
              HasSubstr("remoteMemory allows 65536"));
}

/// While it lives files cannot be written behind their first bytes.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : before_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int);
};

TEST(Phased, ADiskThatFailsLosesNoCompleteUpdate) {
  Options options = deep(SerialPhasedExecution(DeepGpt::phases(4)));
  DeepTraining undisturbed(options.clone());
  undisturbed.bits(2);
  const Bits expected = undisturbed.bits(1);
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("sluice-disk-{}", ::getpid())).string();
  options.remoteMemory(path);
  DeepTraining training(options);
  const Bits two = training.bits(2);
  const auto half = static_cast<rlim_t>(std::filesystem::file_size(path + ".state") / 2);
  for (const rlim_t room : {rlim_t{0}, half}) {
    const FullDisk disk(room);
    EXPECT_THAT(testing::messageOf<RecoverableError>([&] { training.bits(1); }), HasSubstr(path));
  }
  EXPECT_EQ(difference(two, training.bits(0)), "");
  EXPECT_EQ(difference(expected, training.bits(1)), "");
}

/// Six phases of two stages; the stages of odd phases have two products each, those of even ones
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
