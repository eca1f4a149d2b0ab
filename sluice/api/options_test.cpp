#include "sluice/api/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/option_support.h"
#include "sluice/api/options_table.h"
#include "sluice/base/error.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Every option with a value other than its default.
Options everythingSet() {
  Options options = Options::defaults();
  options.deviceIterations(4)
      .autoSelectDevices(12, 2)
      .replicationFactor(6)
      .inputReplicaGrouping(3, CommGroupType::Orthogonal)
      .outputMode(OutputMode::EveryN, 2)
      .anchorTensor("hidden", "fc1/relu", OutputMode::Final)
      .anchorTensor("x", "y", OutputMode::EveryN, 2)
      .syntheticDataMode(SyntheticDataMode::Zeros)
      .setExecutionStrategy(
          PipelinedExecution{Stage("B1").device(1), {"B2", "B3"}}.schedule("1f1b"))
      .recomputation(Recomputation::None)
      .continuousWeightUpdates(true)
      .fusion(false)
      .constantWeights(true)
      .foldBatchNorm(true)
      .verifyPrograms(false)
      .dumpDirectory("d")
      .enablePipelining(true)
      .virtualGraphMode(VirtualGraphMode::Auto)
      .virtualGraphSplitRatios({0.25, 0.75})
      .devicesPerReplica(2)
      .enableExecutableCaching("cache", "2KiB")
      .recovery(3, 0.5, 8)
      .showCompilationProgressBar(false)
      .device("far*2")
      .threads(3)
      .executionPhases(3, 2)
      .memoryPerDevice("1KiB")
      .undoMemory("4KiB")
      .setAvailableMemoryProportion({{"IPU0", 0.5}, {"IPU2", 0.25}})
      .remoteMemory("r", "2KiB")
      .remoteBandwidth(1e9)
      .connectionType(ConnectionType::OnDemand)
      .useIpuModel(false)
      .useDeviceIds({5, 3})
      .inputOverlap(OverlapMode::NoOverlap)
      .outputOverlap(OverlapMode::OverlapAccumulationLoop)
      .barriers(true)
      .syncPattern(SyncPattern::SinglePipeline)
      .autoRoundNumDevices(true)
      .enforceIpuRules(false)
      .stallTimeout(1.5)
      .tuningTable("t.txt")
      .randomSeed(7)
      .broadcastBuffers(false)
      .updatableNamedBuffers({"a", "b"})
      .relaxOptimizerAttributesChecks(true)
      .enableStableNorm(true)
      .rearrangeAnchorsOnHost(true)
      .modelName("m")
      .maxRepeatLogs(9)
      .disableModuleNamescope(true)
      .logDir("l")
      .logCycleCount(true)
      .enableProfiling("p")
      .traceValues(TraceValues::Hashes)
      .traceKernels(true);
  options.training.gradientAccumulation(5)
      .accumulationAndReplicationReductionType(Reduction::Sum)
      .replicationReductionType(Reduction::Mean)
      .setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy::Running)
      .setAutomaticLossScaling(true,
                               {.binEdgeLocation = 0.25,
                                .updatePeriod = 3,
                                .gradientTensorTrackingMethod =
                                    GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors,
                                .toTrackTensors = {"fc1/relu", "w"}})
      .logGradientStatistics(3)
      .setConvolutionDithering(true);
  options.precision.autocastEnabled(false)
      .autocastPolicy({.fp16 = {"conv2d"}, .promote = {"dot", "cat"}, .half = DType::BF16})
      .halfFloatCasting(HalfFloatCasting::HalfUpcastToFloat)
      .runningStatisticsAlwaysFloat(false)
      .enableStochasticRounding(true)
      .enableFloatingPointExceptions(true)
      .setPartialsType(DType::F16);
  options.jit.traceModel(false);
  options.tensorLocations.setTensorLocation("w", false);
  options.tensorLocations.setActivationLocation(TensorLocationSettings().useOnChipStorage(true))
      .setWeightLocation(TensorLocationSettings().useOnChipStorage(false).minElementsForOffChip(4))
      .setOptimizerLocation(TensorLocationSettings()
                                .useReplicatedTensorSharding(true)
                                .minElementsForReplicatedTensorSharding(16))
      .setAccumulatorLocation(
          TensorLocationSettings().useIOTilesToLoad(true).useIOTilesToStore(true))
      .numIOTiles(64);
  options.distributed.setEnvVarNames("SLUICE_TEST_SIZE", "SLUICE_TEST_RANK")
      .configureProcessId(1, 2)
      .shareModel(true);
  return options;
}

