// Simulated devices: the CPU's bits, times that are those of the target and the same in every run,
// the target's memory, and the IPU's rules.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/input_file.h"
#include "sluice/devices/sim/target.h"
#include "sluice/profile/explain.h"
#include "sluice/profile/memory_use.h"
#include "sluice/profile/trace_file.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::BlockedCnn;
using ::testing::HasSubstr;
using testing::messageOf;
using testing::TempFolder;

/// Sets a variable of the environment for a while.
class SetVariable {
 public:
  SetVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~SetVariable() { ::unsetenv(name_); }
  SetVariable(const SetVariable&) = delete;
  SetVariable& operator=(const SetVariable&) = delete;

 private:
  const char* name_;
};

Options simulated(const std::string& device, std::int64_t replicas = 1) {
  Options options = Options::defaults();
  options.device(device)
      .deviceIterations(2)
      .replicationFactor(replicas)
      .showCompilationProgressBar(false)
      .setExecutionStrategy(
          PipelinedExecution{Stage("b0", "b1").device(0), Stage("b2", "b3", "b4").device(1)});
  options.training.gradientAccumulation(4);
  return options;
}

/// The weights after two calls.
testing::Bits trained(const Options& options) {
  BlockedCnn net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  const std::int64_t count = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t call = 0; call < 2; ++call) {
    model.run(testing::makeInputs(BlockedCnn::inputs(), call * count, count));
  }
  return testing::bitsOf(model.session());
}

TEST(Simulated, DevicesHaveTheBitsOfTheCpu) {
  EXPECT_EQ(trained(simulated("sim@ipu1")), trained(simulated("cpu")));
  EXPECT_EQ(trained(simulated("sim", 2)), trained(simulated("cpu", 2)));
}

profile::Trace traceOf(Options options, std::int64_t* cycles = nullptr) {
  const TempFolder folder;
  options.enableProfiling(folder.path().string()).logCycleCount(true);
  BlockedCnn net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  const std::int64_t count = model.microBatchesPerStep() * options.replicationFactor();
  for (std::int64_t call = 0; call < 2; ++call) {
    model.run(testing::makeInputs(BlockedCnn::inputs(), call * count, count));
  }
  if (cycles != nullptr) {
    *cycles = model.cycleCount();
  }
  model.report(folder / "page.html");
  EXPECT_TRUE(fs::exists(folder / "page.html"));
  return profile::readTrace(folder / "training" / "run.slt");
}

TEST(Simulated, TimesAreVirtualAndTheSameInEveryRun) {
  for (const std::int64_t replicas : {1, 2}) {
    std::int64_t cycles = 0;
    const profile::Trace trace = traceOf(simulated("sim@ipu2", replicas), &cycles);
    const profile::Trace again = traceOf(simulated("sim@ipu2", replicas));
    EXPECT_EQ(trace.simulated, "ipu2");
    EXPECT_EQ(trace.toUnix, 0);
    EXPECT_EQ(profile::traceBytes(trace), profile::traceBytes(again));
    ASSERT_EQ(trace.numSteps(), 2);
    // Steps follow each other; each takes the cycles that are counted, at 1.33 GHz.
    const std::int64_t length =
        profile::Trace::endOf(trace.steps[1]) - profile::Trace::beginOf(trace.steps[1]);
    EXPECT_NEAR(static_cast<double>(length), static_cast<double>(cycles) / 1.33, 2);
    EXPECT_GE(profile::Trace::beginOf(trace.steps[1]), profile::Trace::endOf(trace.steps[0]));
    const profile::Explanation why = profile::explain(trace);
    for (const profile::DeviceIdle& device : why.devices) {
      std::int64_t sum = 0;
      for (const std::int64_t cause : device.causes) {
        sum += cause;
      }
      EXPECT_EQ(sum, device.idle());
      EXPECT_GT(device.busy, 0);
    }
    EXPECT_EQ(trace.numDevices(), static_cast<std::size_t>(2 * replicas));
    // Replicas sum their gradients, which takes as long as the links need.
    std::int64_t sums = 0;
    for (const runtime::TaskTime& time : trace.steps[1]) {
      if (trace.subjectOf(time).kind == program::TaskKind::Reduce) {
        EXPECT_GE(time.end - time.start, 1000);  // the latency of a link
        ++sums;
      }
    }
    EXPECT_EQ(sums > 0, replicas > 1);
  }
}

