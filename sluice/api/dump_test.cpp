// Where compiling writes graphs and programs: dumpDirectory and the variable SLUICE_DUMP.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/profile/trace_file.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct DumpedNet : nn::Module {
  nn::Linear fc{*this, "fc", 2, 2};
  nn::Tensor forward(nn::Tensor x) { return nn::relu(fc(x)); }
};

struct TwoBlocks : nn::Module {
  nn::Linear first{*this, "first", 2, 2};
  nn::Linear last{*this, "last", 2, 1};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    {
      const nn::Block b("B0", 0);
      x = nn::tanh(first(x));
    }
    const nn::Block b("B1", 1);
    return nn::mseLoss(last(x), y);
  }
};

class Dump : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"SLUICE_DUMP",
                             "SLUICE_DUMP_POINTS",
                             "SLUICE_DUMP_DOT",
                             "POPART_DOT_CHECKS",
                             "POPART_IR_DUMP"}) {
      ::unsetenv(name);
    }
  }
  static void setVariable(const fs::path& path) { ::setenv("SLUICE_DUMP", path.c_str(), 1); }

  static void run(const Options& options) {
    DumpedNet net;
    auto model = inferenceModel(net, options);
    model(HostTensor(DType::F32, Shape{1, 2}));
  }

  /// The files of a training model's dump, in their order, and what is in one of them.
  std::vector<std::string> filesOf(Options options) const {
    options.dumpDirectory(folder_.path().string());
    TwoBlocks net;
    auto model = trainingModel(net, options, optim::SGD(0.1));
    const std::int64_t rows = 4 * options.training.gradientAccumulation();
    model.compile(std::vector{HostTensor(DType::F32, Shape{rows, 2}),
                              HostTensor(DType::F32, Shape{rows, 1})});
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }
  std::string textOf(std::string_view file) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / file).rdbuf();
    return text.str();
  }

  testing::TempFolder folder_;
};

TEST_F(Dump, OfTheVariableGoesToAFolderPerProgram) {
  setVariable(folder_.path());
  run(Options());
  run(Options().modelName("tower"));
  for (const char* program : {"inference", "tower"}) {
    EXPECT_TRUE(fs::exists(folder_ / program / "20_eliminate_dead.txt")) << program;
    std::ostringstream text;
    text << std::ifstream(folder_ / program / "program.txt").rdbuf();
    EXPECT_THAT(text.str(), HasSubstr("program \"" + std::string(program) + "\""));
  }
}