TEST(Options, PrintTheirDefaults) {
  EXPECT_EQ(Options::defaults().str(),
            "deviceIterations: 1\n"
            "autoSelectDevices: none\n"
            "replicationFactor: 1\n"
            "inputReplicaGrouping: 1, Consecutive\n"
            "outputMode: Default, 1\n"
            "anchorTensor: []\n"
            "syntheticDataMode: Off\n"
            "setExecutionStrategy: "
            "PipelinedExecution(AutoStage.SameAsDevice).schedule(\"1f1b\")\n"
            "recomputation: Default\n"
            "continuousWeightUpdates: false\n"
            "fusion: true\n"
            "constantWeights: false\n"
            "foldBatchNorm: false\n"
            "verifyPrograms: none\n"
            "dumpDirectory: \"\"\n"
            "enablePipelining: false\n"
            "virtualGraphMode: Off\n"
            "virtualGraphSplitRatios: []\n"
            "devicesPerReplica: 1\n"
            "executionPhases: 1, 1\n"
            "enableExecutableCaching: none, 1073741824\n"
            "recovery: 0, 0, 1\n"
            "showCompilationProgressBar: none\n"
            "device: \"\"\n"
            "threads: 1\n"
            "memoryPerDevice: none\n"
            "setAvailableMemoryProportion: none\n"
            "remoteMemory: \"\", none\n"
            "remoteBandwidth: 0\n"
            "undoMemory: 67108864\n"
            "connectionType: Always\n"
            "useIpuModel: none\n"
            "useDeviceIds: []\n"
            "inputOverlap: none\n"
            "outputOverlap: none\n"
            "barriers: false\n"
            "syncPattern: Full\n"
            "autoRoundNumDevices: false\n"
            "enforceIpuRules: none\n"
            "stallTimeout: 300\n"
            "tuningTable: \"\"\n"
            "randomSeed: none\n"
            "broadcastBuffers: true\n"
            "updatableNamedBuffers: []\n"
            "relaxOptimizerAttributesChecks: false\n"
            "enableStableNorm: false\n"
            "rearrangeAnchorsOnHost: false\n"
            "modelName: \"\"\n"
            "maxRepeatLogs: 4\n"
            "disableModuleNamescope: false\n"
            "logDir: \".\"\n"
            "logCycleCount: false\n"
            "enableProfiling: \"\"\n"
            "traceValues: None\n"
            "traceKernels: false\n"
            "training.gradientAccumulation: 1\n"
            "training.accumulationAndReplicationReductionType: Mean\n"
            "training.replicationReductionType: none\n"
            "training.setMeanAccumulationAndReplicationReductionStrategy: Post\n"
            "training.setAutomaticLossScaling: false\n"
            "training.logGradientStatistics: 0\n"
            "training.setConvolutionDithering: false\n"
            "precision.autocastEnabled: true\n"
            "precision.autocastPolicy: Default\n"
            "precision.halfFloatCasting: Default\n"
            "precision.runningStatisticsAlwaysFloat: true\n"
            "precision.enableStochasticRounding: false\n"
            "precision.enableFloatingPointExceptions: false\n"
            "precision.setPartialsType: \"f32\"\n"
            "jit.traceModel: true\n"
            "tensorLocations.setTensorLocation: []\n"
            "tensorLocations.setActivationLocation: TensorLocationSettings()\n"
            "tensorLocations.setWeightLocation: TensorLocationSettings()\n"
            "tensorLocations.setOptimizerLocation: TensorLocationSettings()\n"
            "tensorLocations.setAccumulatorLocation: TensorLocationSettings()\n"
            "tensorLocations.numIOTiles: 0\n"
            "distributed.setEnvVarNames: \"OMPI_COMM_WORLD_SIZE\", \"OMPI_COMM_WORLD_RANK\"\n"
            "distributed.configureProcessId: 0, 1\n"
            "distributed.shareModel: false\n");
}

