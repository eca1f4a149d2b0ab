// A GPT of twelve layers trains in a quarter of the memory that it needs on one device.
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "tests/e2e/deep_gpt.h"
#include "tests/e2e/networks.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::DeepGpt;

constexpr std::int64_t kDepth = 12;
constexpr std::int64_t kGptAccumulation = 4;

struct Outcome {
  Bits bits;
  std::size_t bytes = 0;  ///< of the device that needs most
};

Outcome train(const Options& given) {
  DeepGpt net(kDepth, 256, 2, 64);
  Options options = given;
  options.training.gradientAccumulation(kGptAccumulation);
  auto model = trainingModel(net, options, optim::AdamW(1e-3));
  const std::int64_t count = kGptAccumulation * options.replicationFactor();
  for (int update = 0; update < 2; ++update) {
    model.run(testing::makeInputs(net.inputs(), update * count, count));
  }
  Outcome outcome{testing::bitsOf(model.session())};
  std::erase_if(outcome.bits,
                [](const auto& entry) { return entry.first.ends_with(".accumulator"); });
  for (const program::DevicePlan& device : model.program().devices) {
    outcome.bytes = std::max(outcome.bytes, device.totalBytes());
  }
  return outcome;
}

Options onOneDevice() {
  std::vector<std::string> blocks;
  for (std::int64_t i = 0; i < kDepth; ++i) {
    blocks.push_back("layer" + std::to_string(i));
  }
  blocks.emplace_back("head");
  Options options;
  options.setExecutionStrategy(ShardedExecution(std::vector<Stage>{Stage(blocks)}));
  return options;
}

TEST(PhasedGpt, TrainsInAQuarterOfTheMemoryToTheSameBits) {
  const Outcome whole = train(onOneDevice());
  const testing::TempFolder folder;
  const std::string path = (folder / "remote").string();
  for (const Strategy& strategy : {Strategy(SerialPhasedExecution(DeepGpt::phases(kDepth))),
                                   Strategy(ParallelPhasedExecution(DeepGpt::phases(kDepth)))}) {
    for (const bool file : {false, true}) {
      Options options;
      options.setExecutionStrategy(strategy).memoryPerDevice(whole.bytes / 4);
      options.remoteMemory(file ? path : "");
      const Outcome phased = train(options);
      EXPECT_EQ(phased.bits, whole.bits) << strategy.str();
      EXPECT_LE(phased.bytes, whole.bytes / 4);
    }
  }
}

TEST(PhasedGpt, TrainsInAQuarterOfTheMemoryWithReplicas) {
  Options plain = onOneDevice();
  plain.replicationFactor(2);
  const Outcome whole = train(plain);
  for (const Strategy& strategy : {Strategy(SerialPhasedExecution(DeepGpt::phases(kDepth))),
                                   Strategy(ParallelPhasedExecution(DeepGpt::phases(kDepth)))}) {
    Options options;
    options.setExecutionStrategy(strategy).memoryPerDevice(whole.bytes / 4).replicationFactor(2);
    EXPECT_EQ(train(options).bits, whole.bits) << strategy.str();
  }
}

}  // namespace
}  // namespace sluice
