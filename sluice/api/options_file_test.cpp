// Options from the environment and from files.
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/api/options.h"
#include "sluice/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Environment variables for the length of a test.
class Variables : public ::testing::Test {
 protected:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    set_.push_back(name);
  }
  void TearDown() override {
    for (const char* name : set_) {
      ::unsetenv(name);
    }
  }

 private:
  std::vector<const char*> set_;
};

TEST_F(Variables, NameTheProcessForMpirun) {
  set("OMPI_COMM_WORLD_SIZE", "4");
  set("OMPI_COMM_WORLD_RANK", "3");
  EXPECT_EQ(Options().distributed.numProcesses(), 4);
  EXPECT_EQ(Options().distributed.processId(), 3);
  EXPECT_EQ(Options::defaults().distributed.numProcesses(), 1);
}

TEST_F(Variables, OfOtherNamesCanNameTheProcess) {
  set("SLUICE_TEST_SIZE", "2");
  DistributedOptions options;
  const auto read = [&] { options.setEnvVarNames("SLUICE_TEST_SIZE", "SLUICE_TEST_RANK"); };
  EXPECT_THAT(messageOf<InvalidArgument>(read), HasSubstr("SLUICE_TEST_RANK is not"));
  set("SLUICE_TEST_RANK", "one");
  EXPECT_THAT(messageOf<InvalidArgument>(read), HasSubstr("'one'"));
  set("SLUICE_TEST_RANK", "2");
  EXPECT_THAT(messageOf<InvalidArgument>(read), HasSubstr("id 2 of 2"));
  EXPECT_EQ(options.idName(), "OMPI_COMM_WORLD_RANK");
  set("SLUICE_TEST_RANK", "1");
  read();
  EXPECT_EQ(options.processId(), 1);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.setEnvVarNames("", "x"); }),
              HasSubstr("name"));
}

TEST_F(Variables, GiveTheSameOptionsAsSetters) {
  set("SLUICE_DEFAULT_OPTIONS",
      R"json({"deviceIterations": 4, "outputMode": ["EveryN", 2], "memoryPerDevice": "1KiB",
              "connectionType": "ConnectionType.OnDemand", "Training.gradientAccumulation": 5,
              "training.accumulationAndReplicationReductionType": "Sum", "stallTimeout": 2,
              "virtualGraphSplitRatios": [0.5, 0.5], "randomSeed": null, "fusion": false,
              "setExecutionStrategy":
                  "PipelinedExecution(\"A\", [\"B\", \"C\"]).schedule(\"gpipe\")"})json");
  Options expected = Options::defaults();
  expected.deviceIterations(4)
      .outputMode(OutputMode::EveryN, 2)
      .memoryPerDevice("1KiB")
      .connectionType(ConnectionType::OnDemand)
      .stallTimeout(2)
      .virtualGraphSplitRatios({0.5, 0.5})
      .fusion(false)
      .setExecutionStrategy(PipelinedExecution{"A", {"B", "C"}}.schedule("gpipe"));
  expected.training.gradientAccumulation(5).accumulationAndReplicationReductionType(Reduction::Sum);
  EXPECT_EQ(Options().str(), expected.str());
  EXPECT_EQ(Options().clone().str(), expected.str());
}

TEST_F(Variables, AreReportedForValuesTheyStillDecide) {
  EXPECT_THAT(Options().fromEnvironment(), IsEmpty());
  set("SLUICE_DEFAULT_OPTIONS", R"({"threads": 2, "deviceIterations": 8, "fusion": true})");
  Options options;
  EXPECT_THAT(options.fromEnvironment(), ElementsAre("deviceIterations: 8", "threads: 2"));
  options.threads(4);
  EXPECT_THAT(options.fromEnvironment(), ElementsAre("deviceIterations: 8"));
  EXPECT_THAT(Options::defaults().fromEnvironment(), IsEmpty());
}

