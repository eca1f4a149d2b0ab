#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/compile/compile.h"
#include "sluice/sluice.h"
#include "tests/support/address_space.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Metrics, AccuracyIsThePercentageOfRightRows) {
  // The largest entries of the rows are 0, 1, 0, 2.
  const auto predictions =
      HostTensor::of<float>(Shape{4, 3}, {3, 1, 2, 0, 5, 1, 9, 0, 8, -3, -2, -1});
  const auto labels = HostTensor::of<std::int64_t>(Shape{4}, {0, 1, 2, 2});
  EXPECT_EQ(accuracy(predictions, labels), 75.0);
  // Fewer predictions than labels belong to the last ones.
  EXPECT_EQ(accuracy(predictions.rows(2, 2), labels), 50.0);
  EXPECT_EQ(accuracy(HostTensor(DType::F32, Shape{0, 3}), labels), 0.0);
}

TEST(Metrics, RefuseShapesThatDoNotFit) {
  const HostTensor labels(DType::I64, Shape{4});
  for (const Shape& shape : {Shape{5, 3}, Shape{4}, Shape{4, 0}, Shape{4, 3, 1}}) {
    EXPECT_THAT(
        messageOf<InvalidArgument>([&] { accuracy(HostTensor(DType::F32, shape), labels); }),
        HasSubstr("accuracy wants predictions"))
        << shape.str();
  }
  EXPECT_THROW(accuracy(HostTensor(DType::F32, Shape{4, 3}), HostTensor(DType::I64, Shape{4, 1})),
               InvalidArgument);
}

TEST(Metrics, MeanOfNothingIsZero) {
  EXPECT_EQ(meanOf(HostTensor::of<std::int32_t>(Shape{4}, {1, 2, 3, 4})), 2.5);
  EXPECT_EQ(meanOf(HostTensor(DType::F32, Shape{0})), 0.0);
}

struct Double : nn::Module {
  nn::Tensor forward(nn::Tensor x) { return x * 2.0; }
};

TEST(Models, OfOneModuleMustAgreeOnTheirDevices) {
  Double net;
  const auto first = inferenceModel(net, Options().threads(2).memoryPerDevice("1MiB"));
  const auto make = [&](const Options& options) {
    return messageOf<InvalidArgument>([&] { inferenceModel(net, options); });
  };
  const std::string message = make(Options().memoryPerDevice("1MiB"));
  EXPECT_THAT(message, HasSubstr("2 threads and 1048576 bytes"));
  EXPECT_THAT(message, HasSubstr("asks for 1 threads"));
  EXPECT_THAT(make(Options().threads(2)), HasSubstr("0 bytes"));
  const Options same = Options().threads(2).memoryPerDevice("1MiB");
  EXPECT_THAT(make(Options(same).randomSeed(5)), HasSubstr("randomSeed 0"));
  EXPECT_THAT(make(Options(same).tuningTable("none.txt")), HasSubstr("tuningTable"));
  EXPECT_NO_THROW(inferenceModel(net, Options(same).deviceIterations(7).fusion(false)));
}

TEST(Models, RefuseOpsOutsideBlocksAndMarkedLayersThatAreNotApplied) {
  struct Net : nn::Module {
    nn::Linear a{*this, "a", 2, 2};
    nn::Linear b{*this, "b", 2, 2};
    bool cover = false;
    nn::Tensor forward(nn::Tensor x) {
      if (cover) {
        const nn::Block block("B1");
        return a(x);
      }
      nn::Tensor y;
      {
        const nn::Block block("B1");
        y = a(x);
      }
      return nn::relu(y);
    }
  };
  Net net;
  const HostTensor x(DType::F32, Shape{1, 2});
  {
    Options ipu;
    ipu.enforceIpuRules(true);
    auto strict = inferenceModel(net, ipu);
    EXPECT_THAT(messageOf<InvalidArgument>([&] { strict(x); }), HasSubstr("no active block"));
  }
  auto model = inferenceModel(net, Options());
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(model(x).shape(), (Shape{1, 2}));
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, HasSubstr("join the block before them: relu"));
  net.cover = true;
  EXPECT_EQ(model(x).shape(), (Shape{1, 2}));
  nn::BeginBlock(net.b, "B2");
  const HostTensor wider(DType::F32, Shape{2, 2});
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model(wider); }), HasSubstr("never applies"));
}