TEST(Simulated, MemoryOverTimeStaysWithinThePlan) {
  const profile::Trace trace = traceOf(simulated("sim@ipu21"));
  for (const profile::MemoryUse& use : profile::memoryUse(trace, trace.steps[0])) {
    EXPECT_GT(use.peak, use.stateBytes);
    EXPECT_LE(use.peak, use.planned);
  }
}

TEST(Simulated, OfflineTargetsAreCompiledAndTimedWithoutComputing) {
  double seconds = 0;
  for (const std::int64_t version : {1, 2, 21}) {
    BlockedCnn net;
    Options options = simulated("cpu").device("");
    auto model = trainingModel(net, options.useOfflineTarget(version), optim::SGD(0.1));
    EXPECT_THAT(messageOf([&] { model.simulateStep(); }), HasSubstr("not compiled"));
    const std::vector<HostTensor> inputs =
        testing::makeInputs(BlockedCnn::inputs(), 0, model.microBatchesPerStep());
    model.compile(inputs);
    EXPECT_FALSE(model.isAttachedToDevice());
    EXPECT_THAT(messageOf([&] { model.run(inputs); }), HasSubstr("Never"));
    const SimulatedStep step = model.simulateStep();
    EXPECT_EQ(step.target, "ipu" + std::to_string(version));
    EXPECT_GT(step.cycles, 0);
    EXPECT_EQ(model.simulateStep().cycles, step.cycles);
    if (version == 21) {
      EXPECT_LT(step.seconds, seconds) << "as ipu2, with a faster clock";
    }
    seconds = step.seconds;
  }
}

TEST(Simulated, ATargetIsAFileAndItsFiguresCount) {
  const TempFolder folder;
  const auto cyclesWith = [&](auto change) {
    devices::sim::SimTarget target = devices::sim::findTarget("ipu2");
    target.name = "mine";
    change(target);
    const fs::path path = folder / "mine.json";
    writeFileAtomically(path, print(target));
    BlockedCnn net;
    auto model =
        trainingModel(net,
                      simulated("sim@" + path.string()).connectionType(ConnectionType::Never),
                      optim::SGD(0.1));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, model.microBatchesPerStep()));
    EXPECT_EQ(model.simulateStep().target, "mine");
    return model.simulateStep().cycles;
  };
  const std::int64_t plain = cyclesWith([](auto&) {});
  EXPECT_GT(cyclesWith([](auto& t) { t.machine.peer.latencySeconds = 1e-3; }), plain);
  EXPECT_GT(cyclesWith([](auto& t) { t.machine.host.bytesPerSecond = 1e3; }), plain);
  EXPECT_GT(cyclesWith([](auto& t) { t.kernelTicks *= 100; }), plain);
  // One core for both devices: nothing overlaps any more.
  EXPECT_GT(cyclesWith([](auto& t) { t.machine.cores = 1; }), plain);
  EXPECT_LE(cyclesWith([](auto& t) { t.machine = {}; }), plain);
  EXPECT_THROW(cyclesWith([](auto& t) { t.memoryBytes = 4096; }), OutOfMemory);
}

