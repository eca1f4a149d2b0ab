// The texts of generated kernels, and that all of them compile. This needs no GPU.
#include "sluice/devices/cuda/source.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <random>
#include <set>

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/file_cache.h"
#include "sluice/base/input_file.h"
#include "sluice/device/kernel_table.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/cudnn.h"
#include "sluice/devices/cuda/kernel_table.h"
#include "sluice/devices/cuda/launch_order.h"
#include "sluice/devices/cuda/library.h"
#include "sluice/devices/registry.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/conformance/case_run.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice::devices::cuda {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaSource, OffsetsJoinAxesThatOneStrideDescribes) {
  const std::vector<std::int64_t> dims = {2, 3, 4};
  EXPECT_EQ(offsetText("i", dims, std::vector<std::int64_t>{12, 4, 1}),
            "((i64)((unsigned)(i)) * 1ll)");
  EXPECT_EQ(offsetText("i", dims, std::vector<std::int64_t>{0, 0, 0}), "0");
  EXPECT_EQ(offsetText("i", dims, std::vector<std::int64_t>{4, 0, 1}),
            "((i64)((unsigned)(i) % 4u) * 1ll + (i64)((unsigned)(i) / 12u) * 4ll)");
}

TEST(CudaSource, BroadcastOperandsStandStill) {
  EXPECT_EQ(broadcastStrides(Shape{3, 1}, Shape{2, 3, 4}), (std::vector<std::int64_t>{0, 1, 0}));
}

TEST(CudaSource, LinesHaveAPowerOfTwoOfThreads) {
  EXPECT_EQ(threadsFor(1), 32);
  EXPECT_EQ(threadsFor(33), 64);
  EXPECT_EQ(threadsFor(100000), 256);
}

TEST(CudaSource, WithAMistakeIsShownWithTheCompilersWords) {
  EXPECT_THAT(messageOf<InternalError>(
                  [] { compile("extern \"C\" __global__ void f() { mistake; }", "sm_90"); }),
              AllOf(HasSubstr("mistake"), HasSubstr("undefined")));
}

constexpr std::string_view kSmall = "extern \"C\" __global__ void f(float* x) { *x = 1; }";

TEST(CudaCode, IsKeptByTextOptionsArchitectureAndVersion) {
  const std::string key = codeKey(kSmall, "sm_90");
  EXPECT_THAT(key,
              AllOf(HasSubstr("NVRTC "),
                    HasSubstr("--gpu-architecture=sm_90 --fmad=false"),
                    HasSubstr(prelude()),
                    HasSubstr(kSmall)));
  EXPECT_NE(key, codeKey(kSmall, "sm_80"));
  EXPECT_NE(key, codeKey("extern \"C\" __global__ void g() {}", "sm_90"));
}

TEST(CudaCode, ComesFromTheCacheTheSecondTime) {
  const sluice::testing::TempFolder folder;
  const FileCache cache(folder.path(), 1 << 20);
  const std::vector<char> code = compile(kSmall, "sm_90");
  EXPECT_EQ(compileOnce(kSmall, "sm_90", nullptr), code);
  EXPECT_EQ(compileOnce(kSmall, "sm_90", &cache), code);
  ASSERT_EQ(cache.files().size(), 1U);
  EXPECT_EQ(compileOnce(kSmall, "sm_90", &cache), code);
  EXPECT_NE(compileOnce(kSmall, "sm_80", &cache), code);
  EXPECT_EQ(cache.files().size(), 2U);
  // Nothing compiles to this: it can only come from the cache.
  const std::string other = "other code";
  cache.store(codeKey(kSmall, "sm_90"), CacheContent::Code, other);
  EXPECT_EQ(compileOnce(kSmall, "sm_90", &cache), std::vector<char>(other.begin(), other.end()));
}

TEST(CudaCode, OfADamagedEntryIsCompiledAgain) {
  const sluice::testing::TempFolder folder;
  const FileCache cache(folder.path(), 1 << 20);
  const std::vector<char> code = compileOnce(kSmall, "sm_90", &cache);
  const std::filesystem::path path = cache.pathOf(codeKey(kSmall, "sm_90"));
  const std::string whole = readFile(path);
  for (const std::size_t at : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_EQ(compileOnce(kSmall, "sm_90", &cache), code);
    EXPECT_EQ(readFile(path), whole);
  }
}

TEST(CudaKind, IsListedAndSaysWhyItCannotBeUsed) {
  const std::vector<KindInfo> kinds = deviceKinds();
  const auto found = std::ranges::find(kinds, "cuda", &KindInfo::name);
  ASSERT_NE(found, kinds.end());
  EXPECT_EQ(found->unusable, whyUnusable());
  if (!found->unusable.empty()) {
    EXPECT_THAT(messageOf<DeviceError>([] { parseDevices("cuda:0*4"); }),
                AllOf(HasSubstr("'cuda' cannot be used here"), HasSubstr(found->unusable)));
  } else {
    EXPECT_EQ(parseDevices("cuda:0*4").names.size(), 4U);
    EXPECT_THAT(messageOf([] { parseDevices("cuda:99"); }), HasSubstr("no device cuda:99"));
  }
}

