// A GPU that fails: its memory is taken, a kernel touches memory that is not there or traps. An
// error of a kernel stays with the process, so that each of these tests runs in a process of its
// own (GoogleTest's death tests, started anew).
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <vector>

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernel.h"
#include "sluice/ops/arithmetic_ops.h"
#include "tests/support/device_group.h"
#include "tests/support/message_of.h"
#include "tests/support/staged_models.h"

namespace sluice::devices::cuda {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20U;
/// Far behind all memory of a GPU.
constexpr std::size_t kNowhere = std::size_t{1} << 44U;

std::size_t freeBytes() {
  select(0);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// All memory of the GPU but some.
std::unique_ptr<device::Memory> takeAllBut(device::Device& gpu, std::size_t left) {
  return gpu.allocate(freeBytes() - left);
}

/// Prints the error and ends the process: 0 if there was one of this type.
template <class E, class F>
[[noreturn]] void exitWithError(F f) {
  int code = 1;
  try {
    f();
  } catch (const E& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "another error: %s\n", error.what());
  }
  std::exit(code);  // with everything that a process does at its end, which must not hang
}

/// The exit code of the process does not tell of expectations.
void requireNoFailure() {
  if (::testing::Test::HasFailure()) {
    throw std::runtime_error("an expectation failed");
  }
}

/// Runs in a new process, up to the statement of the death test.
class CudaFaults : public ::testing::Test {
 protected:
  CudaFaults() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

device::KernelCall square(device::Device& gpu, std::int64_t count) {
  device::KernelCall call;
  call.def = &ops::kMul;
  call.attrs = ir::completeAttrs(ops::kMul, {});
  const TensorType type{DType::F32, Shape{count}};
  call.inputTypes = {type, type};
  call.outputTypes = {type};
  call.name = "square";
  call.choice = gpu.kernels().choose(call.view());
  call.inputs = {0, 0};
  call.outputs = {0};
  return call;
}

TEST(CudaMemoryTaken, ByOthersIsRefusedWithTheFiguresAndUsableAgainLater) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();  // its kernels are loaded while there is room
  {
    const auto others = takeAllBut(*gpu, 64 * kMiB);
    EXPECT_THAT(messageOf<OutOfMemory>([&] { gpu->allocate(512 * kMiB); }),
                AllOf(HasSubstr("cannot give 536870912 bytes"),
                      HasSubstr("bytes are free"),
                      HasSubstr("other programs have the rest")));
    EXPECT_NE(gpu->allocate(kMiB), nullptr);
  }
  EXPECT_NE(gpu->allocate(512 * kMiB), nullptr);
}

TEST(CudaMemoryTaken, IsNoReasonToLoseAModel) {
  sluice::testing::DeviceGroup group(1, {}, "cuda");
  const ir::Graph graph = sluice::testing::chainModel({.blocks = 2});
  const auto loaded = group.load(group.lower(graph, {.deviceOfStage = {0, 0}, .microBatches = 2}));
  const auto inputs = sluice::testing::inputsOf(graph, 2);
  group.step(*loaded, inputs);
  {
    const auto others = takeAllBut(*group.devices[0], 16 * kMiB);
    group.step(*loaded, inputs);  // has its memory
    EXPECT_THROW(group.state->reserveTransient(0, 512 * kMiB), OutOfMemory);
  }
  group.step(*loaded, inputs);
}

TEST_F(CudaFaults, MemoryOfAnotherProgramLeavesTooLittleForABudget) {
  // The process that is started for the statement finds the variable, and takes nothing itself.
  constexpr const char* kTaken = "SLUICE_TEST_MEMORY_TAKEN";
  std::unique_ptr<device::Device> gpu;
  std::unique_ptr<device::Memory> others;
  if (std::getenv(kTaken) == nullptr) {
    gpu = makeCudaDevice();
    others = takeAllBut(*gpu, 4096 * kMiB);
    ::setenv(kTaken, "1", 1);
  }
  EXPECT_EXIT(exitWithError<OutOfMemory>([] { makeCudaDevice({.memoryBytes = 8192 * kMiB}); }),
              ExitedWithCode(0),
              "other programs take [0-9]+; a budget of 8589934592 bytes does not fit");
  ::unsetenv(kTaken);
}

/// Work with an address that is not there.
void squareNowhere(device::Queue& queue, device::Device& gpu, const device::Memory& memory) {
  const device::KernelCall call = square(gpu, 1024);
  const auto executable = gpu.prepare({&call, 1});
  const std::array buffers = {memory.at() + kNowhere};
  queue.launch(*executable, buffers);
  queue.finish();
}

TEST_F(CudaFaults, AnIllegalAddressIsReportedByEveryQueueAndNothingHangs) {
  EXPECT_EXIT(exitWithError<DeviceError>([] {
                const auto gpu = makeCudaDevice();
                const auto queue = gpu->makeQueue();
                const auto other = gpu->makeQueue();
                const auto event = gpu->makeEvent();
                const auto memory = gpu->allocate(4096);
                EXPECT_THROW(squareNowhere(*queue, *gpu, *memory), DeviceError);
                EXPECT_NE(queue->failure(), nullptr);
                EXPECT_NE(other->failure(), nullptr);
                EXPECT_TRUE(other->isIdle());
                EXPECT_THROW(other->fill(memory->at(), std::byte{1}, 4096), DeviceError);
                requireNoFailure();
                queue->finish();
              }),
              ExitedWithCode(0),
              "illegal memory access");
}

TEST_F(CudaFaults, AnIllegalAddressIsNamedWithItsKernelWhenEachIsWaitedFor) {
  EXPECT_EXIT(exitWithError<DeviceError>([] {
                ::setenv("SLUICE_CUDA_SYNC", "1", 1);
                const auto gpu = makeCudaDevice();
                const auto queue = gpu->makeQueue();
                const auto memory = gpu->allocate(4096);
                squareNowhere(*queue, *gpu, *memory);
              }),
              ExitedWithCode(0),
              "illegal memory access.*mul 'square'");
}

TEST_F(CudaFaults, ATrapOfAKernelIsReportedByTheQueuesOfTheGpu) {
  EXPECT_EXIT(exitWithError<DeviceError>([] {
                const auto gpu = makeCudaDevice();
                const auto queue = gpu->makeQueue();
                cudaDeviceProp properties{};
                check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
                const Module module(compile(
                    "extern \"C\" __global__ void fail() { asm volatile(\"trap;\"); }",
                    "sm_" + std::to_string(properties.major) + std::to_string(properties.minor)));
                check(cudaLaunchKernel(module.entry("fail"), dim3(1), dim3(1), nullptr, 0, nullptr),
                      "cudaLaunchKernel");
                EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
                requireNoFailure();
                queue->finish();
              }),
              ExitedWithCode(0),
              "CUDA: cudaStreamSynchronize failed");
}

/// A GPU that gives one captured launch an address that is not there.
class Misguided final : public device::Device {
 public:
  explicit Misguided(int good) : inner_(makeCudaDevice()), good_(good) {}
  const device::DeviceInfo& info() const override { return inner_->info(); }
  const device::KernelTable& kernels() const override { return inner_->kernels(); }
  std::unique_ptr<device::Queue> makeQueue() override { return inner_->makeQueue(); }
  std::unique_ptr<device::Event> makeEvent() override { return inner_->makeEvent(); }

