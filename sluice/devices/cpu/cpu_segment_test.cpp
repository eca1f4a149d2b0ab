// Which kernels of a segment share a parallel region: those in a row that do not depend on each
// other. `isStopped` is asked before each region, so that its calls count them.
#include "sluice/devices/cpu/cpu_segment.h"

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/norm_ops.h"

namespace sluice::devices::cpu {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kElements = 40000;  // three tiles

device::KernelCall callOf(const ir::OpDef& def,
                          std::vector<std::int32_t> inputs,
                          std::int32_t output) {
  device::KernelCall call{.def = &def,
                          .attrs = ir::completeAttrs(def, {}),
                          .inputTypes = {inputs.size(), {DType::F32, {kElements}}},
                          .outputTypes = {{DType::F32, {kElements}}},
                          .name = fmt::format("to {}", output)};
  call.inputs = std::move(inputs);
  call.outputs = {output};
  call.choice = cpuKernelTable().choose(call.view());
  return call;
}

device::KernelCall add(std::int32_t x, std::int32_t y, std::int32_t to) {
  return callOf(ops::kAdd, {x, y}, to);
}

/// Buffers one after the other; buffer i begins with i in every element.
class Buffers {
 public:
  explicit Buffers(std::size_t count) : data_(count * kElements) {
    for (std::size_t i = 0; i < count; ++i) {
      std::fill_n(data_.begin() + static_cast<std::ptrdiff_t>(i * kElements),
                  kElements,
                  static_cast<float>(i));
      move(i, static_cast<std::int64_t>(i) * kElements);
    }
  }

  /// Lets a buffer begin with this element of the memory.
  void move(std::size_t buffer, std::int64_t element) {
    addresses_.resize(std::max(addresses_.size(), buffer + 1));
    addresses_[buffer] = reinterpret_cast<std::byte*>(data_.data() + element);
  }

  std::span<std::byte* const> addresses() const { return addresses_; }
  /// What all of its elements are; -1 if they differ.
  float valueOf(std::size_t buffer) const {
    const auto* first = reinterpret_cast<const float*>(addresses_[buffer]);
    return std::all_of(first, first + kElements, [&](float x) { return x == *first; }) ? *first
                                                                                       : -1;
  }

 private:
  std::vector<float> data_;
  std::vector<std::byte*> addresses_;
};

int regionsOf(CpuSegment& segment, const Buffers& buffers, Workers& workers) {
  int regions = 0;
  segment.run(buffers.addresses(), {}, workers, [&] {
    ++regions;
    return false;
  });
  return regions;
}

TEST(CpuSegment, JoinsKernelsThatDoNotDependOnEachOther) {
  const std::vector<device::KernelCall> calls = {add(1, 2, 3), add(1, 1, 4), add(5, 2, 5)};
  CpuSegment segment(calls);
  Workers team(3);
  Buffers buffers(6);
  EXPECT_EQ(regionsOf(segment, buffers, team), 1);
  EXPECT_EQ(buffers.valueOf(3), 3);
  EXPECT_EQ(buffers.valueOf(4), 2);
  EXPECT_EQ(buffers.valueOf(5), 7);  // in place
}

TEST(CpuSegment, EndsARowWhereAKernelNeedsAnother) {
  struct Case {
    std::vector<device::KernelCall> calls;
    std::vector<float> expected;  ///< of buffers 3 and 4
  };
  const std::vector<Case> cases = {
      {{add(1, 2, 3), add(3, 1, 4)}, {3, 4}},  // reads what was written
      {{add(4, 1, 3), add(1, 2, 4)}, {5, 3}},  // writes what was read
      {{add(1, 2, 3), add(2, 2, 3)}, {4, 4}},  // writes what was written
  };
  Workers team(3);
  for (const Case& c : cases) {
    CpuSegment segment(c.calls);
    Buffers buffers(5);
    EXPECT_EQ(regionsOf(segment, buffers, team), 2);
    EXPECT_THAT((std::vector{buffers.valueOf(3), buffers.valueOf(4)}),
                ElementsAre(c.expected[0], c.expected[1]));
  }
}

TEST(CpuSegment, SeesThatBuffersShareMemory) {
  const std::vector<device::KernelCall> calls = {add(1, 1, 2), add(3, 3, 4)};
  CpuSegment segment(calls);
  Workers team(3);
  Buffers buffers(6);
  EXPECT_EQ(regionsOf(segment, buffers, team), 1);
  EXPECT_EQ(regionsOf(segment, buffers, team), 1);
  buffers.move(3, 2 * kElements + kElements / 2);  // half of what the first writes
  EXPECT_EQ(regionsOf(segment, buffers, team), 2);
}

TEST(CpuSegment, JoinsElementWiseKernelsOnlyAndNothingForOneThread) {
  const std::vector<device::KernelCall> calls = {
      add(1, 1, 2), callOf(ops::kSoftmax, {1}, 3), add(1, 1, 4), add(1, 1, 5)};
  CpuSegment segment(calls);
  Buffers buffers(6);
  Workers team(2);
  EXPECT_EQ(regionsOf(segment, buffers, team), 3);
  Workers one(1);
  EXPECT_EQ(regionsOf(segment, buffers, one), 4);
}

TEST(CpuSegment, IsGivenUpBeforeARow) {
  const std::vector<device::KernelCall> calls = {add(1, 1, 2), add(1, 1, 3)};
  CpuSegment segment(calls);
  Buffers buffers(4);
  Workers team(2);
  EXPECT_THROW(segment.run(buffers.addresses(), {}, team, [] { return true; }), Cancelled);
  EXPECT_EQ(buffers.valueOf(3), 3);
}

}  // namespace
}  // namespace sluice::devices::cpu
