// Options about reports, names and hints: what they change, and that they change no result.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using sluice::testing::messageOf;
using sluice::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct ReportedNet : nn::Module {
  nn::LayerNorm norm{*this, "norm", {4}};
  nn::Tensor forward(nn::Tensor x) { return norm(x); }
};

TEST(CycleCount, IsOfTheNewestCallOnceItIsAskedFor) {
  const auto x = HostTensor::of<float>(Shape{1, 4}, {1, 2, 3, 4});
  ReportedNet silent;
  auto without = inferenceModel(silent, Options());
  without(x);
  EXPECT_THAT(messageOf([&] { without.cycleCount(); }),
              AllOf(HasSubstr("logCycleCount(true)"), HasSubstr("its options do not")));
  ReportedNet net;
  auto model = inferenceModel(net, Options().logCycleCount(true));
  EXPECT_THAT(messageOf([&] { model.cycleCount(); }), HasSubstr("not called yet"));
  model(x);
  EXPECT_GT(model.cycleCount(), 0);
  const TempFolder folder;
  ReportedNet both;
  auto profiled =
      inferenceModel(both, Options().logCycleCount(true).enableProfiling(folder.path().string()));
  profiled.runAsync({x}).get();
  // The step begins with the first input's request and ends after the last output is there.
  EXPECT_GE(static_cast<double>(profiled.cycleCount()) * 1e-9, profiled.getLatency().max * 0.999);
}

TEST(LogDir, IsWhereRelativeFoldersOfReportsAre) {
  const TempFolder parent;
  const fs::path folder = parent / "logdir";
  ReportedNet net;
  auto model = inferenceModel(
      net, Options().logDir(folder.string()).enableProfiling("profile").dumpDirectory("dump"));
  model(HostTensor(DType::F32, Shape{1, 4}));
  EXPECT_TRUE(fs::exists(folder / "profile" / "inference" / "trace.json"));
  EXPECT_TRUE(fs::exists(folder / "dump" / "program.txt"));
  // Absolute ones stay what they are.
  const fs::path other = parent / "absolute";
  ReportedNet twin;
  auto elsewhere = inferenceModel(
      twin, Options().logDir(folder.string()).enableProfiling(other.string()).modelName("tower"));
  elsewhere(HostTensor(DType::F32, Shape{1, 4}));
  EXPECT_TRUE(fs::exists(other / "tower" / "trace.json"));
}

TEST(StableNorm, IsTheOnlyWay) {
  // Squares of numbers near 1e5 have no digits left for a variance of 1.25.
  const auto x = HostTensor::of<float>(Shape{1, 4}, {100000, 100001, 100002, 100003});
  std::vector<std::uint64_t> hashes;
  for (const bool stable : {false, true}) {
    ReportedNet net;
    auto model = inferenceModel(net, Options().enableStableNorm(stable));
    const HostTensor y = model(x);
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(y.at(i), (i - 1.5) / std::sqrt(1.25 + 1e-5), 1e-5);
    }
    hashes.push_back(y.hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

/// x + offset, which is a buffer.
struct Shifted : nn::Module {
  nn::Parameter& offset = addBuffer("offset", {DType::F32, Shape{2}}, ir::Initializer::constant(1));
  nn::Tensor forward(nn::Tensor x) { return x + offset; }
};

TEST(UpdatableBuffers, TakeEffectInTheNextCallOfEveryReplica) {
  Shifted net;
  auto model =
      inferenceModel(net, Options().replicationFactor(2).updatableNamedBuffers({"offset"}));
  const auto x = HostTensor::of<float>(Shape{2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(model(x).hash(), HostTensor::of<float>(Shape{2, 2}, {2, 3, 4, 5}).hash());
  net.offset.setValue(HostTensor::of<float>(Shape{2}, {10, 20}));
  model.copyNamedBuffersToDevice();
  EXPECT_EQ(model(x).hash(), HostTensor::of<float>(Shape{2, 2}, {11, 22, 13, 24}).hash());
  EXPECT_EQ(model.compiled().program->program().name, "inference");
}

TEST(UpdatableBuffers, MustBeNamedAndBeThere) {
  Shifted net;
  EXPECT_THAT(messageOf([&] {
                inferenceModel(net, Options().updatableNamedBuffers({"offset", "slope"}));
              }),
              AllOf(HasSubstr("no buffer 'slope'"), HasSubstr("[offset]")));
  auto model = inferenceModel(net, Options());
  EXPECT_THAT(messageOf([&] { model.copyNamedBuffersToDevice(); }),
              HasSubstr("updatableNamedBuffers"));
}

TEST(ConvolutionDithering, IsAHintThatChangesNoResult) {
  struct Conv : nn::Module {
    nn::Conv2d conv{*this, "conv", 1, 2, 3};
    nn::Tensor forward(nn::Tensor x) { return nn::mean(conv(x) * conv(x)); }
  };
  std::vector<std::uint64_t> hashes;
  for (const bool on : {false, true}) {
    Conv net;
    Options options;
    options.training.setConvolutionDithering(on);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    model(HostTensor::full({DType::F32, Shape{2, 1, 5, 5}}, 0.5));
    hashes.push_back(net.conv.weight.value().hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST(PartialsType, IsAHintThatChangesNoResult) {
  struct Product : nn::Module {
    nn::Tensor forward(nn::Tensor x) { return nn::matmul(x, x); }
  };
  std::vector<std::uint64_t> hashes;
  for (const DType type : {DType::F32, DType::F16}) {
    Product net;
    Options options;
    options.precision.setPartialsType(type);
    auto model = inferenceModel(net, options);
    hashes.push_back(model(HostTensor::full({DType::F16, Shape{9, 9}}, 0.3)).hash());
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace sluice
