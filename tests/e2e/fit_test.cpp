// fit: callbacks, the CSV log, validation, and the end on Ctrl-C.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/networks.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Line;
using ::testing::StartsWith;

std::unique_ptr<DataLoader> eightPoints() {
  HostTensor x(DType::F32, Shape{8, 1});
  HostTensor y(DType::F32, Shape{8, 1});
  for (std::int64_t i = 0; i < 8; ++i) {
    x.set(i, static_cast<double>(i) / 8);
    y.set(i, 1 + static_cast<double>(i) / 4);
  }
  return std::make_unique<DataLoader>(Options(), data::tensorDataset({x, y}), 4);
}

/// Notes every call, and runs something at a given step.
class Recorder : public Callback {
 public:
  void onEpochBegin(const Progress& p) override { note("begin", p); }
  void onStep(const Progress& p) override {
    note("step", p);
    if (p.updates == interruptAt) {
      std::raise(signal);
    }
  }
  void onEpochEnd(const Progress& p) override { note("end", p); }
  void onEpochCut(const Progress& p) override { note("cut", p); }
  void onFitEnd(const Progress& p) override { note("over", p); }

  std::int64_t interruptAt = -1;
  int signal = SIGINT;
  std::vector<std::string> calls;
  std::vector<Metrics> metrics;

 private:
  void note(std::string_view what, const Progress& p) {
    calls.push_back(
        fmt::format("{} {}/{} {}/{} {}", what, p.epoch, p.epochs, p.step, p.steps, p.updates));
    metrics.push_back(p.metrics);
  }
};

TEST(Fit, CallsBackInOrderWithTheMeansOfAnEpoch) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const auto recorder = std::make_shared<Recorder>();
  FitOptions options;
  options.epochs = 2;
  options.callbacks = {recorder};
  options.validate = [] { return Metrics{{"Score", 7}}; };
  const FitResult result = fit(model, *eightPoints(), options);
  EXPECT_THAT(recorder->calls,
              ElementsAre("begin 0/2 0/2 0",
                          "step 0/2 1/2 1",
                          "step 0/2 2/2 2",
                          "end 0/2 2/2 2",
                          "begin 1/2 0/2 2",
                          "step 1/2 1/2 3",
                          "step 1/2 2/2 4",
                          "end 1/2 2/2 4",
                          "over 2/2 2/2 4"));
  EXPECT_TRUE(recorder->metrics[0].empty());
  ASSERT_EQ(recorder->metrics[1].size(), 1U);
  EXPECT_EQ(recorder->metrics[1][0].first, "Loss");
  ASSERT_EQ(recorder->metrics[3].size(), 2U);
  EXPECT_EQ(recorder->metrics[3][0].second,
            (recorder->metrics[1][0].second + recorder->metrics[2][0].second) / 2);
  EXPECT_EQ(recorder->metrics[3][1], (std::pair<std::string, double>("Score", 7)));
  EXPECT_LT(recorder->metrics[7][0].second, recorder->metrics[3][0].second);
  EXPECT_FALSE(result.interrupted);
  EXPECT_THAT(result.epochs, ElementsAre(recorder->metrics[3], recorder->metrics[7]));
}

TEST(Fit, GivesTheSameWeightsAsALoop) {
  Line fitted;
  Line looped;
  auto model = trainingModel(fitted, Options(), optim::SGD(0.1));
  auto loop = trainingModel(looped, Options(), optim::SGD(0.1));
  fit(model, *eightPoints(), {.epochs = 3});
  const auto loader = eightPoints();
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const Batch& batch : *loader) {
      loop.run(batch.tensors);
    }
  }
  EXPECT_TRUE(fitted.fc.weight.value().sameBits(looped.fc.weight.value()));
}

TEST(Fit, EndsAfterTheStepOnCtrlCAndCanGoOn) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const auto recorder = std::make_shared<Recorder>();
  recorder->interruptAt = 3;
  FitOptions options;
  options.epochs = 5;
  options.callbacks = {recorder};
  int validations = 0;
  options.validate = [&] {
    ++validations;
    return Metrics{};
  };
  const FitResult first = fit(model, *eightPoints(), options);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.signal, SIGINT);
  EXPECT_EQ(model.updates(), 3);
  EXPECT_EQ(first.epochs.size(), 1U);  // the second one was cut
  EXPECT_EQ(recorder->calls[recorder->calls.size() - 2], "cut 1/5 1/2 3");
  EXPECT_EQ(validations, 1);
  EXPECT_EQ(recorder->calls.back(), "over 2/5 1/2 3");
  recorder->interruptAt = -1;
  const FitResult second = fit(model, *eightPoints(), options);
  EXPECT_FALSE(second.interrupted);
  EXPECT_EQ(model.updates(), 13);
}