TEST(Options, PrintWhatWasSet) {
  EXPECT_EQ(everythingSet().str(),
            "deviceIterations: 4\n"
            "autoSelectDevices: 12, 2\n"
            "replicationFactor: 6\n"
            "inputReplicaGrouping: 3, Orthogonal\n"
            "outputMode: EveryN, 2\n"
            "anchorTensor: [[\"hidden\", \"fc1/relu\", Final, 1], [\"x\", \"y\", EveryN, 2]]\n"
            "syntheticDataMode: Zeros\n"
            "setExecutionStrategy: PipelinedExecution(Stage(\"B1\").device(1), Stage(\"B2\", "
            "\"B3\")).schedule(\"1f1b\")\n"
            "recomputation: None\n"
            "continuousWeightUpdates: true\n"
            "fusion: false\n"
            "constantWeights: true\n"
            "foldBatchNorm: true\n"
            "verifyPrograms: false\n"
            "dumpDirectory: \"d\"\n"
            "enablePipelining: true\n"
            "virtualGraphMode: Auto\n"
            "virtualGraphSplitRatios: [0.25, 0.75]\n"
            "devicesPerReplica: 2\n"
            "executionPhases: 3, 2\n"
            "enableExecutableCaching: \"cache\", 2048\n"
            "recovery: 3, 0.5, 8\n"
            "showCompilationProgressBar: false\n"
            "device: \"far*2\"\n"
            "threads: 3\n"
            "memoryPerDevice: 1024\n"
            "setAvailableMemoryProportion: \"IPU0\", 0.5, \"IPU2\", 0.25\n"
            "remoteMemory: \"r\", 2048\n"
            "remoteBandwidth: 1000000000\n"
            "undoMemory: 4096\n"
            "connectionType: OnDemand\n"
            "useIpuModel: false\n"
            "useDeviceIds: [5, 3]\n"
            "inputOverlap: NoOverlap\n"
            "outputOverlap: OverlapAccumulationLoop\n"
            "barriers: true\n"
            "syncPattern: SinglePipeline\n"
            "autoRoundNumDevices: true\n"
            "enforceIpuRules: false\n"
            "stallTimeout: 1.5\n"
            "tuningTable: \"t.txt\"\n"
            "randomSeed: 7\n"
            "broadcastBuffers: false\n"
            "updatableNamedBuffers: [\"a\", \"b\"]\n"
            "relaxOptimizerAttributesChecks: true\n"
            "enableStableNorm: true\n"
            "rearrangeAnchorsOnHost: true\n"
            "modelName: \"m\"\n"
            "maxRepeatLogs: 9\n"
            "disableModuleNamescope: true\n"
            "logDir: \"l\"\n"
            "logCycleCount: true\n"
            "enableProfiling: \"p\"\n"
            "traceValues: Hashes\n"
            "traceKernels: true\n"
            "training.gradientAccumulation: 5\n"
            "training.accumulationAndReplicationReductionType: Sum\n"
            "training.replicationReductionType: Mean\n"
            "training.setMeanAccumulationAndReplicationReductionStrategy: Running\n"
            "training.setAutomaticLossScaling: true, 0.25, 1e-07, 3, "
            "GradientsOfUserSpecifiedTensors, [\"fc1/relu\", \"w\"]\n"
            "training.logGradientStatistics: 3\n"
            "training.setConvolutionDithering: true\n"
            "precision.autocastEnabled: false\n"
            "precision.autocastPolicy: Policy([\"conv2d\"], [], [\"dot\", \"cat\"], [], \"bf16\")\n"
            "precision.halfFloatCasting: HalfUpcastToFloat\n"
            "precision.runningStatisticsAlwaysFloat: false\n"
            "precision.enableStochasticRounding: true\n"
            "precision.enableFloatingPointExceptions: true\n"
            "precision.setPartialsType: \"f16\"\n"
            "jit.traceModel: false\n"
            "tensorLocations.setTensorLocation: [[\"w\", false]]\n"
            "tensorLocations.setActivationLocation: "
            "TensorLocationSettings().useOnChipStorage(true)\n"
            "tensorLocations.setWeightLocation: "
            "TensorLocationSettings().useOnChipStorage(false).minElementsForOffChip(4)\n"
            "tensorLocations.setOptimizerLocation: "
            "TensorLocationSettings().useReplicatedTensorSharding(true)"
            ".minElementsForReplicatedTensorSharding(16)\n"
            "tensorLocations.setAccumulatorLocation: "
            "TensorLocationSettings().useIOTilesToLoad(true).useIOTilesToStore(true)\n"
            "tensorLocations.numIOTiles: 64\n"
            "distributed.setEnvVarNames: \"SLUICE_TEST_SIZE\", \"SLUICE_TEST_RANK\"\n"
            "distributed.configureProcessId: 1, 2\n"
            "distributed.shareModel: true\n");
}