TEST_F(Variables, ThatCannotBeReadAreConfigFileErrors) {
  const auto messageFor = [&](const char* text) {
    set("SLUICE_DEFAULT_OPTIONS", text);
    return messageOf<ConfigFileError>([] { Options(); });
  };
  EXPECT_THAT(messageFor("{"),
              AllOf(HasSubstr("SLUICE_DEFAULT_OPTIONS"), HasSubstr("JSON object")));
  EXPECT_THAT(messageFor("[1]"), HasSubstr("JSON object"));
  EXPECT_THAT(messageFor(R"({"thread": 2})"),
              AllOf(HasSubstr("unknown option 'thread'"), HasSubstr("threads, memoryPerDevice")));
  EXPECT_THAT(messageFor(R"({"threads": "2"})"), HasSubstr("a whole number, got \"2\""));
  EXPECT_THAT(messageFor(R"({"threads": 2.5})"), HasSubstr("a whole number, got 2.5"));
  EXPECT_THAT(messageFor(R"({"threads": 18446744073709551615})"), HasSubstr("a whole number"));
  EXPECT_THAT(messageFor(R"({"threads": [1, 2]})"), HasSubstr("takes 1 arguments, got 2"));
  EXPECT_THAT(messageFor(R"({"threads": []})"), HasSubstr("got 0 arguments"));
  EXPECT_THAT(messageFor(R"({"threads": {"n": 1}})"), HasSubstr("JSON object is no argument"));
  EXPECT_THAT(messageFor(R"({"threads": 0})"), HasSubstr("threads must be"));
  EXPECT_THAT(messageFor(R"({"fusion": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(messageFor(R"({"connectionType": "Sometimes"})"),
              HasSubstr("ConnectionType.{Always, OnDemand, Never}"));
  EXPECT_THAT(messageFor(R"({"connectionType": "OutputMode.Always"})"), HasSubstr("expected"));
  EXPECT_THAT(messageFor(R"({"training.accumulationAndReplicationReductionType": "NoReduction"})"),
              HasSubstr("{Mean, Sum}"));
  EXPECT_THAT(
      messageFor((R"({"threads": )" + std::string(40, '[') + std::string(40, ']') + "}").c_str()),
      HasSubstr("nested too deeply"));
  std::string many = R"({"threads": [)";
  for (int i = 0; i < 300'000; ++i) {
    many += "[],";
  }
  EXPECT_THAT(messageFor((many + "1]}").c_str()), HasSubstr("more than 16384 keys"));
}

class OptionsFile : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string messageFor(const std::string& text) {
    const std::string path = write("bad.conf", text);
    return messageOf<ConfigFileError>([&] { Options::defaults().loadFromFile(path); });
  }

  testing::TempFolder folder_;
};

TEST_F(OptionsFile, ThatIsNoRegularFileIsRefusedAtOnce) {
  const std::string path = (folder_ / "fifo.conf").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  for (const auto& [file, kind] : {std::pair(path, "a FIFO"),
                                   std::pair(std::string("/dev/zero"), "a character device"),
                                   std::pair(folder_.path().string(), "a folder")}) {
    EXPECT_THAT(messageOf<ConfigFileError>([&] { Options::defaults().loadFromFile(file); }),
                HasSubstr(kind));
  }
}

TEST_F(OptionsFile, HoldsOneSetterPerLine) {
  const std::string path = write("good.conf",
                                 "# the run\n"
                                 "\n"
                                 "deviceIterations(4)\r\n"
                                 "   Training.gradientAccumulation( 5 )   # ten is too many\n"
                                 "\toutputMode(OutputMode.EveryN, 2)\n"
                                 "connectionType(sluice::ConnectionType::Never)\n"
                                 "enableSyntheticData(True)\n"
                                 "modelName('# no comment')\n"
                                 "stallTimeout(2.5e1)\n"
                                 "randomSeed(none)\n"
                                 "recomputation(Recomputation.None)\n"
                                 "anchorTensor(\"h\", \"fc/relu\")\n"
                                 "distributed.configureProcessId(1, 2)\n"
                                 "setExecutionStrategy(poptorch.ShardedExecution(poptorch.Stage("
                                 "\"A\").device(1), \"B\"))");
  Options expected = Options::defaults();
  expected.deviceIterations(4)
      .outputMode(OutputMode::EveryN, 2)
      .connectionType(ConnectionType::Never)
      .enableSyntheticData(true)
      .modelName("# no comment")
      .stallTimeout(25)
      .recomputation(Recomputation::None)
      .anchorTensor("h", "fc/relu")
      .setExecutionStrategy(ShardedExecution{Stage("A").device(1), "B"});
  expected.training.gradientAccumulation(5);
  expected.distributed.configureProcessId(1, 2);
  EXPECT_EQ(Options::defaults().loadFromFile(path).str(), expected.str());
}

