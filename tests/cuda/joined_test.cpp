// Small kernels as one launch: which are joined, and that the text compiles. This needs no GPU.
#include "sluice/devices/cuda/joined.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/kernel_table.h"
#include "sluice/ops/arithmetic_ops.h"

namespace sluice::devices::cuda {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

ByteRange at(std::uintptr_t begin) {
  return {begin, 1};
}

TEST(CudaJoined, WaitUntilOneOfThemIsNeeded) {
  const std::vector<Access> kernels = {
      {{}, {at(0)}},        // makes a gradient
      {{at(0)}, {at(10)}},  // accumulates it
      {{}, {at(1)}},        // makes another one
      {{at(1)}, {at(11)}},  // accumulates it
      {{}, {at(0)}},        // overwrites the first
      {{at(0)}, {at(12)}},  // accumulates it
  };
  EXPECT_EQ(joinedOrder(kernels, std::vector<std::size_t>{0, 2, 0, 2, 0, 2}),
            (Groups{{0}, {2}, {1, 3}, {4}, {5}}));
  EXPECT_EQ(joinedOrder(kernels, std::vector<std::size_t>(6, 0)),
            (Groups{{0}, {1}, {2}, {3}, {4}, {5}}));
}

TEST(CudaJoined, AreNotMoreThanALaunchHasArgumentsFor) {
  std::vector<Access> kernels;
  for (std::uintptr_t i = 0; i < 2 * kMostJoined; ++i) {
    kernels.push_back({{}, {at(i)}});
  }
  EXPECT_EQ(joinedOrder(kernels, std::vector<std::size_t>(kernels.size(), 2)).size(), 2U);
  const std::size_t many = kMostPointers / 4;
  EXPECT_EQ(joinedOrder(kernels, std::vector<std::size_t>(kernels.size(), many)).size(),
            kernels.size() / 4);
}

/// Every kernel is there once, kernels of one group share no bytes that one of them writes, and
/// every conflict keeps its order.
TEST(CudaJoined, KeepTheOrderOfEveryConflictOfRandomKernels) {
  std::mt19937 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 100; ++round) {
    std::vector<Access> kernels(40);
    std::vector<std::size_t> pointers(kernels.size());
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      for (std::size_t i = below(3); i > 0; --i) {
        kernels[k].reads.push_back({below(400), below(20)});
      }
      kernels[k].writes.push_back({below(400), 1 + below(20)});
      pointers[k] = below(3);
    }
    const Groups groups = joinedOrder(kernels, pointers);
    std::vector<std::size_t> groupOf(kernels.size(), groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::size_t k : groups[g]) {
        EXPECT_EQ(groupOf[k], groups.size()) << k << " is there twice";
        EXPECT_TRUE(groups[g].size() == 1 || pointers[k] > 0);
        groupOf[k] = g;
      }
    }
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      ASSERT_LT(groupOf[k], groups.size()) << k << " is missing";
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        EXPECT_TRUE(!kernels[k].conflicts(kernels[earlier]) || groupOf[earlier] < groupOf[k]);
      }
    }
  }
}

Source sourceOf(const ir::OpDef& def, ir::Attrs attrs, const TensorType& type, std::size_t inputs) {
  const ir::Attrs complete = ir::completeAttrs(def, std::move(attrs));
  const std::vector<TensorType> in(inputs, type);
  const std::vector<TensorType> out = {type};
  const ir::OpView view{def, complete, in, out};
  const device::KernelTable table("cuda", tableEntries(TensorCores::All), {});
  const device::Choice choice = table.choose(view);
  return entryOf(view, choice).source(view, choice);
}

TEST(CudaJoined, CompileWithEachTextOnce) {
  const std::vector<Source> sources = {
      sourceOf(ir::kAssign, {{"mode", "sum"}, {"var", "a"}}, {DType::F32, Shape{10}}, 1),
      sourceOf(ops::kAdd, {}, {DType::F32, Shape{4, 300}}, 2),
      sourceOf(ir::kAssign, {{"mode", "sum"}, {"var", "b"}}, {DType::F32, Shape{10}}, 1),
      sourceOf(ir::kAssign, {{"mode", "mean"}, {"var", "c"}}, {DType::BF16, Shape{999}}, 1),
      sourceOf(ops::kMul, {}, {DType::I32, Shape{7}}, 2)};
  std::vector<JoinedPart> parts;
  std::int64_t blocks = 0;
  for (const Source& source : sources) {
    EXPECT_TRUE(isJoinable(source));
    blocks += source.stages[0].blocks;
    parts.push_back({&source, source.text.find("in1") == std::string::npos ? 2U : 3U});
  }
  const Source joined = joinedSource(parts);
  EXPECT_TRUE(joined.readsRun);
  EXPECT_EQ(joined.stages[0].blocks, blocks);
  EXPECT_NE(joined.text.find("namespace n3"), std::string::npos);
  EXPECT_EQ(joined.text.find("namespace n4"), std::string::npos) << "equal texts are written once";
  for (const char* architecture : {"sm_75", "sm_90"}) {
    EXPECT_FALSE(compile(joined.text, architecture).empty());
  }
}

TEST(CudaJoined, AreSmall) {
  EXPECT_FALSE(isJoinable(sourceOf(ops::kAdd, {}, {DType::F32, Shape{4096, 4096}}, 2)));
  EXPECT_FALSE(isJoinable(sourceOf(ops::kAdd, {}, {DType::F32, Shape{0}}, 2)));
}

}  // namespace
}  // namespace sluice::devices::cuda
