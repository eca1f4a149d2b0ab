#include "sluice/devices/sim/sim_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/sim/kernel_cost.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::devices::sim {
namespace {

device::KernelCall product(DType type, std::int64_t size, std::string_view implementation = "i") {
  device::KernelCall call;
  call.def = &ops::kMatMul;
  call.attrs = ir::completeAttrs(*call.def, {});
  call.inputTypes.assign(2, TensorType{type, Shape{size, size}});
  call.outputTypes = call.def->infer({*call.def, call.attrs, call.inputTypes, {}});
  call.choice = device::plainChoice(call.view(), implementation);
  return call;
}

/// 1 MHz: a tick is a microsecond.
SimTarget slow() {
  return {.name = "slow",
          .clockHz = 1'000'000,
          .flops = {.f32 = 1e6, .f16 = 4e6},
          .memoryBytesPerSecond = 1e6,
          .kernelTicks = 10};
}

TEST(KernelCost, IsTheLongerOfArithmeticAndTraffic) {
  // 2 n^3 operations, 3 n^2 elements.
  EXPECT_EQ(kernelTicks(slow(), product(DType::F32, 10)), 10 + 2000);
  EXPECT_EQ(kernelTicks(slow(), product(DType::F16, 10)), 10 + 600);  // 500 of arithmetic
  EXPECT_EQ(kernelTicks(slow(), product(DType::F16, 20)), 10 + 4000);
  EXPECT_EQ(kernelTicks(slow(), product(DType::F32, 4)), 10 + 192);
  EXPECT_EQ(kernelTicks(slow(), product(DType::F64, 10)), 10 + 2400);  // 2000 at the rate of f32
  SimTarget free = slow();
  free.flops = {};
  free.memoryBytesPerSecond = 0;
  EXPECT_EQ(kernelTicks(free, product(DType::F32, 10)), 10);
}

TEST(KernelCost, IsWhatWasMeasured) {
  SimTarget target = slow();
  const device::KernelCall call = product(DType::F32, 10);
  target.kernels[kernelKey(call)] = 0.123;
  EXPECT_EQ(kernelTicks(target, call), 123'000);
  EXPECT_EQ(kernelTicks(target, product(DType::F32, 11)),
            kernelTicks(slow(), product(DType::F32, 11)));
}

TEST(KernelCost, TellsKernelsApart) {
  const device::KernelCall call = product(DType::F32, 10);
  EXPECT_EQ(kernelKey(call), kernelKey(product(DType::F32, 10)));
  EXPECT_NE(kernelKey(call), kernelKey(product(DType::F32, 11)));
  EXPECT_NE(kernelKey(call), kernelKey(product(DType::F16, 10)));
  EXPECT_NE(kernelKey(call), kernelKey(product(DType::F32, 10, "other")));
  device::KernelCall transposed = call;
  transposed.attrs = ir::completeAttrs(*call.def, {{"transposeB", true}});
  EXPECT_NE(kernelKey(call), kernelKey(transposed));
  device::KernelCall named = call;
  named.name = "layer1/matmul";  // a name changes no time
  EXPECT_EQ(kernelKey(call), kernelKey(named));
}

TEST(SimDevice, HasTheMemoryOfItsTarget) {
  SimTarget target = slow();
  target.memoryBytes = 1 << 20;
  EXPECT_EQ(makeSimDevice({.target = target})->info().memoryBytes, 1U << 20);
  EXPECT_EQ(makeSimDevice({.target = target, .memoryBytes = 5000})->info().memoryBytes, 5000U);
  const auto device = makeSimDevice({.target = target, .memoryBytes = 1U << 30});
  EXPECT_EQ(device->info().memoryBytes, 1U << 20);
  EXPECT_THROW(device->allocate((1 << 20) + 1), OutOfMemory);
  target.memoryBytes = 0;
  EXPECT_EQ(makeSimDevice({.target = target})->info().memoryBytes, 0U);
}

TEST(SimDevice, ChoosesTheKernelsOfTheCpuAndModelsTheirTime) {
  const auto device = makeSimDevice({.target = slow(), .index = 3});
  EXPECT_EQ(device->info().kind, "sim");
  EXPECT_EQ(device->info().index, 3);
  EXPECT_THAT(device->info().description, ::testing::HasSubstr("slow"));
  device::KernelCall call = product(DType::F32, 10);
  EXPECT_EQ(device->kernels().choose(call.view()), cpu::cpuKernelTable().choose(call.view()));
  const device::CostModel* model = device::costModelOf(*device);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->ticksPerSecond(), 1'000'000);
  EXPECT_EQ(model->kernelTicks(call), 2010);
  EXPECT_EQ(device::costModelOf(*cpu::makeCpuDevice()), nullptr);
}

}  // namespace
}  // namespace sluice::devices::sim
