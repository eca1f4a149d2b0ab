#include "sluice/devices/measure.h"

#include <atomic>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/far/far_device.h"
#include "tests/support/message_of.h"

namespace sluice::devices {
namespace {

/// Clocks by which everything takes so long.
template <std::int64_t Nanoseconds>
std::int64_t tick() {
  static std::atomic<std::int64_t> now{0};
  return now += Nanoseconds;
}

/// By which everything takes 1 ms, and every third piece of work is interrupted for 9 ms.
std::int64_t interrupted() {
  static std::atomic<std::int64_t> now{0};
  static std::atomic<int> readings{0};
  return now += readings++ % 6 == 1 ? 10'000'000 : 1'000'000;
}

constexpr std::size_t kCopied = 4096;

TEST(MeasureRates, DividesTheWorkByTheTimeOfTheClock) {
  // 4 ms are long enough for the smallest matrices, 64 by 64.
  const MeasureOptions options{.clock = tick<4'000'000>, .copyBytes = kCopied};
  const auto cpu = cpu::makeCpuDevice();
  const auto far = far::makeFarDevice();
  for (device::Device* device : {cpu.get(), far.get()}) {
    const Measured measured = measureRates(*device, options);
    const double products = 2.0 * 64 * 64 * 64 / 4e-3;
    EXPECT_DOUBLE_EQ(measured.rates.f32, products);
    EXPECT_DOUBLE_EQ(measured.rates.f16, products);
    EXPECT_DOUBLE_EQ(measured.rates.bf16, products);
    EXPECT_DOUBLE_EQ(measured.rates.f64, products);
    EXPECT_DOUBLE_EQ(measured.memoryBytesPerSecond, 2 * kCopied / 4e-3);
    EXPECT_DOUBLE_EQ(measured.fromHostBytesPerSecond, kCopied / 4e-3);
    EXPECT_DOUBLE_EQ(measured.toHostBytesPerSecond, kCopied / 4e-3);
    EXPECT_DOUBLE_EQ(measured.launchSeconds, 4e-3 / 100);
  }
}

TEST(MeasureRates, TakesLargerMatricesWhileSmallOnesAreShort) {
  const auto device = cpu::makeCpuDevice();
  const Measured measured =
      measureRates(*device, {.clock = tick<1'000'000>, .largest = 300, .copyBytes = kCopied});
  EXPECT_DOUBLE_EQ(measured.rates.f32, 2.0 * 256 * 256 * 256 / 1e-3);
}

/// Neither ends the growth of the matrices, nor is it the time of a short figure.
TEST(MeasureRates, PassesOverInterruptions) {
  const auto device = cpu::makeCpuDevice();
  const MeasureOptions options{
      .clock = interrupted, .secondsEach = 5e-3, .largest = 300, .copyBytes = kCopied};
  for (int i = 0; i < 3; ++i) {  // figures begin with another piece of work each time
    const Measured measured = measureRates(*device, options);
    const double products = 2.0 * 256 * 256 * 256 / 1e-3;
    EXPECT_DOUBLE_EQ(measured.rates.f32, products);
    EXPECT_DOUBLE_EQ(measured.rates.f16, products);
    EXPECT_DOUBLE_EQ(measured.rates.bf16, products);
    EXPECT_DOUBLE_EQ(measured.rates.f64, products);
    EXPECT_DOUBLE_EQ(measured.memoryBytesPerSecond, 2 * kCopied / 1e-3);
    EXPECT_DOUBLE_EQ(measured.fromHostBytesPerSecond, kCopied / 1e-3);
    EXPECT_DOUBLE_EQ(measured.toHostBytesPerSecond, kCopied / 1e-3);
    EXPECT_DOUBLE_EQ(measured.launchSeconds, 1e-3 / 100);
  }
}

TEST(MeasureRates, EndsThoughTheClockStandsStill) {
  const auto device = cpu::makeCpuDevice();
  const MeasureOptions options{
      .clock = tick<0>, .secondsEach = 1e-8, .largest = 64, .copyBytes = kCopied};
  EXPECT_GT(measureRates(*device, options).rates.f32, 0);
}

TEST(MeasureRates, StaysWithinTheBudget) {
  const auto device = cpu::makeCpuDevice({.memoryBytes = std::size_t{1} << 20U});
  EXPECT_NE(sluice::testing::messageOf<OutOfMemory>([&] {
              measureRates(*device, {.clock = tick<4'000'000>});
            }).find("budget of 1048576 bytes"),
            std::string::npos);
}

TEST(MeasureRates, LeavesRatesUnknownUntilThen) {
  const auto cpu = cpu::makeCpuDevice();
  const auto far = far::makeFarDevice();
  for (const device::Device* device : {cpu.get(), far.get()}) {
    const device::DeviceInfo& info = device->info();
    EXPECT_EQ(info.rates.f32 + info.rates.f16 + info.rates.bf16 + info.rates.f64, 0);
    EXPECT_EQ(info.memoryBytesPerSecond + info.launchSeconds, 0);
    EXPECT_EQ(info.copyEngines, 0);  // threads of the host copy, also behind the wall
  }
}

}  // namespace
}  // namespace sluice::devices