TEST(Options, EveryRowReadsWhatItPrints) {
  for (const Options& source : {everythingSet(), Options::defaults()}) {
    Options copy = Options::defaults();
    for (const detail::Setting& setting : detail::settings()) {
      const bool perCall =  // sets one of those that it prints
          setting.name == "anchorTensor" || setting.name == "tensorLocations.setTensorLocation";
      if (setting.print == nullptr || perCall) {
        continue;
      }
      const std::string line = std::string(setting.name) + "(" + setting.print(source) + ")";
      const auto call = detail::parseCall(line);
      ASSERT_TRUE(call.has_value()) << line;
      detail::apply(copy, call->text, call->items);
      EXPECT_EQ(setting.print(copy), setting.print(source)) << line;
    }
  }
}

TEST(Options, StayAsTheyWereWhenASetterThrows) {
  Options options;
  options.deviceIterations(4).outputMode(OutputMode::Sum).threads(2).memoryPerDevice("64KiB");
  options.training.gradientAccumulation(3);
  const std::string before = options.str();
  const std::int64_t tooMany = std::int64_t{1} << 31;
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, tooMany}) {
    const auto number = std::to_string(bad);
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.deviceIterations(bad); }),
                HasSubstr("deviceIterations must be a positive 32-bit count, got " + number));
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.threads(bad); }), HasSubstr("threads"));
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.outputMode(OutputMode::EveryN, bad); }),
                HasSubstr("EveryN"));
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.training.gradientAccumulation(bad); }),
                HasSubstr("gradientAccumulation"));
  }
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.threads(1025); }), HasSubstr("1024"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.memoryPerDevice("much"); }),
              HasSubstr("'much' is not a size"));
  EXPECT_EQ(options.str(), before);
  options.outputMode(OutputMode::Final, -3);  // only EveryN has a period
  EXPECT_EQ(options.outputPeriod(), 1);
}