TEST_F(OptionsFile, OverridesOnlyWhatItSets) {
  Options options = Options::defaults();
  options.loadFromFile(write("first.conf", "threads(2)\ndeviceIterations(3)\n"));
  options.loadFromFile(write("second.conf", "deviceIterations(5)"));
  options.loadFromFile(write("empty.conf", ""));
  EXPECT_EQ(options.threads(), 2);
  EXPECT_EQ(options.deviceIterations(), 5);
}

TEST_F(OptionsFile, WithAnErrorNamesFileLineAndTextAndChangesNothing) {
  const std::string path =
      write("broken.conf", "deviceIterations(3)\n\n# comment\nthreads(2)\n  threads(2  # open\n");
  Options options = Options::defaults().threads(3).deviceIterations(7);
  const std::string before = options.str();
  EXPECT_THAT(messageOf<ConfigFileError>([&] { options.loadFromFile(path); }),
              AllOf(HasSubstr(path), HasSubstr("line 5"), HasSubstr("'threads(2  # open'")));
  EXPECT_EQ(options.str(), before);
}

TEST_F(OptionsFile, ThatCannotBeReadIsAConfigFileError) {
  Options options;
  EXPECT_THAT(messageOf<ConfigFileError>([&] { options.loadFromFile("no/such.conf"); }),
              HasSubstr("no/such.conf"));
  EXPECT_THAT(messageOf<ConfigFileError>([&] { options.loadFromFile(folder_.path().string()); }),
              HasSubstr("cannot read"));
}

TEST_F(OptionsFile, RefusesWhatIsNoSetterCall) {
  EXPECT_THAT(messageFor("threads = 2"), HasSubstr("expected '('"));
  EXPECT_THAT(messageFor("options.threads(2)"), HasSubstr("unknown option 'options.threads'"));
  EXPECT_THAT(messageFor("threads(2) fusion(true)"), HasSubstr("the end of the line"));
  EXPECT_THAT(messageFor("threads(2).fusion(true)"), HasSubstr("the end of the line"));
  EXPECT_THAT(messageFor("threads(2 3)"), HasSubstr("',' or ')'"));
  EXPECT_THAT(messageFor("threads()"), HasSubstr("got 0 arguments"));
  EXPECT_THAT(messageFor("threads(99999999999999999999)"), HasSubstr("whole number"));
  EXPECT_THAT(messageFor("threads(@)"), HasSubstr("expected a value"));
  EXPECT_THAT(messageFor("4(2)"), HasSubstr("a name"));
  EXPECT_THAT(messageFor("modelName(\"open)"), HasSubstr("closing quote"));
  EXPECT_THAT(messageFor("threads(" + std::string(100, '[')), HasSubstr("nested"));
  EXPECT_THAT(messageFor("virtualGraphSplitRatios([\"a\"])"), HasSubstr("a number, got \"a\""));
  EXPECT_THAT(messageFor("randomSeed(-1)"), HasSubstr("from 0 on, got -1"));
  EXPECT_THAT(messageFor("memoryPerDevice(true)"), HasSubstr("64KiB"));
  EXPECT_THAT(messageFor("stallTimeout(\"1\")"), HasSubstr("a number, got \"1\""));
}