TEST(Models, FreezeTheirOptionsOnceTheyAreMade) {
  Double net;
  Options options;
  options.outputMode(OutputMode::EveryN, 3);
  EXPECT_THROW(inferenceModel(net, options), InvalidArgument);
  EXPECT_FALSE(options.isFrozen());
  options.outputMode(OutputMode::All);
  const auto model = inferenceModel(net, options);
  EXPECT_THAT(messageOf<InvalidArgument>([&] { options.threads(2); }),
              HasSubstr("can't modify frozen options"));
  EXPECT_TRUE(model.options().isFrozen());
  Options next = options.clone();
  EXPECT_EQ(next.threads(2).threads(), 2);
  const Options forSession;
  const Session session(forSession, 0);
  EXPECT_TRUE(forSession.isFrozen());
}

TEST(Models, RefuseOptionsThatNothingReads) {
  Double net;
  Options options;
  options.rearrangeAnchorsOnHost(true);
  EXPECT_THAT(messageOf<Unsupported>([&] { inferenceModel(net, options); }),
              HasSubstr("rearrangeAnchorsOnHost"));
}

TEST(Models, OfSeveralProcessesNeedThem) {
  Double net;
  Options options;
  options.distributed.configureProcessId(1, 2);
  EXPECT_THAT(messageOf([&] { inferenceModel(net, options); }),
              HasSubstr("start the program with `sluice launch -n 2 program` or `mpirun"));
}

TEST(Models, TakeTheirNameAndTheNamesOfOpsFromTheOptions) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
    nn::Tensor forward(nn::Tensor x) { return nn::relu(fc(x)); }
  };
  const auto dumps = [](bool disabled) {
    const testing::TempFolder folder;
    Net net;
    auto model = inferenceModel(net,
                                Options()
                                    .modelName("tower")
                                    .dumpDirectory(folder.path().string())
                                    .disableModuleNamescope(disabled));
    model(HostTensor(DType::F32, Shape{1, 2}));
    EXPECT_EQ(model.program().name, "tower");
    std::ostringstream all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      all << std::ifstream(entry.path()).rdbuf();
    }
    return all.str();
  };
  EXPECT_THAT(dumps(false), HasSubstr("\"fc/"));
  EXPECT_THAT(dumps(true), ::testing::AllOf(HasSubstr("relu"), Not(HasSubstr("\"fc/"))));
}

TEST(Models, ExplainTheirBatches) {
  Double net;
  auto model = inferenceModel(net, Options().deviceIterations(5));
  EXPECT_EQ(model.batchLayout().inputFactor(), 5);
  model(HostTensor(DType::F32, Shape{15}));
  EXPECT_THAT(model.batchLayout().explain(), HasSubstr("A call takes 15 rows: micro-batch 3"));
}

TEST(Models, SayWhatTheyAreOnceCompiled) {
  Double net;
  auto model = inferenceModel(net, Options());
  EXPECT_FALSE(model.isCompiled());
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model.program(); }), HasSubstr("not compiled"));
  model.compile(std::vector{HostTensor(DType::F32, Shape{3})});
  EXPECT_TRUE(model.isCompiled());
  EXPECT_THAT(model.summary(), HasSubstr("inference program for (f32[3]): 1 kernels"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model.setOptimizer(optim::SGD(0.1)); }),
              HasSubstr("no optimizer"));
}

