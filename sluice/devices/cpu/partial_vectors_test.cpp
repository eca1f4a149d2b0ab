// Kernels whose last vector is shorter, with every instruction set that this machine has: operands
// and results end where memory ends, and nothing behind them is touched.
#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sluice/devices/cpu/kernels/pack_matrix.h"
#include "sluice/devices/cpu/kernels/row_products.h"

namespace sluice::devices::cpu {
namespace {

/// Floats whose last one is the last of a page; the next page can be neither read nor written.
class AtTheEnd {
 public:
  explicit AtTheEnd(std::size_t count)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        bytes_((count * sizeof(float) + page_ - 1) / page_ * page_),
        memory_(static_cast<std::byte*>(::mmap(
            nullptr, bytes_ + page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        data_(reinterpret_cast<float*>(memory_ + bytes_) - count) {  // NOLINT
    EXPECT_EQ(::mprotect(memory_ + bytes_, page_, PROT_NONE), 0);
    for (std::size_t i = 0; i < count; ++i) {
      data_[i] = static_cast<float>(i % 13) - 5;
    }
  }
  ~AtTheEnd() { ::munmap(memory_, bytes_ + page_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;

  float* data() const { return data_; }
  float operator[](std::int64_t i) const { return data_[i]; }

 private:
  std::size_t page_;
  std::size_t bytes_;
  std::byte* memory_;
  float* data_;
};

std::size_t sizeOf(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

class PartialVectors : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { use(GetParam()); }
  void TearDown() override { use(0); }

 private:
  static void use(std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_P(PartialVectors, OfTransposedMatricesTouchNothingBehindThem) {
  for (const auto& [rows, columns] : {std::pair(1, 1), {3, 5}, {9, 31}, {16, 16}, {17, 18}}) {
    const AtTheEnd from(sizeOf(std::int64_t{rows} * columns));
    const AtTheEnd to(sizeOf(std::int64_t{rows} * columns));
    transposeMatrix({rows, columns, columns}, from.data(), to.data(), rows);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        ASSERT_EQ(to[j * rows + i], from[i * columns + j]) << i << ", " << j;
      }
    }
  }
}

TEST_P(PartialVectors, OfProductsOfRowsTouchNothingBehindThem) {
  for (const std::int64_t length : {1, 3, 6, 16, 21}) {
    constexpr std::int64_t kPixels = 5;
    const AtTheEnd left(sizeOf(kPixels * length));
    const AtTheEnd right(sizeOf(length));
    const AtTheEnd to(sizeOf(kPixels * length));
    const RowTap tap{left.data(), right.data()};
    sumRowProducts({.taps = {&tap, 1},
                    .leftStep = length,
                    .to = to.data(),
                    .pixels = kPixels,
                    .length = length});
    for (std::int64_t i = 0; i < kPixels * length; ++i) {
      ASSERT_EQ(to[i], left[i] * right[i % length]) << i;
    }
  }
}

/// The operands are small whole numbers, whose sums are exact in any order.
TEST_P(PartialVectors, OfDotProductsTouchNothingBehindThem) {
  for (const std::int64_t k : {1, 3, 7, 18, 33}) {
    constexpr std::int64_t kRows = 3;
    constexpr std::int64_t kColumns = 5;
    const AtTheEnd left(sizeOf(kRows * k));
    const AtTheEnd right(sizeOf(kColumns * k));
    const AtTheEnd to(sizeOf(kRows * kColumns));
    multiplyDots({.left = left.data(),
                  .right = right.data(),
                  .to = to.data(),
                  .rows = kRows,
                  .columns = kColumns,
                  .k = k,
                  .toStride = kColumns});
    for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
      float sum = 0;
      for (std::int64_t n = 0; n < k; ++n) {
        sum += left[i / kColumns * k + n] * right[i % kColumns * k + n];
      }
      ASSERT_EQ(to[i], sum) << i;
    }
  }
}

/// Those of vector_targets.h that this machine has.
std::vector<std::int64_t> sets() {
  std::vector<std::int64_t> found;
  for (const std::int64_t set : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & HWY_TARGETS & set) != 0) {
      found.push_back(set);
    }
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Sets, PartialVectors, ::testing::ValuesIn(sets()), [](const auto& tested) {
  return std::string(hwy::TargetName(tested.param));
});

}  // namespace
}  // namespace sluice::devices::cpu