 private:
  std::unique_ptr<device::Memory> doAllocate(std::size_t bytes) override {
    return inner_->allocate(bytes);
  }
  std::unique_ptr<device::Memory> doAllocatePinned(std::size_t bytes) override {
    return inner_->allocatePinned(bytes);
  }
  std::unique_ptr<device::Executable> doPrepare(
      std::span<const device::KernelCall> calls) override {
    return inner_->prepare(calls);
  }
  std::unique_ptr<device::Capture> doCapture(device::Executable& executable,
                                             std::span<const device::Address> buffers) override {
    std::vector<device::Address> given(buffers.begin(), buffers.end());
    if (good_-- == 0) {
      for (device::Address& address : given) {
        address = address + kNowhere;
      }
    }
    return inner_->capture(executable, given);
  }

  std::unique_ptr<device::Device> inner_;
  int good_;
};

/// Two micro-batches are forward and backward, and then the update: the launch after two good ones
/// belongs to micro-batch 1 of the first round.
void stepOnMisguidedGpu() {
  std::vector<std::unique_ptr<device::Device>> devices;
  devices.push_back(std::make_unique<Misguided>(2));
  sluice::testing::DeviceGroup group(std::move(devices));
  const ir::Graph graph = sluice::testing::chainModel({.blocks = 1});
  const auto loaded = group.load(group.lower(graph, {.deviceOfStage = {0}, .microBatches = 2}));
  group.step(*loaded, sluice::testing::inputsOf(graph, 2));
}

TEST_F(CudaFaults, AKernelOfAStepIsNamedByTheTaskThatHadBegun) {
  EXPECT_EXIT(exitWithError<DeviceError>(stepOnMisguidedGpu),
              ExitedWithCode(0),
              "illegal memory access.*tasks begun and not ended: .*compute of device 0: run");
}

}  // namespace
}  // namespace sluice::devices::cuda