TEST(Models, WhoseThreadsCannotBeStartedAreADeviceError) {
  if (!testing::kCanLimitAddressSpace) {
    GTEST_SKIP() << "the sanitizer needs address space";
  }
  EXPECT_EXIT(
      {
        testing::limitAddressSpace(std::size_t{64} << 20U);
        testing::exitByError<DeviceError>([] {
          Double net;
          auto model = inferenceModel(net, Options().threads(1000));
          model(HostTensor(DType::F32, Shape{3}));
        });
      },
      ::testing::ExitedWithCode(0),
      "");
}

class TuningFile : public ::testing::Test {
 protected:
  void write(std::string_view text) { std::ofstream(path_) << text; }
  Options options() const { return Options().tuningTable(path_); }

  testing::TempFolder folder_;
  std::string path_ = (folder_ / "tuning.txt").string();
};

TEST_F(TuningFile, ThatIsMissingIsAConfigFileError) {
  Double net;
  EXPECT_THAT(messageOf<ConfigFileError>([&] { inferenceModel(net, options()); }),
              HasSubstr("cannot read the tuning table '" + path_));
  EXPECT_EQ(net.store(), nullptr);
  EXPECT_NO_THROW(inferenceModel(net, Options()));
}

TEST_F(TuningFile, WithABrokenLineNamesFileAndLine) {
  write("# comment\nmatmul/f32/1x2x3x4/nn cols 1\nbroken\n");
  Double net;
  const std::string message = messageOf<ConfigFileError>([&] { inferenceModel(net, options()); });
  EXPECT_THAT(message, HasSubstr(path_));
  EXPECT_THAT(message, HasSubstr("3"));
  EXPECT_THAT(message, HasSubstr("broken"));
}

TEST_F(TuningFile, WithoutALineOrOfAnotherKindIsAConfigFileError) {
  Double net;
  for (const char* text : {"", "\n\n", " \r\n"}) {
    write(text);
    EXPECT_THAT(messageOf<ConfigFileError>([&] { inferenceModel(net, options()); }),
                AllOf(HasSubstr(path_), HasSubstr("no line 'key value'")));
  }
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(messageOf<ConfigFileError>([&] { inferenceModel(net, options()); }),
              HasSubstr("it is a FIFO"));
  std::filesystem::remove(path_);
  write("# nothing is quicker\n");  // as `sluice tune` says it
  EXPECT_NO_THROW(inferenceModel(net, options()));
}

struct Product : nn::Module {
  nn::Tensor forward(nn::Tensor x) { return nn::matmul(x, x); }
};

TEST_F(TuningFile, WithAnImpossibleEntryFailsTheCompileThatNeedsIt) {
  write("matmul/f32/1x4x4x4/nn diagonally 3\n");
  Product net;
  auto model = inferenceModel(net, options());
  EXPECT_THAT(messageOf<ConfigFileError>([&] {
                model(HostTensor(DType::F32, Shape{4, 4}));
              }),
              HasSubstr("diagonally"));
  EXPECT_EQ(model(HostTensor::full({DType::F32, Shape{2, 2}}, 1)).at(0), 2.0);
}

struct Scale : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  nn::Tensor forward(nn::Tensor x) { return nn::mean(fc(x)); }
};

TEST(Proofs, AreMadeForProgramsOfModerateSizeOrOnRequest) {
  const auto explained = [](std::int64_t accumulation, std::optional<bool> verify) {
    Scale net;
    Options options;
    options.training.gradientAccumulation(accumulation);
    options.verifyPrograms(verify);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    const std::vector<HostTensor> inputs = {HostTensor(DType::F32, Shape{accumulation, 1})};
    model.compile(inputs);
    return model.explain();
  };
  const auto many = static_cast<std::int64_t>(compiler::kProvenTasks);  // each has at least a task
  EXPECT_THAT(explained(4, std::nullopt), HasSubstr("The program is proven"));
  EXPECT_THAT(explained(4, false), HasSubstr("The program is not proven"));
  EXPECT_THAT(explained(many, std::nullopt), HasSubstr("The program is not proven"));
  EXPECT_THAT(explained(many, true), HasSubstr("The program is proven"));
}

}  // namespace
}  // namespace sluice
