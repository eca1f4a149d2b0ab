#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

template <class E, class F>
std::string messageOf(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "another error or none";
}

TEST(Options, PrintTheirDefaults) {
  EXPECT_EQ(Options().str(),
            "deviceIterations: 1\n"
            "outputMode: Default\n"
            "outputPeriod: 1\n"
            "randomSeed: not set\n"
            "threads: 1\n"
            "memoryPerDevice: not limited\n"
            "fusion: true\n"
            "verifyPrograms: true\n"
            "tuningTable: shipped\n"
            "dumpDirectory: none\n"
            "training.gradientAccumulation: 1\n"
            "training.accumulationReduction: Mean\n");
}

TEST(Options, PrintWhatWasSet) {
  Options options;
  options.deviceIterations(4)
      .outputMode(OutputMode::EveryN, 2)
      .randomSeed(7)
      .threads(3)
      .memoryPerDevice("1KiB")
      .fusion(false)
      .verifyPrograms(false)
      .tuningTable("t.txt")
      .dumpDirectory("d");
  options.training.gradientAccumulation(5).accumulationReduction(Reduction::Sum);
  EXPECT_EQ(options.str(),
            "deviceIterations: 4\n"
            "outputMode: EveryN\n"
            "outputPeriod: 2\n"
            "randomSeed: 7\n"
            "threads: 3\n"
            "memoryPerDevice: 1024\n"
            "fusion: false\n"
            "verifyPrograms: false\n"
            "tuningTable: t.txt\n"
            "dumpDirectory: d\n"
            "training.gradientAccumulation: 5\n"
            "training.accumulationReduction: Sum\n");
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
  auto model = inferenceModel(net, Options());
  const HostTensor x(DType::F32, Shape{1, 2});
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model(x); }), HasSubstr("no active block"));
  net.cover = true;
  EXPECT_EQ(model(x).shape(), (Shape{1, 2}));
  nn::BeginBlock(net.b, "B2");
  const HostTensor wider(DType::F32, Shape{2, 2});
  EXPECT_THAT(messageOf<InvalidArgument>([&] { model(wider); }), HasSubstr("never applies"));
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

class TuningFile : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  void write(std::string_view text) { std::ofstream(path_) << text; }
  Options options() const { return Options().tuningTable(path_); }

  std::string path_ = ::testing::TempDir() + "sluice_tuning_" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt";
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

}  // namespace
}  // namespace sluice