TEST(Options, TakeSizesAsPeopleWriteThem) {
  EXPECT_EQ(parseBytes("4096"), 4096U);
  EXPECT_EQ(parseBytes("0"), 0U);
  EXPECT_EQ(parseBytes("12b"), 12U);
  EXPECT_EQ(parseBytes("64 KiB"), 65536U);
  EXPECT_EQ(parseBytes("64k"), 65536U);
  EXPECT_EQ(parseBytes("2kB"), 2000U);
  EXPECT_EQ(parseBytes("256MiB"), std::size_t{256} << 20);
  EXPECT_EQ(parseBytes("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(parseBytes("0.5GiB"), std::size_t{1} << 29);
  EXPECT_EQ(parseBytes("1TiB"), std::size_t{1} << 40);
  for (const char* bad :
       {"", "MiB", "1 parsec", "-1", "nan", "inf", "1e30", "1 2", "99999999TiB"}) {
    EXPECT_THROW(parseBytes(bad), InvalidArgument) << bad;
  }
}

TEST(Options, RefuseValuesThatMakeNoSenseAndStayAsTheyWere) {
  Options options = everythingSet();
  const std::string before = options.str();
  const auto message = [](auto f) { return messageOf<InvalidArgument>(f); };
  EXPECT_THAT(message([&] { options.replicationFactor(0); }), HasSubstr("replicationFactor"));
  EXPECT_THAT(message([&] { options.inputReplicaGrouping(0, CommGroupType::Consecutive); }),
              HasSubstr("inputReplicaGrouping"));
  EXPECT_THAT(message([&] { options.inputReplicaGrouping(2, CommGroupType::All); }),
              HasSubstr("type All"));
  EXPECT_THAT(message([&] { options.anchorTensor("", "y"); }), HasSubstr("short name"));
  EXPECT_THAT(message([&] { options.anchorTensor("x", "z"); }), HasSubstr("already is"));
  EXPECT_THAT(message([&] { options.anchorTensor("z", "z", OutputMode::EveryN, 0); }),
              HasSubstr("period of anchorTensor"));
  EXPECT_THAT(message([&] { options.useDeviceId(-1); }), HasSubstr("got -1"));
  EXPECT_THAT(message([&] {
                options.useDeviceIds({1, 0, 1});
              }),
              HasSubstr("device 1 is named twice"));
  EXPECT_THAT(message([&] { options.autoSelectDevices(0, 1); }), HasSubstr("autoSelectDevices"));
  EXPECT_THAT(message([&] { options.autoSelectDevices(8, 3); }), HasSubstr("no multiple of the 3"));
  EXPECT_THAT(message([&] {
                options.selectDevices({4, 5, 6}, 2);
              }),
              HasSubstr("3 devices are no multiple of the 2"));
  EXPECT_THAT(message([&] { options.updatableNamedBuffers({"a", ""}); }), HasSubstr("name"));
  EXPECT_THAT(message([&] { options.logDir(""); }), HasSubstr("logDir"));
  EXPECT_THAT(message([&] { options.precision.setPartialsType(DType::BF16); }),
              HasSubstr("f32 or f16, got bf16"));
  EXPECT_THAT(message([&] { options.precision.autocastPolicy({.fp16 = {"conv4d"}}); }),
              HasSubstr("unknown op 'conv4d' in fp16"));
  EXPECT_THAT(message([&] { options.stallTimeout(-0.5); }), HasSubstr("stallTimeout"));
  EXPECT_THAT(message([&] { options.virtualGraphSplitRatios({0.5, 1.5}); }), HasSubstr("got 1.5"));
  EXPECT_THAT(message([&] { options.virtualGraphSplitRatios({0.5, 0.25}); }), HasSubstr("up to 1"));
  EXPECT_THAT(message([&] { options.devicesPerReplica(0); }), HasSubstr("devicesPerReplica"));
  EXPECT_THAT(message([&] { options.maxRepeatLogs(-1); }), HasSubstr("maxRepeatLogs"));
  EXPECT_EQ(options.str(), before);
}

TEST(Options, EnableSyntheticDataIsRandomNormal) {
  EXPECT_EQ(Options().enableSyntheticData(true).batch().syntheticData,
            SyntheticDataMode::RandomNormal);
  EXPECT_EQ(Options().enableSyntheticData(false).batch().syntheticData, SyntheticDataMode::Off);
}

TEST(FrozenOptions, CannotBeChangedInAnyWay) {
  Options options = everythingSet();
  const std::string before = options.str();
  options.freeze();
  EXPECT_TRUE(options.isFrozen());
  const auto refused = [&](auto f) {
    EXPECT_THAT(messageOf<InvalidArgument>(f), HasSubstr("can't modify frozen options"));
  };
  refused([&] { options.threads(2); });
  refused([&] { options.anchorTensor("new", "y"); });
  refused([&] { options.setExecutionStrategy(ShardedExecution()); });
  refused([&] { options.training.gradientAccumulation(2); });
  refused([&] { options.training = TrainingOptions(); });
  refused([&] {
    options.training.setMeanAccumulationAndReplicationReductionStrategy(
        MeanReductionStrategy::Post);
  });
  refused([&] { options.precision.autocastEnabled(true); });
  refused([&] { options.jit.traceModel(true); });
  refused([&] { options.set("threads", "2"); });
  refused([&] { options.autoSelectDevices(8, 2); });
  refused([&] { options.selectDevices({1}, 1); });
  refused([&] { options.distributed.disable(); });
  refused([&] { options = Options::defaults(); });
  refused([&] { options.loadFromJson("{}", "test"); });
  refused([&] { options.loadFromFile("none"); });
  EXPECT_EQ(options.str(), before);
}

TEST(FrozenOptions, CanBeCopiedAndTheCopyChanged) {
  Options options = everythingSet();
  options.freeze();
  Options clone = options.clone();
  EXPECT_EQ(clone.str(), options.str());
  clone.threads(2).anchorTensor("new", "y");
  clone.training.gradientAccumulation(9);
  EXPECT_EQ(clone.threads(), 2);
  EXPECT_EQ(options.threads(), 3);
  EXPECT_EQ(options.batch().anchors.size(), 2U);
  EXPECT_EQ(options.training.gradientAccumulation(), 5);
  EXPECT_TRUE(options.isFrozen());
}

TEST(DistributedOptions, CountReplicasOfAllProcesses) {
  Options options;
  options.replicationFactor(4).distributed.configureProcessId(2, 3);
  EXPECT_EQ(options.distributed.globalReplicationFactor(options.replicationFactor()), 12);
  EXPECT_EQ(options.distributed.firstReplica(options.replicationFactor()), 8);
  options.distributed.disable();
  EXPECT_EQ(options.distributed.globalReplicationFactor(4), 4);
  EXPECT_EQ(options.distributed.firstReplica(4), 0);
  options.distributed.configureProcessId(2, 3);
  EXPECT_EQ(options.allReplicas(), 12);
  options.distributed.shareModel(true);
  EXPECT_EQ(options.allReplicas(), 4);
}

TEST(DistributedOptions, RefuseProcessesThatAreNotThere) {
  DistributedOptions options;
  for (const auto& [id, processes] : {std::pair{-1, 2}, {2, 2}, {0, 0}}) {
    const std::string text = "id " + std::to_string(id) + " of " + std::to_string(processes);
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.configureProcessId(id, processes); }),
                HasSubstr(text));
  }
  EXPECT_EQ(options.numProcesses(), 1);
}

