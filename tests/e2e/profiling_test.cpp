// Options::enableProfiling on real runs: what is written, and the latencies of a model.
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/api/compiled_program.h"
#include "sluice/profile/explain.h"
#include "sluice/profile/memory_use.h"
#include "sluice/profile/prediction.h"
#include "sluice/profile/trace_file.h"
#include "sluice/program/program.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ResidualMlp;
using testing::TempFolder;

constexpr int kRounds = 2;
constexpr int kProfiledAccumulation = 4;

Options pipelined(const fs::path& folder) {
  Options options = Options::defaults();
  options.deviceIterations(kRounds)
      .setExecutionStrategy(PipelinedExecution{
          Stage("b0", "b1").device(0), Stage("b2").device(1), Stage("b3", "b4").device(2)})
      .showCompilationProgressBar(false)
      .enableProfiling(folder.string());
  options.training.gradientAccumulation(kProfiledAccumulation);
  return options;
}

/// Inputs of a call with micro-batches of `rows` rows.
std::vector<HostTensor> inputsOf(std::int64_t rows) {
  HostTensor x(DType::F32, Shape{rows * kRounds * kProfiledAccumulation, 6});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, static_cast<double>(i % 7) / 7);
  }
  return {x, HostTensor(DType::I64, Shape{rows * kRounds * kProfiledAccumulation})};
}

json parseFile(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

struct Slice {
  double start;
  double end;
  int step;
  int round;
  std::string name;
};

/// The slices of a trace by lane, by start.
std::map<int, std::vector<Slice>> slicesOf(const json& document) {
  std::map<int, std::vector<Slice>> lanes;
  for (const json& event : document.at("traceEvents")) {
    if (event.at("ph") == "X") {
      const double start = event.at("ts");
      lanes[event.at("tid").get<int>()].push_back({start,
                                                   start + event.at("dur").get<double>(),
                                                   event.at("args").at("step"),
                                                   event.at("args").at("round"),
                                                   event.at("name")});
    }
  }
  for (auto& [lane, slices] : lanes) {
    std::ranges::stable_sort(slices, {}, &Slice::start);
  }
  return lanes;
}

TEST(Profiling, TracesEveryTaskOnceARoundWithoutOverlaps) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()), optim::SGD(0.1));
  const std::vector<HostTensor> inputs = inputsOf(8);
  for (int call = 0; call < 5; ++call) {
    model.run(inputs);
  }
  const auto lanes = slicesOf(parseFile(folder / "training" / "trace.json"));
  const program::Program& program = model.program();
  constexpr double kRounding = 1e-6;  // microseconds; a nanosecond is 1e-3
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    const std::size_t tasks = program.lanes[l].tasks.size();
    if (tasks == 0) {
      continue;
    }
    const std::vector<Slice>& slices = lanes.at(static_cast<int>(l));
    std::map<std::tuple<int, int, std::string>, int> counts;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      ++counts[{slices[i].step, slices[i].round, slices[i].name}];
      if (i > 0) {
        EXPECT_LE(slices[i - 1].end, slices[i].start + kRounding) << slices[i].name;
      }
    }
    EXPECT_EQ(slices.size(), 3 * kRounds * tasks);  // three of the five calls
    EXPECT_EQ(counts.size(), slices.size()) << "a task appears twice in a round";
  }
}

TEST(Profiling, OrdersAMicroBatchThroughTheStages) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()), optim::SGD(0.1));
  model.run(inputsOf(8));
  std::map<std::pair<int, std::string>, Slice> byName;
  for (const auto& [lane, slices] : slicesOf(parseFile(folder / "training" / "trace.json"))) {
    for (const Slice& slice : slices) {
      byName[{slice.round, slice.name}] = slice;
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    for (int m = 0; m < kProfiledAccumulation; ++m) {
      double before = 0;
      for (const char* what :
           {"forward 0", "forward 1", "forward 2", "backward 2", "backward 1", "backward 0"}) {
        const Slice& slice = byName.at({round, fmt::format("{} m{}", what, m)});
        EXPECT_GE(slice.start, before) << what;
        before = slice.end - 1e-6;
      }
    }
  }
}

TEST(Profiling, ChangesNoBit) {
  const auto lossOf = [](const Options& options) {
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::SGD(0.1));
    model.run(inputsOf(8));
    return model.run(inputsOf(8))[1].hash();
  };
  const TempFolder folder;
  EXPECT_EQ(lossOf(pipelined(folder.path())), lossOf(pipelined("").enableProfiling("")));
}