TEST(Simulated, IpuModelIsAskedForByOptionOrEnvironmentAndTheOptionWins) {
  const auto targetOf = [](const Options& options) {
    BlockedCnn net;
    auto model = inferenceModel(net, Options(options).connectionType(ConnectionType::Never));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, 1));
    return model.session().simulatedOn();
  };
  const Options plain = Options::defaults().showCompilationProgressBar(false);
  const bool onCpu = std::getenv("SLUICE_DEVICE") == nullptr;
  EXPECT_EQ(targetOf(Options(plain).useIpuModel(true)), "ipu2");
  if (onCpu) {
    EXPECT_EQ(targetOf(plain), "");
    for (const char* name : {"SLUICE_IPU_MODEL", "POPTORCH_IPU_MODEL"}) {
      const SetVariable variable(name, "1");
      EXPECT_EQ(targetOf(plain), "ipu2") << name;
      EXPECT_EQ(targetOf(Options(plain).useIpuModel(false)), "") << name;
      EXPECT_EQ(targetOf(Options(plain).device("cpu")), "") << name;
    }
    const SetVariable both("POPTORCH_IPU_MODEL", "1");
    const SetVariable ours("SLUICE_IPU_MODEL", "0");
    EXPECT_EQ(targetOf(plain), "");
    const SetVariable wrong("SLUICE_IPU_MODEL", "maybe");
    EXPECT_THAT(messageOf([&] { targetOf(plain); }), HasSubstr("SLUICE_IPU_MODEL"));
  }
  EXPECT_THAT(messageOf([&] { targetOf(Options(plain).useIpuModel(true).device("far")); }),
              AllOf(HasSubstr("useIpuModel"), HasSubstr("far")));
}

TEST(Simulated, DevicesAreMadeThePopartWay) {
  const auto compiledOn = [](const MultiDevice& devices) {
    BlockedCnn net;
    Options options = Options::defaults().showCompilationProgressBar(false);
    devices.applyTo(options);
    auto model = inferenceModel(net, options.connectionType(ConnectionType::Never));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, 1));
    return model.session().simulatedOn();
  };
  const MultiDevice four = DeviceManager().createIpuModelDevice(4, "ipu1");
  EXPECT_EQ(four.kind(), "sim@ipu1");
  EXPECT_EQ(four.count(), 4);
  EXPECT_EQ(compiledOn(four), "ipu1");
  EXPECT_EQ(compiledOn(DeviceManager().createIpuModelDevice()), "ipu2");
  EXPECT_THAT(messageOf([&] { DeviceManager().createIpuModelDevice(0); }), HasSubstr("got 0"));
  EXPECT_THAT(messageOf([&] { DeviceManager().createIpuModelDevice(1, "ipu9"); }),
              HasSubstr("ipu9"));
}

TEST(Simulated, IpusKeepTheirRulesUnlessTheyAreSwitchedOff) {
  const auto compiled = [](const std::string& device, std::optional<bool> rules) {
    BlockedCnn net;
    Options options = Options::defaults();
    options.device(device).enforceIpuRules(rules).showCompilationProgressBar(false);
    options.setExecutionStrategy(PipelinedExecution{
        Stage("b0").device(0), Stage("b1", "b2").device(1), Stage("b3", "b4").device(2)});
    options.training.gradientAccumulation(8);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    return messageOf([&] { model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, 8)); });
  };
  EXPECT_THAT(compiled("sim@ipu2", std::nullopt), HasSubstr("needs 3"));
  EXPECT_EQ(compiled("sim@ipu2", false), "nothing thrown");
  EXPECT_EQ(compiled("cpu", std::nullopt), "nothing thrown");
}