TEST(TensorLocations, RefuseWhatMakesNoSense) {
  Options options = Options::defaults();
  for (const std::int64_t tiles : {10, 33, 193}) {
    EXPECT_THAT(messageOf<InvalidArgument>([&] { options.tensorLocations.numIOTiles(tiles); }),
                HasSubstr("even number from 32 to 192"));
  }
  for (const std::int64_t tiles : {32, 100, 192}) {
    EXPECT_NO_THROW(options.tensorLocations.numIOTiles(tiles));
  }
  EXPECT_THAT(
      messageOf<InvalidArgument>([] { TensorLocationSettings().minElementsForOffChip(-1); }),
      HasSubstr("minElementsForOffChip"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.executionPhases(2, 3); }),
              HasSubstr("1 or 2 groups"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.remoteBandwidth(-1); }),
              HasSubstr("remoteBandwidth"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                options.set("tensorLocations.setWeightLocation",
                            "TensorLocationSettings().onTheMoon(true)");
              }),
              HasSubstr("no 'onTheMoon'"));
  EXPECT_THAT(
      messageOf<InvalidArgument>([&] { options.tensorLocations.setTensorLocation("", true); }),
      HasSubstr("an empty one"));
  options.freeze();
  EXPECT_THROW(options.tensorLocations.setTensorLocation("w", true), InvalidArgument);
  EXPECT_THROW(options.tensorLocations.setWeightLocation({}), InvalidArgument);
}