TEST(Profiling, WritesAFileForEachProgramInTheFolderOfTheModel) {
  const TempFolder folder;
  ResidualMlp net;
  auto training = trainingModel(net, pipelined(folder.path()).modelName("mine"), optim::SGD(0.1));
  training.run(inputsOf(8));
  training.run(inputsOf(4));
  Options options = pipelined(folder.path());
  options.training.gradientAccumulation(1);
  auto inference = inferenceModel(net, options.deviceIterations(kRounds * kProfiledAccumulation));
  inference.run(inputsOf(8));
  for (const char* name : {"mine/trace.json",
                           "mine/trace_2.json",
                           "mine/summary.txt",
                           "mine/run.slt",
                           "mine/run_2.slt",
                           "mine/report.html",
                           "mine/report_2.html",
                           "inference/trace.json",
                           "inference/summary.txt"}) {
    EXPECT_TRUE(fs::exists(folder / name)) << name;
  }
}

TEST(Profiling, TracesEveryReplica) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()).replicationFactor(2), optim::SGD(0.1));
  model.run(inputsOf(16));
  std::map<int, std::size_t> slices;  // by device
  const json document = parseFile(folder / "training" / "trace.json");
  for (const json& event : document.at("traceEvents")) {
    slices[event.at("pid").get<int>()] += event.at("ph") == "X" ? 1 : 0;
  }
  ASSERT_EQ(slices.size(), 6U);
  const program::Program& program = model.program();
  for (int device = 0; device < 3; ++device) {
    std::size_t tasks = 0;
    for (const program::Lane& lane : program.lanes) {
      tasks += lane.device == device ? lane.tasks.size() : 0;
    }
    EXPECT_EQ(slices[device], kRounds * tasks);
    EXPECT_EQ(slices[device + 3], kRounds * tasks);
  }
}

TEST(Profiling, ExplainsAllIdleTimeOfARealRun) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()).replicationFactor(2), optim::SGD(0.1));
  model.run(inputsOf(16));
  model.run(inputsOf(16));
  const profile::Trace trace = profile::readTrace(folder / "training" / "run.slt");
  EXPECT_EQ(trace.numSteps(), 2);
  const profile::Explanation found = profile::explain(trace);
  ASSERT_EQ(found.devices.size(), 6U);
  for (const profile::DeviceIdle& device : found.devices) {
    EXPECT_EQ(std::accumulate(device.causes.begin(), device.causes.end(), std::int64_t{0}),
              device.idle());
    EXPECT_GT(device.busy, 0);
    EXPECT_EQ(device.span, found.measured);
  }
  EXPECT_EQ(found.stages.size(), 3U);
  EXPECT_LE(found.ideal, found.measured);
}

TEST(Profiling, MemoryInUseStaysWithinThePlan) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()), optim::SGD(0.1));
  model.run(inputsOf(8));
  const profile::Trace trace = profile::readTrace(folder / "training" / "run.slt");
  const program::Program& program = model.program();
  const std::vector<profile::MemoryUse> uses = profile::memoryUse(trace, trace.steps[0]);
  for (std::size_t d = 0; d < uses.size(); ++d) {
    const auto planned = static_cast<std::int64_t>(program.devices[d].totalBytes());
    EXPECT_EQ(uses[d].planned, planned);
    EXPECT_LE(uses[d].peak, planned);
    EXPECT_GT(uses[d].peak, static_cast<std::int64_t>(program.devices[d].stateBytes));
  }
}

TEST(Profiling, ReportsTheTracedCalls) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()), optim::SGD(0.1));
  EXPECT_THAT(testing::messageOf([&] { model.report(folder / "early.html"); }),
              ::testing::HasSubstr("not called yet"));
  model.run(inputsOf(8));
  model.run(inputsOf(4));  // another program, beside the first
  model.report(folder / "report.html");
  std::ifstream file(folder / "report.html");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(page, ::testing::HasSubstr("\"title\":\"training\""));
  EXPECT_THAT(page, ::testing::HasSubstr("\"title\":\"training 2\""));
  ResidualMlp other;
  auto silent = trainingModel(other, pipelined("").enableProfiling(""), optim::SGD(0.1));
  silent.run(inputsOf(8));
  EXPECT_THAT(testing::messageOf([&] { silent.report(folder / "silent.html"); }),
              ::testing::HasSubstr("enableProfiling"));
}