TEST_F(Dump, OfTheOptionComesBeforeTheVariable) {
  setVariable(folder_ / "variable");
  run(Options().dumpDirectory((folder_ / "option").string()));
  EXPECT_TRUE(fs::exists(folder_ / "option" / "program.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "variable"));
}

TEST_F(Dump, IsNotWrittenForAnEmptyVariable) {
  setVariable("");
  EXPECT_NO_THROW(run(Options()));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Dump, ThatCannotBeWrittenIsAFileErrorWithItsPath) {
  std::ofstream(folder_ / "file") << "in the way";
  setVariable(folder_ / "file");
  EXPECT_THAT(
      messageOf<FileError>([] { run(Options()); }),
      AllOf(HasSubstr("cannot write"), HasSubstr((folder_ / "file" / "inference").string())));
  EXPECT_THAT(
      messageOf<FileError>([&] { run(Options().dumpDirectory((folder_ / "file").string())); }),
      AllOf(HasSubstr("cannot write"), HasSubstr("file")));
  // Only the program's own file is in the way.
  fs::create_directories(folder_ / "half" / "program.txt");
  EXPECT_THAT(
      messageOf<FileError>([&] { run(Options().dumpDirectory((folder_ / "half").string())); }),
      HasSubstr("program.txt"));
}

// The stages of every training model.
const std::vector<std::string> kBeforePlan = {"02_anchor_forward.txt",
                                              "04_decompose_all.txt",
                                              "05_differentiate.txt",
                                              "06_optimizer.txt",
                                              "07_gather_early.txt",
                                              "08_anchor_backward.txt",
                                              "09_outputs.txt",
                                              "11_shard_weights.txt",
                                              "13_decompose.txt",
                                              "14_shard_updates.txt",
                                              "15_fold_constants.txt",
                                              "16_eliminate_common.txt",
                                              "17_eliminate_dead.txt",
                                              "18_fuse_elementwise.txt",
                                              "19_fuse_epilogues.txt",
                                              "20_eliminate_dead.txt"};

std::vector<std::string> with(std::vector<std::string> more) {
  std::vector<std::string> all = kBeforePlan;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(Dump, OfAPipelineShowsAllStages) {
  Options options;
  options.training.gradientAccumulation(3);
  EXPECT_EQ(filesOf(options),
            with({"21_place.txt",
                  "27_cut.txt",
                  "28_schedule.txt",
                  "31_plan_memory.txt",
                  "program.txt",
                  "program_records.txt"}));
  EXPECT_THAT(textOf("05_differentiate.txt"), HasSubstr("@backward"));
  EXPECT_THAT(textOf("05_differentiate.txt"), Not(HasSubstr("@update")));
  EXPECT_THAT(textOf("06_optimizer.txt"), HasSubstr("@update"));
  EXPECT_THAT(textOf("21_place.txt"), HasSubstr("stage=1"));
  EXPECT_THAT(textOf("27_cut.txt"), HasSubstr("backward of stage 0 on device 0\n  %"));
  // As in ARCHITECTURE.md: device 1 runs a backward pass after each forward pass.
  EXPECT_THAT(textOf("28_schedule.txt"),
              ::testing::ContainsRegex("stage 1: F0\n[^\n]*stage 1: B0\n[^\n]*stage 1: F1"));
  EXPECT_THAT(textOf("31_plan_memory.txt"),
              AllOf(HasSubstr("device 1: state"), HasSubstr("first.weight")));
}

TEST_F(Dump, OfPopartsScheduleAndOfContinuousUpdatesShowsTheirRewrites) {
  Options options;
  options.continuousWeightUpdates(true);
  EXPECT_EQ(filesOf(options),
            with({"21_place.txt",
                  "22_continuous_updates.txt",
                  "23_relay_copies.txt",
                  "27_cut.txt",
                  "28_schedule.txt",
                  "31_plan_memory.txt",
                  "program.txt",
                  "program_records.txt"}));
  EXPECT_THAT(textOf("22_continuous_updates.txt"), Not(HasSubstr("@update")));
}

TEST_F(Dump, OfPhasesShowsThePlanThatWasChosen) {
  Options options;
  options.setExecutionStrategy(SerialPhasedExecution{Phase("B0"), Phase("B1")});
  options.training.gradientAccumulation(3);
  EXPECT_EQ(filesOf(options),
            with({"21_place.txt",
                  "27_cut.txt",
                  "28_schedule.txt",
                  "31_plan_memory.txt",
                  "program.txt",
                  "program_records.txt"}));
  EXPECT_THAT(textOf("28_schedule.txt"), HasSubstr("schedule phase by phase"));
  EXPECT_THAT(textOf("31_plan_memory.txt"), HasSubstr("remote memory: state"));
  // The other order was planned as well; program.txt is of the one that was chosen, and so is this.
  EXPECT_THAT(textOf("27_cut.txt"), HasSubstr("in the loop"));
}

TEST_F(Dump, OfAGraphCutIntoPhasesBeginsWithThem) {
  Options options;
  options.setExecutionStrategy(SerialPhasedExecution(Phase::automatic(2)));
  EXPECT_EQ(filesOf(options).front(), "00_annotate_phases.txt");
  EXPECT_THAT(textOf("00_annotate_phases.txt"), HasSubstr("phase=1"));
}

TEST_F(Dump, OfRecomputationShowsWhatIsMadeAgain) {
  Options options;
  options.training.gradientAccumulation(3);
  options.recomputation(Recomputation::All);
  EXPECT_EQ(filesOf(options),
            with({"21_place.txt",
                  "24_recompute.txt",
                  "27_cut.txt",
                  "28_schedule.txt",
                  "31_plan_memory.txt",
                  "program.txt",
                  "program_records.txt"}));
  EXPECT_GT(textOf("24_recompute.txt").size(), textOf("21_place.txt").size());
}

TEST_F(Dump, OfSyntheticDataShowsNoInput) {
  Options options;
  options.syntheticDataMode(SyntheticDataMode::Zeros);
  EXPECT_THAT(filesOf(options), ::testing::Contains("03_synthetic_inputs.txt"));
  EXPECT_THAT(textOf("02_anchor_forward.txt"), HasSubstr("= input("));
  EXPECT_THAT(textOf("03_synthetic_inputs.txt"), Not(HasSubstr("= input(")));
}

TEST_F(Dump, HasThePointsThatTheEnvironmentNames) {
  const testing::TempFolder folder;
  const auto namesIn = [](const fs::path& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      names.push_back(entry.path().filename().string().substr(3));
    }
    std::ranges::sort(names);
    return names;
  };
  setVariable(folder / "points");
  ::setenv("SLUICE_DUMP_POINTS", "place:cut", 1);
  run(Options());
  EXPECT_THAT(namesIn(folder / "points" / "inference"),
              ::testing::ElementsAre("cut.txt", "place.txt"));
  setVariable(folder / "drawn");
  ::setenv("SLUICE_DUMP_DOT", "1", 1);
  run(Options());
  EXPECT_THAT(namesIn(folder / "drawn" / "inference"),
              ::testing::ElementsAre("cut.txt", "place.dot", "place.txt"));
  ::setenv("SLUICE_DUMP_POINTS", "plaice", 1);
  EXPECT_THAT(messageOf<ConfigFileError>([] { run(Options()); }),
              AllOf(HasSubstr("SLUICE_DUMP_POINTS"), HasSubstr("did you mean 'place'")));
}

TEST_F(Dump, ReadsThePointsOfPopart) {
  const testing::TempFolder folder;
  ::setenv("POPART_IR_DUMP", folder.path().c_str(), 1);
  ::setenv("POPART_DOT_CHECKS", "MAINLOOPS", 1);
  run(Options());
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "inference")) {
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("place."));
    ++files;
  }
  EXPECT_EQ(files, 2U);  // text and drawing
  ::setenv("POPART_DOT_CHECKS", "MIDDLE", 1);
  EXPECT_THAT(messageOf<ConfigFileError>([] { run(Options()); }), HasSubstr("MAINLOOPS"));
}