TEST(Options, AreSetByNameToo) {
  Options options = Options::defaults();
  options.set("threads", "2")
      .set("outputMode", "EveryN, 4")
      .set("Training.gradientAccumulation", "8")
      .set("useDeviceIds", "[4, 2]")
      .set("selectDevices", "[7, 9, 8, 1], 2")
      .set("precision.setPartialsType", "\"f32\"");
  Options expected = Options::defaults();
  expected.threads(2).outputMode(OutputMode::EveryN, 4).selectDevices({7, 9, 8, 1}, 2);
  expected.training.gradientAccumulation(8);
  EXPECT_EQ(options.str(), expected.str());
  EXPECT_EQ(options.replicationFactor(), 2);
  const auto message = [&](std::string_view setter, std::string_view arguments) {
    return messageOf<InvalidArgument>([&] { options.set(setter, arguments); });
  };
  EXPECT_THAT(message("speed", "9"), HasSubstr("unknown option 'speed'; the options are"));
  EXPECT_THAT(message("gradientAccumulatoin", "2"),
              HasSubstr("unknown option 'gradientAccumulatoin' (did you mean "
                        "'training.gradientAccumulation'?)"));
  EXPECT_THAT(message("threads", "\"two\""), HasSubstr("threads"));
  EXPECT_THAT(message("", ""), HasSubstr("a name"));
  EXPECT_THAT(message("# threads", "2"), HasSubstr("the name of a setter"));
  EXPECT_THAT(message("precision.setPartialsType", "\"f99\""), HasSubstr("got f99"));
  EXPECT_THAT(message("precision.autocastPolicy", "Policy([\"conv4d\"])"), HasSubstr("conv4d"));
  EXPECT_THAT(message("precision.autocastPolicy", "Policy(3)"), HasSubstr("expected Default or"));
  EXPECT_THAT(message("precision.autocastPolicy", "Strict"), HasSubstr("expected Default or"));
  EXPECT_THAT(message("precision.autocastPolicy", "Policy([], [], [], [], \"f8\")"),
              HasSubstr("got f8"));
  EXPECT_EQ(options.str(), expected.str());
}

TEST(PopartOptions, AreOptionsByPopartsNames) {
  Options options = Options::defaults();
  options.popart()
      .set("accumulationFactor", 4)
      .set("accumulationAndReplicationReductionType", Reduction::Sum)
      .set("meanAccumulationAndReplicationReductionStrategy", 0)
      .set("automaticLossScalingSettings.enabled", true)
      .set("autoRecomputation", "RecomputationType.RecomputeAll")
      .set("enableFloatingPointChecks", true)
      .set("enableStochasticRounding", true)
      .set("instrumentWithHardwareCycleCounter", true)
      .set("numIOTiles", 64)
      .set("partialsTypeMatMuls", std::string("half"))
      .set("replicatedGraphCount", std::size_t{2})
      .set("syntheticDataMode", 3)
      .set("virtualGraphMode", VirtualGraphMode::Auto)
      .set("virtualGraphSplitRatios", std::vector<double>{0.25, 0.75})
      .set("updatableNamedBuffers", std::vector<std::string>{"a \"b\"", "c"})
      .set("stallTimeout", 1.5)
      .set("modelName", "m");
  Options expected = Options::defaults();
  expected.recomputation(Recomputation::All)
      .logCycleCount(true)
      .replicationFactor(2)
      .syntheticDataMode(SyntheticDataMode::RandomUniform)
      .virtualGraphMode(VirtualGraphMode::Auto)
      .virtualGraphSplitRatios({0.25, 0.75})
      .updatableNamedBuffers({"a \"b\"", "c"})
      .stallTimeout(1.5)
      .modelName("m");
  expected.training.gradientAccumulation(4)
      .accumulationAndReplicationReductionType(Reduction::Sum)
      .setMeanAccumulationAndReplicationReductionStrategy(MeanReductionStrategy::Running)
      .setAutomaticLossScaling(true);
  expected.precision.enableFloatingPointExceptions(true)
      .enableStochasticRounding(true)
      .setPartialsType(DType::F16);
  expected.tensorLocations.numIOTiles(64);
  EXPECT_EQ(options.str(), expected.str());
  for (const auto& [name, setter] : detail::popartNames()) {
    EXPECT_NO_THROW(detail::settingOf(setter)) << name;
  }
}

TEST(PopartOptions, SwitchAutomaticLossScalingWithoutChangingItsSettings) {
  Options options;
  options.training.setAutomaticLossScaling(true, {.updatePeriod = 3});
  options.popart().set("automaticLossScalingSettings.enabled", true);
  EXPECT_EQ(options.training.automaticLossScaling()->updatePeriod, 3);
  options.popart().set("automaticLossScalingSettings.enabled", false);
  EXPECT_FALSE(options.training.automaticLossScaling());
}