/// The prediction in the page is what simulateStep says for the same program.
TEST(Profiling, ReportsWhatIsPredictedBesideWhatIsMeasured) {
  const TempFolder folder;
  const auto optionsOn = [&](const std::string& device) {
    return pipelined((folder / device).string()).device(device).enforceIpuRules(false);
  };
  ResidualMlp net;
  auto model = trainingModel(net, optionsOn("cpu"), optim::SGD(0.1));
  model.run(inputsOf(8));
  model.report(folder / "report.html", "ipu2");
  ResidualMlp there;
  auto simulated = trainingModel(there, optionsOn("sim@ipu2"), optim::SGD(0.1));
  simulated.run(inputsOf(8));
  const profile::Prediction prediction =
      profile::predictionOf(profile::readTrace(folder / "cpu" / "training" / "run.slt"),
                            profile::readTrace(folder / "sim@ipu2" / "training" / "run.slt"));
  std::ifstream file(folder / "report.html");
  const std::string page((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(page,
              ::testing::HasSubstr(fmt::format("\"step\":{{\"measured\":{},\"predicted\":{},",
                                               prediction.step.measured,
                                               prediction.step.predicted)));
  EXPECT_THAT(page, ::testing::HasSubstr("(simulated on ipu2)"));
  EXPECT_THAT(testing::messageOf([&] { model.report(folder / "report.html", "abacus"); }),
              ::testing::HasSubstr("abacus"));
  EXPECT_THAT(testing::messageOf([&] { simulated.report(folder / "report.html", "ipu2"); }),
              ::testing::HasSubstr("simulated on ipu2 already"));
}

/// Every kernel of every task once, inside its task, and the bits of a run that is not traced.
TEST(Profiling, TracesTheKernelsInsideTasksOnRequest) {
  const TempFolder folder;
  const auto trained = [&](const std::string& device, bool kernels) {
    ResidualMlp net;
    const std::string name = device + (kernels ? "" : " without");
    auto model = trainingModel(
        net, pipelined(folder / name).device(device).traceKernels(kernels), optim::SGD(0.1));
    model.run(inputsOf(8));
    return net.first.weight.value().hash();
  };
  for (const char* device : {"cpu", "far"}) {
    EXPECT_EQ(trained(device, true), trained(device, false));
    const profile::Trace trace = profile::readTrace(folder / device / "training" / "run.slt");
    std::map<std::tuple<int, int, int>, const runtime::TaskTime*> tasks;
    std::size_t expected = 0;
    for (const runtime::TaskTime& time : trace.steps[0]) {
      tasks[{time.lane, time.task, time.round}] = &time;
      expected += trace.subjectOf(time).kernels.size();
    }
    ASSERT_EQ(trace.kernels.size(), 1U);
    EXPECT_EQ(trace.kernels[0].size(), expected);
    EXPECT_GT(expected, 20U);
    for (const runtime::KernelSpan& kernel : trace.kernels[0]) {
      const auto task = tasks.find({kernel.lane, kernel.task, kernel.round});
      ASSERT_NE(task, tasks.end());
      EXPECT_LE(task->second->start, kernel.start);
      EXPECT_LE(kernel.end, task->second->end);
    }
    for (const profile::TracedSubject& subject : trace.subjects) {
      for (const profile::TracedKernel& kernel : subject.kernels) {
        EXPECT_GT(kernel.bytes, 0) << kernel.name;
        EXPECT_GT(kernel.limit, 0) << kernel.name;  // the rates of cpu and far can be measured
      }
    }
  }
  EXPECT_THAT(testing::messageOf([&] { trained("sim@ipu2", true); }),
              ::testing::HasSubstr("simulated devices"));
  ResidualMlp net;
  EXPECT_THAT(testing::messageOf(
                  [&] { trainingModel(net, pipelined("").traceKernels(true), optim::SGD(0.1)); }),
              ::testing::HasSubstr("enableProfiling"));
}

TEST(Profiling, RefusesAFolderThatCannotBeMade) {
  const TempFolder folder;
  const fs::path path = folder / "file";
  std::ofstream(path) << "a file";
  ResidualMlp net;
  EXPECT_THROW(trainingModel(net, pipelined(path), optim::SGD(0.1)), FileError);
}

TEST(LatencyCounters, AreOfTheNewestCallAndConsistent) {
  const TempFolder folder;
  ResidualMlp net;
  auto model = trainingModel(net, pipelined(folder.path()), optim::SGD(0.1));
  EXPECT_THROW(model.getLatency(), InvalidArgument);
  model.run(inputsOf(8));
  for (const Latency& latency : {model.getHostDeviceLatency(),
                                 model.getComputeLatency(),
                                 model.getDeviceHostLatency(),
                                 model.getLatency()}) {
    EXPECT_GT(latency.min, 0);
    EXPECT_LE(latency.min, latency.avg);
    EXPECT_LE(latency.avg, latency.max);
  }
  // The default output mode of training fetches one micro-batch, whose parts make up the whole.
  const double parts = model.getHostDeviceLatency().avg + model.getComputeLatency().avg;
  EXPECT_LE(parts, model.getLatency().avg + 1e-12);
  EXPECT_GE(parts + model.getDeviceHostLatency().avg, model.getLatency().avg - 1e-12);
}

TEST(LatencyCounters, NeedProfiling) {
  ResidualMlp net;
  auto model = trainingModel(net, pipelined("").enableProfiling(""), optim::SGD(0.1));
  model.run(inputsOf(8));
  try {
    model.getComputeLatency();
    ADD_FAILURE() << "gave a latency that was not measured";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), ::testing::HasSubstr("enableProfiling"));
  }
}

}  // namespace
}  // namespace sluice
