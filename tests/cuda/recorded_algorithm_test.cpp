// The algorithms of products as lines of a tuning table. This needs no GPU.
#include "sluice/devices/cuda/recorded_algorithm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/kernel_table.h"
#include "sluice/ops/linear_ops.h"
#include "tests/support/message_of.h"

namespace sluice::devices::cuda {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// What the device chooses for [40, 320] times the transpose of [256, 320].
device::Choice chosen(const device::Tuning& tuning) {
  const ir::Attrs attrs = ir::completeAttrs(ops::kMatMul, {{"transposeB", true}});
  const std::vector<TensorType> in = {{DType::F32, Shape{40, 320}}, {DType::F32, Shape{256, 320}}};
  const std::vector<TensorType> out = {{DType::F32, Shape{40, 256}}};
  const device::KernelTable table("cuda", tableEntries(TensorCores::All), tuning);
  return table.choose({ops::kMatMul, attrs, in, out});
}

const RecordedAlgorithm kSome{"sm_90", 130000, {1, 2, 0xFFFFFFFFFFFFFFFF, 0, 5, 6, 7, 8}};

TEST(CudaProducts, AreMarkedAsChosenAtLoad) {
  EXPECT_EQ(chosen({}).config, kChosenAtLoad);
  EXPECT_EQ(chosen({{"cublaslt.f32.nt.40x320.256x321", kSome.str()}}).config, kChosenAtLoad);
}

TEST(CudaProducts, TakeTheAlgorithmOfATuningTable) {
  const device::Choice choice = chosen({{"cublaslt.f32.nt.40x320.256x320", kSome.str()}});
  EXPECT_EQ(RecordedAlgorithm::parse(choice.config), kSome);
  EXPECT_EQ(choice.scratchBytes, chosen({}).scratchBytes) << "the workspace is fixed";
}

TEST(CudaProducts, RefuseOtherTexts) {
  const std::string good = kSome.str();
  for (const std::string& bad : {std::string(),
                                 std::string("sm_90"),
                                 std::string("sm_90/130000/12"),
                                 good + "0",
                                 good.substr(0, good.size() - 1) + "g",
                                 "/130000" + good.substr(good.rfind('/')),
                                 "sm_90/x" + good.substr(good.rfind('/'))}) {
    EXPECT_THAT(messageOf<ConfigFileError>([&] { RecordedAlgorithm::parse(bad); }),
                HasSubstr("chip/version/digits"))
        << bad;
  }
}

}  // namespace
}  // namespace sluice::devices::cuda