TEST(PopartOptions, HavePopartsNumbersOfEnumerators) {
  const Recomputation types[] = {Recomputation::None,
                                 Recomputation::Standard,
                                 Recomputation::NormOnly,
                                 Recomputation::Pipeline,
                                 Recomputation::All};
  for (int number = 0; number < 5; ++number) {
    Options options = Options::defaults();
    options.popart().set("autoRecomputation", number);
    EXPECT_EQ(options.compile().recomputation, types[number]);
  }
  Options options = Options::defaults();
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.popart().set("autoRecomputation", 5); }),
              HasSubstr("autoRecomputation has the values 0 to 4, got 5"));
}

TEST(PopartOptions, AreReadFromFilesByPythonsName) {
  Options options = Options::defaults();
  options.set("_Popart.set", "'accumulationFactor', 8")
      .loadFromJson(R"({"_Popart.set": ["autoRecomputation", 3]})", "test");
  EXPECT_EQ(options.training.gradientAccumulation(), 8);
  EXPECT_EQ(options.compile().recomputation, Recomputation::Pipeline);
}

TEST(PopartOptions, RefuseUnknownNamesAndOtherTypesAndStayAsTheyWere) {
  Options options = everythingSet();
  const std::string before = options.str();
  const auto message = [&](std::string_view name, const auto& value) {
    return messageOf<InvalidArgument>([&] { options.popart().set(name, value); });
  };
  EXPECT_THAT(message("acumulationFactor", 2),
              HasSubstr("unknown option 'acumulationFactor' (did you mean 'accumulationFactor'?)"));
  EXPECT_THAT(message("thread", 2), HasSubstr("unknown option 'thread' (did you mean 'threads'?)"));
  EXPECT_THAT(message("outlineThreshold", 1), HasSubstr("unknown option 'outlineThreshold'; it"));
  EXPECT_THAT(message("popart.set", "threads"), HasSubstr("unknown option 'popart.set'"));
  EXPECT_THAT(
      message("accumulationFactor", "four"),
      AllOf(HasSubstr("a whole number, got \"four\""), HasSubstr("\"accumulationFactor\"")));
  EXPECT_THAT(message("accumulationFactor", true), HasSubstr("a whole number, got true"));
  EXPECT_THAT(message("enableStochasticRounding", 1), HasSubstr("true or false, got 1"));
  EXPECT_THAT(message("autoRecomputation", "Never"), HasSubstr("Never"));
  EXPECT_THAT(message("replicatedGraphCount", 0), HasSubstr("replicationFactor"));
  EXPECT_EQ(options.str(), before);
  options.freeze();
  EXPECT_THAT(message("accumulationFactor", 2), HasSubstr("can't modify frozen options"));
}

TEST(OptionSupport, RefusesOptionsThatNothingReads) {
  EXPECT_NO_THROW(detail::requireSupported(Options::defaults()));
  EXPECT_NO_THROW(detail::requireSupported(
      Options::defaults().virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(2)));
  EXPECT_THAT(messageOf<InvalidArgument>(
                  [] { detail::requireSupported(Options::defaults().devicesPerReplica(2)); }),
              HasSubstr("devicesPerReplica is 2, and only virtualGraphMode Auto"));
  EXPECT_NO_THROW(detail::requireSupported(
      Options::defaults().threads(2).deviceIterations(3).outputMode(OutputMode::Sum)));
  const auto message = [](auto change) {
    Options options = Options::defaults();
    change(options);
    return messageOf<Unsupported>([&] { detail::requireSupported(options); });
  };
  EXPECT_THAT(message([](Options& o) { o.rearrangeAnchorsOnHost(true); }),
              HasSubstr("rearrangeAnchorsOnHost is true"));
  EXPECT_THAT(message([](Options& o) { o.jit.traceModel(false); }),
              HasSubstr("jit.traceModel is false; this version supports only its default, true"));
}

}  // namespace
}  // namespace sluice