TEST(CudaLaunchOrder, FollowsWhatSharesBytesAndNothingElse) {
  const auto at = [](std::uintptr_t begin, std::size_t bytes) { return ByteRange{begin, bytes}; };
  const std::vector<Access> kernels = {
      {{}, {at(0, 10)}},            // makes a
      {{}, {at(10, 10)}},           // makes b
      {{at(0, 10)}, {at(20, 10)}},  // a to c
      {{at(0, 10)}, {at(30, 10)}},  // a to d
      {{at(20, 10), at(30, 10)}, {at(40, 1)}},
      {{at(10, 10)}, {at(5, 2)}},  // writes into a, which others have read
  };
  EXPECT_EQ(launchOrder(kernels),
            (std::vector<std::vector<std::size_t>>{{}, {}, {0}, {0}, {3, 2}, {3, 2, 1}}));
}

/// Every pair that conflicts is ordered, and a kernel follows no more than it must.
TEST(CudaLaunchOrder, OrdersEveryConflictOfRandomKernels) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (int round = 0; round < 50; ++round) {
    std::vector<Access> kernels(40);
    for (Access& kernel : kernels) {
      for (std::size_t i = below(3); i > 0; --i) {
        kernel.reads.push_back({below(200), below(20)});
      }
      kernel.writes.push_back({below(200), 1 + below(20)});
    }
    const auto order = launchOrder(kernels);
    std::vector<std::set<std::size_t>> before(kernels.size());
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      for (const std::size_t earlier : order[k]) {
        EXPECT_TRUE(kernels[k].conflicts(kernels[earlier]));
        EXPECT_FALSE(before[k].contains(earlier)) << "an edge too many";
        before[k].insert(earlier);
        before[k].insert(before[earlier].begin(), before[earlier].end());
      }
      for (std::size_t earlier = 0; earlier < k; ++earlier) {
        EXPECT_TRUE(!kernels[k].conflicts(kernels[earlier]) || before[k].contains(earlier));
      }
    }
  }
}

#if __has_include(<cudnn.h>)
/// What the device knows of cuDNN by itself is what the library's headers say.
TEST(CudaLibraries, HaveTheNumbersOfTheirHeaders) {
  EXPECT_EQ(cudnn::kSuccess, CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnn::kFloat, CUDNN_DATA_FLOAT);
  EXPECT_EQ(cudnn::kHalf, CUDNN_DATA_HALF);
  EXPECT_EQ(cudnn::kBFloat16, CUDNN_DATA_BFLOAT16);
  EXPECT_EQ(cudnn::kNchw, CUDNN_TENSOR_NCHW);
  EXPECT_EQ(cudnn::kNhwc, CUDNN_TENSOR_NHWC);
  EXPECT_EQ(cudnn::kCrossCorrelation, CUDNN_CROSS_CORRELATION);
  EXPECT_EQ(cudnn::kTensorOpMath, CUDNN_TENSOR_OP_MATH);
  EXPECT_EQ(cudnn::kFmaMath, CUDNN_FMA_MATH);
  EXPECT_EQ(cudnn::kDeterministic, CUDNN_DETERMINISTIC);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  using Theirs = cudnnConvolutionFwdAlgoPerf_t;
#pragma GCC diagnostic pop
  EXPECT_EQ(sizeof(cudnn::Algorithm), sizeof(Theirs));
  EXPECT_EQ(offsetof(cudnn::Algorithm, memory), offsetof(Theirs, memory));
  EXPECT_EQ(offsetof(cudnn::Algorithm, determinism), offsetof(Theirs, determinism));
  EXPECT_EQ(offsetof(cudnn::Algorithm, math), offsetof(Theirs, mathType));
}
#endif

TEST(CudaLibraries, AreLookedForInTheGivenFolderFirst) {
  EXPECT_THAT(messageOf<DeviceError>([] { Library("libnot_there.so.9", "/no/such/folder"); }),
              HasSubstr("/no/such/folder/libnot_there.so.9"));
}