TEST(Fit, EndsOnSigtermAndSighupAsWell) {
  const auto hangup = std::signal(SIGHUP, SIG_DFL);  // which is ignored where nohup runs the tests
  for (const int signal : {SIGTERM, SIGHUP}) {
    Line net;
    auto model = trainingModel(net, Options(), optim::SGD(0.1));
    const auto recorder = std::make_shared<Recorder>();
    recorder->interruptAt = 1;
    recorder->signal = signal;
    const FitResult result = fit(model, *eightPoints(), {.epochs = 5, .callbacks = {recorder}});
    EXPECT_EQ(result.signal, signal);
    EXPECT_TRUE(result.interrupted);
    EXPECT_EQ(model.updates(), 1);
    EXPECT_TRUE(result.epochs.empty());
  }
  std::signal(SIGHUP, hangup);
}

TEST(Fit, CountsAnEpochAsWholeThatASignalMeetsAtItsLastStep) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  const auto recorder = std::make_shared<Recorder>();
  recorder->interruptAt = 2;
  const FitResult result = fit(model, *eightPoints(), {.epochs = 5, .callbacks = {recorder}});
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.epochs.size(), 1U);
  EXPECT_THAT(recorder->calls,
              ElementsAre("begin 0/5 0/2 0",
                          "step 0/5 1/2 1",
                          "step 0/5 2/2 2",
                          "end 0/5 2/2 2",
                          "over 1/5 2/2 2"));
}

class CsvLogTest : public ::testing::Test {
 protected:
  static std::vector<std::string> linesOf(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    return lines;
  }

  testing::TempFolder folder_;
  std::filesystem::path path_ = folder_ / "log.csv";
};

TEST_F(CsvLogTest, HasALinePerStepAndItsNameWhenTrainingEnds) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  FitOptions options;
  options.epochs = 2;
  options.callbacks = {csvLog(path_.string())};
  options.metrics = [](std::span<const HostTensor>, std::span<const HostTensor>) {
    return Metrics{{"Loss", 0.5}, {"Accuracy", 25}};
  };
  options.validate = [&] {
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_TRUE(std::filesystem::exists(path_.string() + ".part"));
    return Metrics{};
  };
  fit(model, *eightPoints(), options);
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".part"));
  const std::vector<std::string> lines = linesOf(path_);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0], "epoch,step,updates,seconds,Loss,Accuracy");
  EXPECT_THAT(lines[1], StartsWith("1,1,1,"));
  EXPECT_THAT(lines[4], StartsWith("2,2,4,"));
  EXPECT_THAT(lines[4], ::testing::EndsWith(",0.5,25"));
  fit(model, *eightPoints(), {.epochs = 1, .callbacks = options.callbacks});
  EXPECT_EQ(linesOf(path_).size(), 7U);
}

TEST_F(CsvLogTest, OfARunThatIsContinuedKeepsTheStepsBeforeIt) {
  const std::string header = "epoch,step,updates,seconds,Loss\n";
  const std::string kept = header + "1,1,1,0.1,7\n1,2,2,0.2,6\n";
  const auto logged = [&](const FitOptions& settings) {
    Line net;
    auto model = trainingModel(net, Options(), optim::SGD(0.1));
    FitOptions options = settings;
    options.callbacks = {csvLog(path_.string())};
    options.progress = false;
    fit(model, *eightPoints(), {.epochs = options.firstEpoch, .progress = false});
    fit(model, *eightPoints(), options);
    return linesOf(path_);
  };
  // What came after the checkpoint is done again; half a line was being written when it was killed.
  writeFileAtomically(path_.string() + ".part", kept + "2,1,3,0.3,5\n2,2,4");
  std::vector<std::string> lines = logged({.epochs = 2, .firstEpoch = 1});
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[2], "1,2,2,0.2,6");
  EXPECT_THAT(lines[3], StartsWith("2,1,3,"));
  EXPECT_THAT(lines[3], ::testing::Not(::testing::EndsWith(",5")));
  EXPECT_THAT(lines[4], StartsWith("2,2,4,"));
  EXPECT_EQ(logged({.epochs = 2, .firstEpoch = 2}), lines) << "no step is left";
  for (const char* begun : {"", "epoch,st"}) {  // by a run that was killed before its first step
    writeFileAtomically(path_, kept);
    writeFileAtomically(path_.string() + ".part", begun);
    EXPECT_EQ(logged({.epochs = 2, .firstEpoch = 1}).size(), 5U) << "'" << begun << "'";
  }
  lines = logged({.epochs = 1});
  ASSERT_EQ(lines.size(), 3U) << "a new run";
  EXPECT_THAT(lines[1], StartsWith("1,1,1,"));
  writeFileAtomically(path_, "epoch,step,updates,seconds,Other\n1,1,1,0.1,7\n");
  EXPECT_EQ(logged({.epochs = 2, .firstEpoch = 1}).size(), 3U) << "other columns";
}

TEST_F(CsvLogTest, ThatCannotBeWrittenIsAFileError) {
  try {
    csvLog((folder_ / "missing" / "log.csv").string());
    FAIL() << "nothing thrown";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("log.csv"));
  }
}

TEST(Fit, PassesALoaderOfOtherInputsOnAsAnError) {
  Line net;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  DataLoader loader(Options(), data::tensorDataset({HostTensor(DType::F32, Shape{4, 1})}), 2);
  EXPECT_THROW(fit(model, loader, {}), InvalidArgument);
}

}  // namespace
}  // namespace sluice
