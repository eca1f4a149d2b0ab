// Training gives the same bits however it is run: rules R1 to R7.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/ir/parser.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/op_list.h"
#include "sluice/program/program.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using testing::Bits;
using testing::difference;
using testing::TrainingCase;

constexpr std::int64_t kRepeatedUpdates = 5;

class Determinism : public ::testing::TestWithParam<TrainingCase> {
 protected:
  static Bits base(std::int64_t updates = kRepeatedUpdates) {
    return GetParam().train(Options(), updates);
  }
  static Bits with(const Options& options, std::int64_t updates = kRepeatedUpdates) {
    return GetParam().train(options, updates);
  }
};

TEST_P(Determinism, RunsTwiceWithTheSameBitsAndChangesEveryWeight) {
  const Bits once = base();
  EXPECT_EQ(difference(once, base()), "");
  const Bits fewer = base(kRepeatedUpdates - 1);
  for (const auto& [name, hash] : once) {
    if (name.ends_with("weight") || name.ends_with(".exp_avg")) {
      EXPECT_NE(hash, fewer.at(name)) << name;
    }
  }
}

TEST_P(Determinism, FusionChangesNoBit) {
  EXPECT_EQ(difference(base(), with(Options().fusion(false))), "");
}

TEST_P(Determinism, ThreadsChangeNoBit) {
  const Bits one = base();
  EXPECT_EQ(difference(one, with(Options().threads(2))), "");
  EXPECT_EQ(difference(one, with(Options().threads(3))), "");
  EXPECT_EQ(difference(one, with(Options().threads(3).fusion(false))), "");
}

TEST_P(Determinism, DeviceIterationsChangeNoBit) {
  EXPECT_EQ(difference(base(4), with(Options().deviceIterations(4), 4)), "");
  EXPECT_EQ(difference(base(4), with(Options().deviceIterations(2).threads(2), 4)), "");
}

TEST_P(Determinism, VerifyingTheProgramChangesNoBit) {
  EXPECT_EQ(difference(base(), with(Options().verifyPrograms(false))), "");
}

TEST_P(Determinism, GradientAccumulationIsTheSameInEveryForm) {
  Options options;
  options.training.gradientAccumulation(3);
  const Bits one = with(options, 4);
  Options other = options;
  other.deviceIterations(4).threads(2).fusion(false);
  EXPECT_EQ(difference(one, with(other, 4)), "");
}

INSTANTIATE_TEST_SUITE_P(Networks,
                         Determinism,
                         ::testing::ValuesIn(testing::trainingCases()),
                         [](const auto& test) { return test.param.name; });

/// Ops that become no kernel: reads and reshapes are slices, inputs and constants are buffers.
bool isKernel(std::string_view op) {
  static constexpr std::array<std::string_view, 5> kNone = {
      "constant", "input", "reorder", "reshape", "variable"};
  return std::ranges::find(kNone, op) == kNone.end();
}

void countOps(const ir::Graph& graph, std::map<std::string, int>& counts) {
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    const bool copy = op.is(ir::kAssign) && op.attrs.text("mode") == "set";
    if (!copy && isKernel(op.def->name)) {
      ++counts[std::string(op.def->name)];
    }
  }
}

std::map<std::string, int> callsOf(const program::Program& program) {
  std::map<std::string, int> counts;
  for (const program::Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      if (isKernel(call.def->name)) {
        ++counts[std::string(call.def->name)];
      }
    }
  }
  return counts;
}

template <class Net>
void expectOpsBecomeCalls(bool fusion) {
  const testing::TempFolder folder;
  Net net;
  Options options;
  options.fusion(fusion).dumpDirectory(folder.path().string());
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  model.compile(testing::makeInputs(Net::inputs(), 0, 1));
  std::filesystem::path last;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const bool afterPasses = entry.path().string().ends_with("_eliminate_dead.txt");
    if (afterPasses && entry.path() > last) {
      last = entry.path();
    }
  }
  std::ostringstream text;
  text << std::ifstream(last).rdbuf();
  std::map<std::string, int> ops;
  countOps(ir::parse(text.str(), ops::opSet()), ops);
  EXPECT_FALSE(ops.empty());
  EXPECT_EQ(ops, callsOf(model.program()));
}

TEST(KernelChoice, LoweringKeepsEveryOpAndAddsOnlyCopies) {
  for (const bool fusion : {true, false}) {
    expectOpsBecomeCalls<testing::Mlp>(fusion);
    expectOpsBecomeCalls<testing::Cnn>(fusion);
    expectOpsBecomeCalls<testing::Lstm>(fusion);
    expectOpsBecomeCalls<testing::Gpt>(fusion);
  }
}

std::vector<device::Choice> choices(const program::Program& program,
                                    const device::KernelTable& kernels) {
  std::vector<device::Choice> all;
  for (const program::Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      all.push_back(kernels.choose(call.view()));
    }
  }
  return all;
}

TEST(KernelChoice, IsAPureFunctionOfTheOp) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kNamesCpuKernels;
  }
  testing::Cnn net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.01));
  model.compile(testing::makeInputs(testing::Cnn::inputs(), 0, 1));
  const program::Program& program = model.program();
  const auto one = devices::cpu::makeCpuDevice({.threads = 1});
  const auto three = devices::cpu::makeCpuDevice({.threads = 3});
  const std::vector<device::Choice> first = choices(program, one->kernels());
  EXPECT_EQ(first, choices(program, one->kernels()));
  EXPECT_EQ(first, choices(program, three->kernels()));
  std::vector<device::Choice> elsewhere;
  std::thread([&] { elsewhere = choices(program, three->kernels()); }).join();
  EXPECT_EQ(first, elsewhere);
}

TEST(RandomSeed, FixesDropoutAndInitialValues) {
  const auto seeded = [](std::uint64_t seed) {
    return testing::train<testing::Gpt>(Options().randomSeed(seed), 3);
  };
  const Bits first = seeded(1);
  EXPECT_EQ(difference(first, seeded(1)), "");
  const Bits other = seeded(2);
  EXPECT_NE(first.at("up.weight"), other.at("up.weight"));
  EXPECT_NE(first.at("loss 0"), other.at("loss 0"));
}

struct DropoutOnly : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    const nn::Tensor y = nn::dropout(x, 0.5);
    return {y, nn::mean(fc(y))};
  }
};

TEST(RandomSeed, MakesEveryMicroBatchsDropoutMaskAnother) {
  const auto masks = [](std::uint64_t seed) {
    DropoutOnly net;
    auto model =
        trainingModel(net,
                      Options().randomSeed(seed).deviceIterations(2).outputMode(OutputMode::All),
                      optim::SGD(0.1));
    return model(HostTensor::full({DType::F32, Shape{128, 1}}, 1.0)).first;
  };
  const HostTensor a = masks(7);
  EXPECT_TRUE(a.sameBits(masks(7)));
  EXPECT_FALSE(a.sameBits(masks(8)));
  EXPECT_FALSE(a.rows(0, 64).sameBits(a.rows(64, 64).clone()));
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < 128; ++i) {
    ASSERT_TRUE(a.at(i) == 0.0 || a.at(i) == 2.0) << a.at(i);
    kept += a.at(i) == 2.0 ? 1 : 0;
  }
  EXPECT_GT(kept, 32);
  EXPECT_LT(kept, 96);
}

}  // namespace
}  // namespace sluice
