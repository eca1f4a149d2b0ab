// Traces with values: runs under different strategies wrote the same bits, and a change of one
// rounding in one op is found by name.
#include <atomic>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/profile/compare_values.h"
#include "sluice/profile/trace_file.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using profile::compareValues;
using ::testing::HasSubstr;
using testing::ResidualMlp;
using testing::TempFolder;

profile::Trace trainedTrace(const Strategy& strategy, TraceValues kept, const char* device) {
  const TempFolder folder;
  Options options = Options::defaults();
  options.deviceIterations(2)
      .device(device)
      .setExecutionStrategy(strategy)
      .showCompilationProgressBar(false)
      .enableProfiling(folder.path().string())
      .traceValues(kept);
  options.training.gradientAccumulation(4);
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  const std::int64_t count = model.microBatchesPerStep();
  model.run(testing::makeInputs(ResidualMlp::inputs(), 0, count));
  return profile::readTrace(folder / "training" / "run.slt");
}

const Strategy kWhole = ShardedExecution(std::vector<Stage>{Stage("b0", "b1", "b2", "b3", "b4")});
const Strategy kPipelined = PipelinedExecution{
    Stage("b0", "b1").device(0), Stage("b2").device(1), Stage("b3", "b4").device(2)};

TEST(TracedValues, AreTheSameUnderEveryStrategy) {
  const profile::Trace whole = trainedTrace(kWhole, TraceValues::Hashes, "cpu");
  for (const char* device : {"cpu", "far"}) {
    const profile::Trace cut = trainedTrace(kPipelined, TraceValues::Hashes, device);
    const profile::ValueComparison found = compareValues(whole, cut);
    EXPECT_EQ(found.different, 0) << profile::comparisonText(found, "whole", "cut");
    EXPECT_GT(found.compared, 100);
    EXPECT_EQ(found.onlyFirst, 0);   // every kernel of one run is one of the other
    EXPECT_GT(found.onlySecond, 0);  // which also copies
  }
}

/// Layers without names, as files from torch have them.
struct Nameless : nn::Module {
  nn::Linear a{*this, "a", 6, 6};
  nn::Linear b{*this, "b", 6, 6};
  nn::Linear c{*this, "c", 6, 6};
  nn::Linear d{*this, "d", 6, 6};

  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (const nn::Linear* layer : {&a, &b, &c, &d}) {
      x = nn::mul(nn::relu(nn::add(nn::matmul(x, layer->weight), *layer->bias)), x);
    }
    return nn::mseLoss(x, y);
  }
};

profile::Trace namelessTrace(const Strategy& strategy, bool fusion) {
  const TempFolder folder;
  Options options = Options::defaults();
  options.device("cpu")
      .setExecutionStrategy(strategy)
      .showCompilationProgressBar(false)
      .fusion(fusion)
      .enableProfiling(folder.path().string())
      .traceValues(TraceValues::Hashes);
  options.training.gradientAccumulation(4);
  Nameless net;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  const TensorType type{DType::F32, Shape{4, 6}};
  model.run(testing::makeInputs({type, type}, 0, 4));
  return profile::readTrace(folder / "training" / "run.slt");
}

TEST(TracedValues, OfOpsWithOneNameAreTheSameUnderEveryCut) {
  std::vector<profile::Trace> all = {namelessTrace(ShardedExecution::automatic(1), false)};
  for (const bool fusion : {false, true}) {
    for (const int devices : {2, 3, 4}) {
      all.push_back(namelessTrace(PipelinedExecution::automatic(devices), fusion));
      const profile::Trace& cut = all.back();
      for (const profile::Trace& other : all) {  // they copy other values
        const profile::ValueComparison found = compareValues(other, cut);
        EXPECT_EQ(found.different, 0) << profile::comparisonText(found, "another", "the cut");
        EXPECT_GT(found.compared, 100);
      }
      const profile::ValueComparison whole = compareValues(all.front(), cut);
      EXPECT_EQ(whole.onlyFirst > 0, fusion);  // what fused ops keep to themselves
      EXPECT_GT(whole.onlySecond, 0);          // copies
    }
  }
}

/// A network with a function of the host in its middle, which may change one element by one bit.
struct Tweaked : nn::Module {
  explicit Tweaked(std::int64_t call) : wrong(call) {}

  nn::Linear first{*this, "first", 6, 16};
  nn::Linear last{*this, "last", 16, 3};
  std::int64_t wrong;
  std::atomic<std::int64_t> calls{0};
  nn::CPU round{[this](std::span<const HostTensor> in) {
                  HostTensor out = in[0].clone();
                  if (calls++ == wrong) {
                    const auto value = static_cast<float>(out.at(5));
                    out.set(5, std::nextafter(value, 10.0F));
                  }
                  return std::vector{out};
                },
                "rounding"};

  nn::Tensor forward(nn::Tensor x) {
    x = nn::tanh(first(x));
    x = round({x}, {x.type()})[0];
    return last(x);
  }
};

profile::Trace tweakedTrace(std::int64_t wrongCall, TraceValues kept) {
  const TempFolder folder;
  Tweaked net(wrongCall);
  auto model = inferenceModel(net,
                              Options::defaults()
                                  .deviceIterations(4)
                                  .showCompilationProgressBar(false)
                                  .device("cpu")
                                  .enableProfiling(folder.path().string())
                                  .traceValues(kept));
  model.run(testing::makeInputs({{DType::F32, Shape{8, 6}}}, 0, 4));
  return profile::readTrace(folder / "inference" / "run.slt");
}

TEST(TracedValues, FindAChangedRoundingByName) {
  for (const TraceValues kept : {TraceValues::Hashes, TraceValues::All}) {
    const profile::Trace right = tweakedTrace(-1, kept);
    EXPECT_EQ(compareValues(right, tweakedTrace(-1, kept)).different, 0);
    const profile::ValueComparison found = compareValues(right, tweakedTrace(2, kept));
    ASSERT_TRUE(found.first);
    EXPECT_EQ(found.first->op, "host_call");
    EXPECT_EQ(found.first->name, "host_call");  // the only one
    EXPECT_EQ(found.first->microBatch, 2);
    EXPECT_EQ(found.different, 2);  // it, and what is made of it
    if (kept == TraceValues::All) {
      EXPECT_EQ(found.first->differing, 1);
      EXPECT_EQ(found.first->worst.at(0).index, 5);
      EXPECT_EQ(compareValues(right, tweakedTrace(2, kept), {.absolute = 1e-5}).different, 0);
    }
  }
}

TEST(TracedValues, NeedATrace) {
  ResidualMlp net;
  EXPECT_THAT(testing::messageOf([&] {
                inferenceModel(net, Options::defaults().traceValues(TraceValues::Hashes));
              }),
              HasSubstr("enableProfiling"));
}

}  // namespace
}  // namespace sluice