TEST_F(OptionsFile, RefusesStrategiesThatCannotBe) {
  const auto strategy = [&](const std::string& text) {
    return messageFor("setExecutionStrategy(" + text + ")");
  };
  EXPECT_THAT(strategy("4"), HasSubstr("a strategy such as"));
  EXPECT_THAT(strategy("\"4\""), HasSubstr("a strategy such as"));
  EXPECT_THAT(strategy("SomeExecution()"), HasSubstr("PipelinedExecution(...)"));
  EXPECT_THAT(strategy("SerialPhasedExecution()"), HasSubstr("no phases"));
  EXPECT_THAT(strategy("SerialPhasedExecution(AutoStage.AutoIncrement)"),
              HasSubstr("phases are explicit"));
  EXPECT_THAT(strategy("SerialPhasedExecution(Phase(\"A\").devices(0, 1))"),
              HasSubstr("2 devices for 1 stages"));
  EXPECT_THAT(strategy("SerialPhasedExecution(Phase(\"A\").on(0))"), HasSubstr("no 'on'"));
  EXPECT_THAT(strategy("ParallelPhasedExecution(\"A\").speed(0)"), HasSubstr("no 'speed'"));
  EXPECT_THAT(strategy("SerialPhasedExecution(\"A\", Phase.automatic(2))"),
              HasSubstr("stands for all phases"));
  EXPECT_THAT(strategy("PipelinedExecution(Phase(\"A\"))"),
              HasSubstr("phases belong to the phased strategies"));
  EXPECT_THAT(strategy("ShardedExecution(\"A\", Phase(\"B\"))"),
              HasSubstr("phases belong to the phased strategies"));
  EXPECT_THAT(strategy("PipelinedExecution(AutoStage.Other)"), HasSubstr("one AutoStage"));
  EXPECT_THAT(strategy("PipelinedExecution(\"A\").speed(9)"), HasSubstr("no 'speed'"));
  EXPECT_THAT(strategy("PipelinedExecution(\"A\").schedule(\"x\")"), HasSubstr("'x'"));
  EXPECT_THAT(strategy("ShardedExecution(Stage(\"A\").tile(1))"), HasSubstr("no 'tile'"));
  EXPECT_THAT(strategy("ShardedExecution(\"A\", \"A\")"), HasSubstr("two stages"));
}

TEST_F(OptionsFile, ReadsPhasedStrategies) {
  const auto read = [](std::string_view text) {
    Options options = Options::defaults();
    options.set("setExecutionStrategy", text);
    return options.executionStrategy();
  };
  EXPECT_EQ(read(R"(SerialPhasedExecution("A", Phase("B", "C")).order(PhaseOrder.PhaseMajor))"),
            SerialPhasedExecution("A", Phase("B", "C")).order(PhaseOrder::PhaseMajor));
  EXPECT_EQ(read(R"(ParallelPhasedExecution("A", "B").io(IoSchedule.OnDemand))"),
            ParallelPhasedExecution("A", "B").io(IoSchedule::OnDemand));
  for (const PhaseSchedule schedule :
       {PhaseSchedule::Interleaving, PhaseSchedule::Batch, PhaseSchedule::BatchClusteredIO}) {
    const Strategy made = SerialPhasedExecution("A", "B").schedule(schedule);
    EXPECT_EQ(made.phaseSchedule(), schedule);
    EXPECT_EQ(read(made.str()), made);
  }
  EXPECT_THAT(messageOf<InvalidArgument>(
                  [&] { read(R"(SerialPhasedExecution("A").schedule(PhaseSchedule.Best))"); }),
              HasSubstr("BatchClusteredIO"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { read(R"(SerialPhasedExecution("A").turns("a"))"); }),
              AllOf(HasSubstr("no 'turns'"), HasSubstr(".schedule(...)")));
  EXPECT_EQ(read(R"(SerialPhasedExecution(Phase.automatic(3)).useSeparateBackwardPhase(true))"),
            SerialPhasedExecution(Phase::automatic(3)).useSeparateBackwardPhase(true));
  const Strategy parallel =
      ParallelPhasedExecution(Phase(Stage("A"), Stage("B")).devices(0, 2), Phase("C"))
          .setTensorsLiveness(Liveness::OffChipAfterFwd);
  EXPECT_EQ(read(R"(ParallelPhasedExecution(Phase(Stage("A"), Stage("B")).devices(0, 2), "C"))"
                 ".setTensorsLiveness(Liveness.OffChipAfterFwd)"),
            parallel);
  EXPECT_EQ(read(parallel.str()), parallel);
}

}  // namespace
}  // namespace sluice