TEST(CudaLibraries, ThatAreNotThereAreNamed) {
  EXPECT_THAT(messageOf<DeviceError>([] { Library("libnot_there.so.13"); }),
              AllOf(HasSubstr("libnot_there.so.13"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_THAT(messageOf<DeviceError>([] {
                void (*found)() = nullptr;
                Library(toolkitLibrary("nvrtc")).find("nvrtcNotThere", found);
              }),
              HasSubstr("nvrtcNotThere"));
}

std::string textOf(const Source& source) {
  return source.isEmpty() ? "" : source.text;
}

/// The text for a case; empty where the table has no generated kernel for it.
std::string sourceOf(const sluice::testing::OpCase& c, DType floats) {
  const std::vector<HostTensor> operands = sluice::testing::operandsOf(c, floats);
  try {
    return sluice::testing::withView(c, operands, [&](const ir::OpView& op) -> std::string {
      for (const KernelEntry& entry : kernelEntries()) {
        if (entry.op == op.def.name && entry.isGenerated() &&
            (entry.supports == nullptr || entry.supports(op))) {
          const device::Choice choice =
              entry.choose == nullptr ? device::plainChoice(op, "") : entry.choose(op, {});
          return textOf(entry.source(op, choice));
        }
      }
      return "";
    });
  } catch (const InvalidArgument&) {
    return "";  // the op refuses the type
  }
}

/// The text for an op of these types.
std::string sourceOf(const ir::OpDef& def, const ir::Attrs& given, std::vector<TensorType> types) {
  const device::KernelTable table("cuda", tableEntries(), {});
  const ir::Attrs attrs = ir::completeAttrs(def, given);
  const std::vector<TensorType> outputs = def.infer({def, attrs, types, {}});
  const ir::OpView op{def, attrs, types, outputs};
  const device::Choice choice = table.choose(op);
  return entryOf(op, choice).source(op, choice).text;
}

TEST(CudaSource, OfAttentionCompiles) {
  for (const std::int64_t width : {16, 64, 128}) {
    const TensorType q{width == 16 ? DType::F16 : DType::BF16, Shape{2, 3, 100, width}};
    const TensorType logs{DType::F32, Shape{2, 3, 100}};
    const ir::Attrs attrs = {{"causal", width != 64}};
    EXPECT_NO_THROW(compile(sourceOf(ops::kScaledDotProductAttention, attrs, {q, q, q}), "sm_90"));
    EXPECT_NO_THROW(compile(
        sourceOf(ops::kScaledDotProductAttentionGrad, attrs, {q, q, q, q, logs, q}), "sm_90"));
  }
}

TEST(CudaSource, OfAttentionIsForGpusWithTheProducts) {
  const TensorType q{DType::BF16, Shape{2, 3, 100, 64}};
  const ir::Attrs attrs = ir::completeAttrs(ops::kScaledDotProductAttention, {});
  const std::vector<TensorType> types = {q, q, q};
  const std::vector<TensorType> outputs = {q, {DType::F32, Shape{2, 3, 100}}};
  const ir::OpView op{ops::kScaledDotProductAttention, attrs, types, outputs};
  EXPECT_TRUE(device::KernelTable("cuda", tableEntries(), {}).supports(op));
  EXPECT_FALSE(device::KernelTable("cuda", tableEntries(TensorCores::Half), {}).supports(op));
}

TEST(CudaSource, OfCrossEntropyWithAWideLossCompiles) {
  const TensorType scores{DType::BF16, Shape{64, 5000}};
  const TensorType labels{DType::I64, Shape{64}};
  const TensorType sums{DType::F32, Shape{64}};
  const ir::Attrs wide = {{"wideLoss", true}};
  const std::string forward = sourceOf(ops::kCrossEntropy, wide, {scores, labels});
  EXPECT_THAT(forward, AllOf(HasSubstr("const bf16* in0"), HasSubstr("f32* out0")));
  EXPECT_NO_THROW(compile(forward, "sm_90"));
  const std::string backward =
      sourceOf(ops::kCrossEntropyGrad, wide, {scores, labels, sums, {DType::F32, Shape{}}});
  EXPECT_THAT(backward, AllOf(HasSubstr("const f32* in3"), HasSubstr("bf16* out0")));
  EXPECT_NO_THROW(compile(backward, "sm_90"));
}

TEST(CudaSource, OfLikelihoodsCompiles) {
  const TensorType labels{DType::I64, Shape{64}};
  for (const char* reduction : {"mean", "sum", "none"}) {
    for (const DType floats : {DType::F32, DType::F64, DType::BF16}) {
      const ir::Attrs attrs = {{"reduction", reduction}};
      const TensorType logs{floats, Shape{64, 10}};
      EXPECT_NO_THROW(compile(sourceOf(ops::kNllLoss, attrs, {logs, labels}), "sm_90"));
    }
  }
}

TEST(CudaSource, OfWideElementsCompiles) {
  for (const DType floats : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    const TensorType x{floats, Shape{1 << 12, 768}};
    const TensorType row{floats, Shape{768}};
    const TensorType column{floats, Shape{1 << 12, 1}};
    EXPECT_NO_THROW(compile(sourceOf(ops::kAdd, {}, {x, row}), "sm_90"));
    EXPECT_NO_THROW(compile(sourceOf(ops::kMul, {}, {x, column}), "sm_90"));
    EXPECT_NO_THROW(compile(sourceOf(ops::kErfc, {}, {x}), "sm_90"));
    EXPECT_NO_THROW(compile(sourceOf(ops::kCast, {{"dtype", "f32"}}, {x}), "sm_90"));
    EXPECT_NO_THROW(
        compile(sourceOf(ops::kReduceSum, {{"axes", std::vector<std::int64_t>{0}}}, {x}), "sm_90"));
  }
}

/// The text of a generated kernel with all operands of the output's rank in channels last.
TEST(CudaSource, WithTheChannelsLastCompiles) {
  const std::set<std::string_view> ops = {"avg_pool",
                                          "avg_pool_grad",
                                          "conv",
                                          "conv_grad_input",
                                          "conv_grad_weight",
                                          "max_pool",
                                          "max_pool_grad"};
  std::set<std::string_view> seen;
  for (const sluice::testing::OpCase& c : sluice::testing::allCases()) {
    if (!ops.contains(c.def.name) || c.operands[0].type.shape.rank() != 4 ||
        !seen.insert(c.def.name).second) {
      continue;
    }
    sluice::testing::withView(
        c, sluice::testing::operandsOf(c, DType::F32), [&](const ir::OpView& op) {
          device::Choice choice = device::plainChoice(op, "generated");
          for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            if (op.inputs[i].shape.rank() == 4) {
              choice.inputs[i] = device::Layout::channelsLast();
            }
          }
          choice.outputs[0] = device::Layout::channelsLast();
          EXPECT_NO_THROW(compile(entryOf(op, choice).source(op, choice).text, "sm_90"))
              << c.def.name;
        });
  }
  EXPECT_EQ(seen.size(), ops.size());
}

TEST(CudaSource, OfBatchNormIn16BitsHasTheChannelsLast) {
  const TensorType x{DType::BF16, Shape{4, 24, 5, 5}};
  const TensorType gamma{DType::BF16, Shape{24}};
  const TensorType mean{DType::F32, Shape{24}};
  const std::string forward = sourceOf(ops::kBatchNorm, {}, {x, gamma, gamma});
  const std::string backward = sourceOf(ops::kBatchNormGrad, {}, {x, gamma, mean, mean, x});
  EXPECT_THAT(forward, HasSubstr("FACTORS"));
  EXPECT_NO_THROW(compile(forward, "sm_90"));
  EXPECT_NO_THROW(compile(backward, "sm_90"));
}

TEST(CudaSource, KnowsWhichElementsLieSideBySide) {
  const std::vector<std::int64_t> dims = {2, 3, 8};
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{24, 8, 1}, 4), Steps::Consecutive);
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{0, 0, 0}, 4), Steps::Same);
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{3, 1, 0}, 4), Steps::Same);
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{0, 8, 1}, 4), Steps::Consecutive);
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{8, 16, 2}, 4), Steps::Any);
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{24, 9, 1}, 4), Steps::Any);  // not aligned
  EXPECT_EQ(stepsOf(dims, std::vector<std::int64_t>{24, 8, 1}, 16), Steps::Consecutive);
  EXPECT_EQ(stepsOf(std::vector<std::int64_t>{4, 6}, std::vector<std::int64_t>{8, 1}, 4),
            Steps::Any);
}

/// One of each op, and those of a few types: the other cases compile where they run.
TEST(CudaSource, OfEveryOpCompiles) {
  std::set<std::string_view> seen;
  for (const sluice::testing::OpCase& c : sluice::testing::allCases()) {
    if (!seen.insert(c.def.name).second) {
      continue;
    }
    if (const std::string source = sourceOf(c, DType::F32); !source.empty()) {
      EXPECT_NO_THROW(compile(source, "sm_90")) << c.def.name;
    }
  }
  EXPECT_GT(seen.size(), 100U);
}

TEST(CudaSource, OfOtherFloatsCompiles) {
  std::set<std::string_view> left = {"add", "batch_norm", "conv", "reduce_max", "scatter_add"};
  for (const sluice::testing::OpCase& c : sluice::testing::allCases()) {
    if (left.erase(c.def.name) == 0) {
      continue;
    }
    for (const DType floats : {DType::F64, DType::BF16, DType::F16}) {
      const std::string source = sourceOf(c, floats);
      ASSERT_FALSE(source.empty()) << c.def.name;
      EXPECT_NO_THROW(compile(source, "sm_90")) << c.def.name;
    }
  }
  EXPECT_TRUE(left.empty());
}

}  // namespace
}  // namespace sluice::devices::cuda