TEST_F(Dump, IsWrittenAlsoOfAProgramThatACacheHolds) {
  const testing::TempFolder cache;
  const auto compileAgain = [&] { run(Options().enableExecutableCaching(cache.path().string())); };
  compileAgain();
  for (const char* variable : {"SLUICE_DUMP", "POPART_IR_DUMP"}) {
    ::setenv(variable, (folder_ / variable).c_str(), 1);
    compileAgain();
    EXPECT_TRUE(fs::exists(folder_ / variable / "inference" / "program.txt")) << variable;
    ::unsetenv(variable);
  }
  const fs::path before = fs::current_path();  // where POPART_DOT_CHECKS alone writes
  fs::current_path(folder_.path());
  ::setenv("POPART_DOT_CHECKS", "MAINLOOPS", 1);
  compileAgain();
  fs::current_path(before);
  EXPECT_TRUE(fs::exists(folder_ / "inference"));
}

/// SLUICE_PROFILE and Poplar's options, for models whose options say nothing.
TEST(EnvironmentProfile, AsksForTraces) {
  const testing::TempFolder folder;
  const auto run = [](const Options& options) {
    DumpedNet net;
    auto model = inferenceModel(net, options);
    model(HostTensor(DType::F32, Shape{1, 2}));
  };
  const auto with = [&](const char* name, const std::string& value, const Options& options = {}) {
    ::setenv(name, value.c_str(), 1);
    const std::string message = messageOf<ConfigFileError>([&] { run(options); });
    ::unsetenv(name);
    return message;
  };
  const auto text = [&](const char* name) { return (folder / name).string(); };
  with("SLUICE_PROFILE", R"({"directory": ")" + text("ours") + R"(", "values": "Hashes"})");
  EXPECT_TRUE(fs::exists(folder / "ours" / "inference" / "run.slt"));
  with("SLUICE_PROFILE", R"({"directory": ")" + text("kernels") + R"(", "kernels": true})");
  EXPECT_THAT(profile::readTrace(folder / "kernels" / "inference" / "run.slt").kernels,
              ::testing::SizeIs(1));
  with("SLUICE_PROFILE",  // which has no times of kernels
       R"({"directory": ")" + text("sim") + R"(", "kernels": true})",
       Options().device("sim@ipu2"));
  EXPECT_TRUE(profile::readTrace(folder / "sim" / "inference" / "run.slt").kernels.empty());
  with("POPLAR_ENGINE_OPTIONS",
       R"({"autoReport.all": "true", "target.x": "1", "autoReport.directory": ")" + text("poplar") +
           "\"}");
  EXPECT_TRUE(fs::exists(folder / "poplar" / "inference" / "run.slt"));
  with("SLUICE_PROFILE", R"({"enable": false, "directory": ")" + text("off") + "\"}");
  EXPECT_FALSE(fs::exists(folder / "off"));
  with("SLUICE_PROFILE",
       R"({"directory": ")" + text("lost") + "\"}",
       Options().enableProfiling(text("option")));
  EXPECT_TRUE(fs::exists(folder / "option"));
  EXPECT_FALSE(fs::exists(folder / "lost"));
  EXPECT_THAT(with("SLUICE_PROFILE", "profile"), HasSubstr("SLUICE_PROFILE: expected JSON"));
  EXPECT_THAT(with("SLUICE_PROFILE", R"({"folder": "x"})"), HasSubstr("no key 'folder'"));
  EXPECT_THAT(with("SLUICE_PROFILE", R"({"values": "Some"})"), HasSubstr("Hashes"));
  EXPECT_THAT(with("SLUICE_PROFILE", R"({"directory": 3})"), HasSubstr("directory"));
  EXPECT_THAT(with("POPLAR_ENGINE_OPTIONS", "[]"), HasSubstr("POPLAR_ENGINE_OPTIONS"));
}

}  // namespace
}  // namespace sluice
