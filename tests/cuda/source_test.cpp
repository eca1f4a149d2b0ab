// The texts of generated kernels, and that all of them compile. This needs no GPU.
#include "sluice/devices/cuda/source.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/device/kernel_table.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/kernel_table.h"
#include "sluice/devices/cuda/library.h"
#include "sluice/devices/registry.h"
#include "tests/conformance/case_run.h"
#include "tests/support/message_of.h"

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

TEST(CudaLibraries, ThatAreNotThereAreNamed) {
  EXPECT_THAT(messageOf<DeviceError>([] { Library("libnot_there.so.13"); }),
              AllOf(HasSubstr("libnot_there.so.13"), HasSubstr("LD_LIBRARY_PATH")));
  EXPECT_THAT(messageOf<DeviceError>([] {
                void (*found)() = nullptr;
                Library(toolkitLibrary("nvrtc")).find("nvrtcNotThere", found);
              }),
              HasSubstr("nvrtcNotThere"));
}

/// The text for a case; empty where the table has no generated kernel for it.
std::string sourceOf(const device::KernelTable& table,
                     const sluice::testing::OpCase& c,
                     DType floats) {
  const std::vector<HostTensor> operands = sluice::testing::operandsOf(c, floats);
  try {
    return sluice::testing::withView(c, operands, [&](const ir::OpView& op) -> std::string {
      if (!table.supports(op)) {
        return "";
      }
      const device::Choice choice = table.choose(op);
      if (choice.implementation != "generated") {
        return "";
      }
      const Source source = entryOf(op, choice).generate(op);
      return source.isEmpty() ? "" : source.text;
    });
  } catch (const InvalidArgument&) {
    return "";  // the op refuses the type
  }
}

/// One of each op, and those of a few types: the other cases compile where they run.
TEST(CudaSource, OfEveryOpCompiles) {
  const device::KernelTable table("cuda", tableEntries(), {});
  std::set<std::string_view> seen;
  for (const sluice::testing::OpCase& c : sluice::testing::allCases()) {
    if (!seen.insert(c.def.name).second) {
      continue;
    }
    if (const std::string source = sourceOf(table, c, DType::F32); !source.empty()) {
      EXPECT_NO_THROW(compile(source, "sm_90")) << c.def.name;
    }
  }
  EXPECT_GT(seen.size(), 100U);
}

TEST(CudaSource, OfOtherFloatsCompiles) {
  const device::KernelTable table("cuda", tableEntries(), {});
  std::set<std::string_view> left = {"add", "batch_norm", "conv", "reduce_max", "scatter_add"};
  for (const sluice::testing::OpCase& c : sluice::testing::allCases()) {
    if (left.erase(c.def.name) == 0) {
      continue;
    }
    for (const DType floats : {DType::F64, DType::BF16, DType::F16}) {
      const std::string source = sourceOf(table, c, floats);
      ASSERT_FALSE(source.empty()) << c.def.name;
      EXPECT_NO_THROW(compile(source, "sm_90")) << c.def.name;
    }
  }
  EXPECT_TRUE(left.empty());
}

}  // namespace
}  // namespace sluice::devices::cuda