TEST(Simulated, SuggestsChangesThatGiveWhatTheyPromise) {
  const auto compiledOn = [](BlockedCnn& net, const Strategy& strategy) {
    Options options = simulated("sim@ipu2").setExecutionStrategy(strategy);
    options.connectionType(ConnectionType::Never);
    return trainingModel(net, options, optim::SGD(0.1));
  };
  const std::vector<HostTensor> inputs = testing::makeInputs(BlockedCnn::inputs(), 0, 8);
  // Nearly all on one device.
  const Strategy uneven =
      PipelinedExecution{Stage("b0").device(0), Stage("b1", "b2", "b3", "b4").device(1)};
  BlockedCnn net;
  auto model = compiledOn(net, uneven);
  EXPECT_THAT(messageOf([&] { model.suggestChanges(); }), HasSubstr("not compiled"));
  model.compile(inputs);
  const double before = model.simulateStep().seconds;
  const std::vector<Suggestion> found = model.suggestChanges(100);
  ASSERT_FALSE(found.empty());
  EXPECT_LE(model.suggestChanges(1).size(), 1U);
  EXPECT_TRUE(std::ranges::any_of(found, [](const Suggestion& suggestion) {
    return suggestion.change == "move block b1 to device 0";
  }));
  for (const Suggestion& suggestion : found) {
    SCOPED_TRACE(suggestion.change);
    BlockedCnn other;
    auto changed = compiledOn(other, suggestion.strategy);
    changed.compile(inputs);
    EXPECT_DOUBLE_EQ(changed.simulateStep().seconds, suggestion.seconds);
    EXPECT_LT(suggestion.seconds, before);
    EXPECT_DOUBLE_EQ(suggestion.faster, 1 - suggestion.seconds / before);
  }
}

/// A model on real devices gets what one on simulated devices gets, and its report says so.
TEST(Simulated, SuggestsChangesForRealDevicesInTheTimeOfATarget) {
  const testing::TempFolder folder;
  const std::vector<HostTensor> inputs = testing::makeInputs(BlockedCnn::inputs(), 0, 8);
  const auto optionsOn = [&](const std::string& device) {
    Options options = simulated(device).enforceIpuRules(false);
    options.setExecutionStrategy(
        PipelinedExecution{Stage("b0").device(0), Stage("b1", "b2", "b3", "b4").device(1)});
    return options.enableProfiling((folder / device).string());
  };
  BlockedCnn net;
  auto model = trainingModel(net, optionsOn("cpu"), optim::SGD(0.1));
  EXPECT_THAT(messageOf([&] { model.suggestChanges(3, "ipu2"); }), HasSubstr("not compiled"));
  model.run(inputs);
  BlockedCnn there;
  auto sim = trainingModel(there, optionsOn("sim@ipu2"), optim::SGD(0.1));
  sim.run(inputs);
  const std::vector<Suggestion> found = model.suggestChanges(4, "ipu2");
  const std::vector<Suggestion> expected = sim.suggestChanges(4);
  ASSERT_FALSE(found.empty());
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].change, expected[i].change);
    EXPECT_DOUBLE_EQ(found[i].seconds, expected[i].seconds);
  }
  model.report(folder / "real.md", "ipu2");
  sim.report(folder / "sim.md");
  for (const char* file : {"real.md", "sim.md"}) {
    const std::string text = readFile(folder / file);
    EXPECT_THAT(text, HasSubstr("What one change would give")) << file;
    EXPECT_THAT(text, HasSubstr("| " + found[0].change + " | ")) << file;
  }
  model.report(folder / "plain.md");
  EXPECT_THAT(readFile(folder / "plain.md"),
              ::testing::Not(HasSubstr("What one change would give")));
  EXPECT_THAT(messageOf([&] { model.suggestChanges(); }), HasSubstr("not simulated"));
  EXPECT_THAT(messageOf([&] { model.suggestChanges(3, "abacus"); }), HasSubstr("abacus"));
  EXPECT_THAT(messageOf([&] { sim.suggestChanges(3, "ipu2"); }), HasSubstr("already"));
}

TEST(Simulated, NothingElseIs) {
  BlockedCnn net;
  auto model = inferenceModel(net, Options::defaults().device("cpu"));
  model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, 1));
  EXPECT_THAT(messageOf([&] { model.simulateStep(); }), HasSubstr("not simulated"));
}

}  // namespace
}  // namespace sluice
