// What a CUDA device promises besides right kernels: memory, order, stamps and errors.
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/devices/cuda/cuda_queue.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/device_run.h"
#include "tests/support/message_of.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cuda {
namespace {

using device::Stamp;
using sluice::testing::messageOf;
using sluice::testing::runOnDevice;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 1 << 16;
constexpr std::size_t kBytes = kCount * sizeof(float);

std::vector<float> counting(float first) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    values[i] = first + static_cast<float>(i % 1000);
  }
  return values;
}

std::vector<float> readBack(device::Queue& queue, device::Address from) {
  std::vector<float> values(kCount);
  device::copyOut(queue, values.data(), from, kBytes);
  return values;
}

/// x * x, in place, in buffer 0.
std::unique_ptr<device::Executable> squareInPlace(device::Device& gpu) {
  device::KernelCall call;
  call.def = &ops::kMul;
  call.attrs = ir::completeAttrs(ops::kMul, {});
  const TensorType type{DType::F32, Shape{static_cast<std::int64_t>(kCount)}};
  call.inputTypes = {type, type};
  call.outputTypes = {type};
  call.name = "square";
  call.choice = gpu.kernels().choose(call.view());
  call.inputs = {0, 0};
  call.outputs = {0};
  return gpu.prepare({&call, 1});
}

TEST(CudaDevice, IsWhatTheGpuIs) {
  const auto gpu = makeCudaDevice({.threads = 2});
  const auto quarter = makeCudaDevice({.shares = 4});
  EXPECT_EQ(gpu->info().kind, "cuda");
  EXPECT_THAT(gpu->info().description, HasSubstr("compute capability"));
  EXPECT_FALSE(gpu->info().hostReadable);
  EXPECT_TRUE(gpu->info().asynchronous);
  EXPECT_GT(gpu->info().copyEngines, 0);
  EXPECT_EQ(quarter->info().shares, 4);
  EXPECT_EQ(quarter->info().memoryBytes, gpu->info().memoryBytes / 4);
  EXPECT_EQ(makeCudaDevice({.memoryBytes = 1000})->info().memoryBytes, 1000U);
}

TEST(CudaMemory, IsRefusedWithTheFigures) {
  const auto gpu = makeCudaDevice();
  const std::size_t all = gpu->info().memoryBytes;
  EXPECT_THAT(messageOf<OutOfMemory>([&] { makeCudaDevice({.memoryBytes = all + 1}); }),
              AllOf(HasSubstr(std::to_string(all)), HasSubstr(std::to_string(all + 1))));
  EXPECT_THAT(messageOf<OutOfMemory>([&] { gpu->allocate(all); }),
              AllOf(HasSubstr("cudaMalloc"), HasSubstr(std::to_string(all)), HasSubstr("free")));
  EXPECT_THAT(messageOf<OutOfMemory>([&] { gpu->allocatePinned(std::size_t{1} << 50U); }),
              HasSubstr("page-locked"));
  EXPECT_NE(gpu->allocate(0), nullptr);
  EXPECT_EQ(gpu->allocate(8)->host(), nullptr);
  EXPECT_NE(gpu->allocatePinned(8)->host(), nullptr);
}

TEST(CudaMemory, OfTheContextIsNotForPlans) {
  const device::DeviceInfo whole = makeCudaDevice()->info();
  const device::DeviceInfo quarter = makeCudaDevice({.shares = 4})->info();
  EXPECT_GT(whole.ownBytes, std::size_t{100} << 20U);
  EXPECT_EQ(quarter.ownBytes, whole.ownBytes / 4);
  EXPECT_EQ(makeCudaDevice({.memoryBytes = 1000})->info().ownBytes, 0U);
  EXPECT_THROW(makeCudaDevice({.memoryBytes = whole.memoryBytes - 1000}), OutOfMemory);
}

TEST(CudaMemory, OfTheHostCanBeLocked) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto memory = gpu->allocate(kBytes);
  std::vector<float> values = counting(3);
  const auto locked = gpu->pin(reinterpret_cast<std::byte*>(values.data()), kBytes);
  ASSERT_NE(locked, nullptr);
  EXPECT_EQ(locked->host(), reinterpret_cast<std::byte*>(values.data()));
  queue->copy(memory->at(), locked->at(), kBytes);
  queue->finish();
  EXPECT_EQ(readBack(*queue, memory->at()), values);
  EXPECT_EQ(gpu->pin(reinterpret_cast<std::byte*>(values.data()), kBytes), nullptr);  // twice
}

TEST(CudaQueue, CopiesFillsAndAddsInItsOrder) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto memory = gpu->allocate(4 * kBytes);
  const std::vector<float> one = counting(1);
  const std::vector<float> two = counting(0.25F);
  device::copyIn(*queue, memory->at(), one.data(), kBytes);
  device::copyIn(*queue, memory->at(kBytes), two.data(), kBytes);
  queue->copy(memory->at(2 * kBytes), memory->at(), kBytes);
  const std::array from = {memory->at(), memory->at(kBytes), memory->at(2 * kBytes)};
  queue->sum(memory->at(3 * kBytes), from, DType::F32, kCount);
  queue->fill(memory->at(), std::byte{0}, kBytes);
  EXPECT_EQ(readBack(*queue, memory->at()), std::vector<float>(kCount, 0.0F));
  const std::vector<float> sums = readBack(*queue, memory->at(3 * kBytes));
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sums[i], one[i] + two[i] + one[i]);
  }
  EXPECT_TRUE(queue->isIdle());
  EXPECT_EQ(queue->failure(), nullptr);
}

/// Terms of other processes come in any memory of the host, and the sum may go there.
TEST(CudaQueue, AddsTermsOfTheHostInTheirOrder) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto memory = gpu->allocate(kBytes);
  std::vector<float> large(kCount, 1e8F);
  const std::vector<float> small = counting(0.5F);
  std::vector<float> back(kCount, -1e8F);
  device::copyIn(*queue, memory->at(), small.data(), kBytes);
  const device::HostMemory first(large.data(), kBytes);
  const device::HostMemory last(back.data(), kBytes);
  std::vector<float> sums(kCount);
  const device::HostMemory result(sums.data(), kBytes);
  const std::array from = {first.at(), memory->at(), last.at()};
  queue->sum(result.at(), from, DType::F32, kCount);
  queue->finish();
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sums[i], (1e8F + small[i]) + -1e8F);
  }
  const std::array one = {last.at()};
  queue->sum(memory->at(), one, DType::F32, kCount);
  EXPECT_EQ(readBack(*queue, memory->at()), back);
  constexpr std::size_t kTooMuch = std::size_t{1} << 44U;  // nobody reads so far
  const device::HostMemory endless(large.data(), kTooMuch);
  const std::array much = {endless.at()};
  EXPECT_THAT(messageOf<OutOfMemory>(
                  [&] { queue->sum(endless.at(), much, DType::F32, kTooMuch / sizeof(float)); }),
              HasSubstr("cudaMallocAsync"));
}

TEST(CudaQueue, WaitsForEventsOfOthers) {
  const auto gpu = makeCudaDevice();
  const auto share = makeCudaDevice({.shares = 2});
  const auto first = gpu->makeQueue();
  const auto second = share->makeQueue();
  const auto memory = gpu->allocate(kBytes);
  const auto square = squareInPlace(*gpu);
  const std::array buffers = {memory->at()};
  const std::vector<float> halves(kCount, 1.0001F);
  device::copyIn(*first, memory->at(), halves.data(), kBytes);
  const auto event = gpu->makeEvent();
  for (int i = 0; i < 10; ++i) {
    first->launch(*square, buffers);
  }
  first->record(*event);
  second->wait(*event);
  const std::vector<float> seen = readBack(*second, memory->at());
  EXPECT_TRUE(event->isDone());
  EXPECT_TRUE(event->await(std::chrono::milliseconds(0)));
  float expected = 1.0001F;
  for (int i = 0; i < 10; ++i) {
    expected *= expected;
  }
  EXPECT_EQ(seen, std::vector<float>(kCount, expected));
}

TEST(CudaQueue, StampsPinnedMemoryAndAnyOther) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto pinned = gpu->allocatePinned(sizeof(Stamp));
  auto* const quick = new (pinned->host()) Stamp;
  Stamp slow;
  for (Stamp* stamp : {quick, &slow}) {
    const std::int64_t before = device::steadyNanoseconds();
    queue->stamp(*stamp, 7);
    queue->finish();
    EXPECT_EQ(stamp->number.load(), 7);
    constexpr std::int64_t kSkew = 20'000'000;  // of the GPU's clock
    EXPECT_GT(stamp->time.load(), before - kSkew);
    EXPECT_LT(stamp->time.load(), device::steadyNanoseconds() + kSkew);
  }
}

/// The function of the host has its data for one call, and a capture would call it again.
TEST(CudaQueue, RecordsNoStampThatTheHostWrites) {
  ::setenv("SLUICE_CUDA_WHOLE_STEPS", "1", 1);
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  ::unsetenv("SLUICE_CUDA_WHOLE_STEPS");
  std::array<device::Queue*, 1> all = {queue.get()};
  Stamp slow;
  EXPECT_THAT(messageOf<DeviceError>([&] { gpu->record(all, {}, [&] { queue->stamp(slow, 7); }); }),
              HasSubstr("a stamp can be recorded in page-locked memory"));
  queue->stamp(slow, 7);
  queue->finish();
  EXPECT_EQ(slow.number.load(), 7);
}

TEST(CudaQueue, EndsWhenTheStepIsGivenUp) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto memory = gpu->allocate(kBytes);
  const auto square = squareInPlace(*gpu);
  std::atomic<bool> stop{false};
  queue->stopWhen(&stop);
  const std::array buffers = {memory->at()};
  queue->launch(*square, buffers);
  stop = true;
  EXPECT_THROW(queue->launch(*square, buffers), Cancelled);
  queue->finish();
}

TEST(CudaQueue, ReportsIndicesOutOfRangeAndGoesOn) {
  const auto gpu = makeCudaDevice();
  const HostTensor x = HostTensor::of<float>({3}, {1, 2, 3});
  const auto gather = [&](std::int64_t index) {
    return runOnDevice(*gpu,
                       {.def = ops::kGather,
                        .attrs = {{"axis", 0}},
                        .inputs = {x, HostTensor::of<std::int64_t>({1}, {index})}});
  };
  EXPECT_THAT(messageOf([&] { gather(3); }),
              AllOf(HasSubstr("gather"), HasSubstr("index 3"), HasSubstr("extent 3")));
  EXPECT_EQ(gather(-1)[0].at(0), 3);
  const HostTensor logits = HostTensor::of<float>({1, 2}, {-1, -2});
  EXPECT_THAT(messageOf([&] {
                runOnDevice(*gpu,
                            {.def = ops::kNllLoss,
                             .inputs = {logits, HostTensor::of<std::int64_t>({1}, {2})}});
              }),
              AllOf(HasSubstr("nll_loss"), HasSubstr("label 2"), HasSubstr("2 classes")));
}

/// Dropout from buffer 0 to buffer 1.
std::unique_ptr<device::Executable> dropout(device::Device& gpu) {
  device::KernelCall call;
  call.def = &ops::kDropout;
  call.attrs = ir::completeAttrs(ops::kDropout, {{"p", 0.5}, {"ordinal", 3}});
  const TensorType type{DType::F32, Shape{static_cast<std::int64_t>(kCount)}};
  call.inputTypes = {type};
  call.outputTypes = {type};
  call.name = "dropout";
  call.choice = gpu.kernels().choose(call.view());
  call.inputs = {0};
  call.outputs = {1};
  return gpu.prepare({&call, 1});
}

TEST(CudaQueue, ReplaysACaptureWithNewNumbers) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  const auto memory = gpu->allocate(2 * kBytes);
  const std::vector<float> ones(kCount, 1.0F);
  device::copyIn(*queue, memory->at(), ones.data(), kBytes);
  const auto executable = dropout(*gpu);
  const std::array buffers = {memory->at(), memory->at(kBytes)};
  const auto capture = gpu->capture(*executable, buffers);
  ASSERT_NE(capture, nullptr);
  const auto result = [&](std::int64_t microBatch, bool captured) {
    queue->setRun({.seed = 5, .microBatch = microBatch});
    queue->fill(memory->at(kBytes), std::byte{0xFF}, kBytes);
    captured ? queue->replay(*capture) : queue->launch(*executable, buffers);
    return readBack(*queue, memory->at(kBytes));
  };
  EXPECT_EQ(result(1, true), result(1, false));
  EXPECT_EQ(result(2, true), result(2, false));
  EXPECT_NE(result(1, true), result(2, true));
}

/// Accumulates buffer 0 in each of the others, or squares it there.
std::vector<device::KernelCall> accumulations(device::Device& gpu,
                                              std::span<const TensorType> types) {
  std::vector<device::KernelCall> calls;
  for (std::size_t i = 0; i < types.size(); ++i) {
    device::KernelCall call;
    call.def = i % 3 == 2 ? &ops::kMul : &ir::kAssign;
    call.attrs =
        i % 3 == 2
            ? ir::completeAttrs(ops::kMul, {})
            : ir::completeAttrs(ir::kAssign, {{"var", "a"}, {"mode", i % 3 == 0 ? "sum" : "mean"}});
    call.inputTypes = std::vector<TensorType>(i % 3 == 2 ? 2 : 1, types[i]);
    call.outputTypes = {types[i]};
    call.name = "small" + std::to_string(i);
    call.choice = gpu.kernels().choose(call.view());
    call.inputs = std::vector<std::int32_t>(call.inputTypes.size(), 0);
    call.outputs = {static_cast<std::int32_t>(i) + 1};
    calls.push_back(std::move(call));
  }
  return calls;
}

TEST(CudaQueue, RunsManySmallKernelsAsOneWithTheSameBits) {
  const auto gpu = makeCudaDevice();
  const auto queue = gpu->makeQueue();
  std::vector<TensorType> types;
  for (std::int64_t i = 0; i < 50; ++i) {
    const DType type = std::array{DType::F32, DType::BF16, DType::F16, DType::F64}[i % 4U];
    types.push_back({type, Shape{1 + (i * 631) % 3000}});
  }
  const std::vector<device::KernelCall> calls = accumulations(*gpu, types);
  const auto executable = gpu->prepare(calls);
  constexpr std::size_t kRoom = 3072 * sizeof(double);
  const auto memory = gpu->allocate((types.size() + 1) * kRoom);
  std::vector<device::Address> buffers;
  for (std::size_t i = 0; i <= types.size(); ++i) {
    buffers.push_back(memory->at(i * kRoom));
  }
  const auto capture = gpu->capture(*executable, buffers);
  EXPECT_EQ(static_cast<const CudaCapture&>(*capture).launches(), 1U);
  std::vector<std::byte> start(memory->bytes());
  for (std::size_t i = 0; i < start.size(); ++i) {
    start[i] = static_cast<std::byte>((i * 37 + i / 251) % 61);  // small numbers in every type
  }
  const auto result = [&](std::int64_t microBatch, bool captured) {
    std::vector<std::byte> bytes(start.size());
    device::copyIn(*queue, memory->at(), start.data(), start.size());
    queue->setRun({.microBatchInRound = microBatch});
    captured ? queue->replay(*capture) : queue->launch(*executable, buffers);
    device::copyOut(*queue, bytes.data(), memory->at(), bytes.size());
    return bytes;
  };
  for (const std::int64_t microBatch : {0, 1, 3}) {
    EXPECT_EQ(result(microBatch, true), result(microBatch, false)) << microBatch;
  }
  EXPECT_NE(result(0, true), start);
}

TEST(CudaQueue, GivesKernelsTheNumbersOfTheStep) {
  const auto gpu = makeCudaDevice();
  const HostTensor ones = HostTensor::full({DType::F32, Shape{64}}, 1.0);
  const auto dropped = [&](std::int64_t microBatch) {
    return runOnDevice(*gpu,
                       {.def = ops::kDropout,
                        .attrs = {{"p", 0.5}, {"ordinal", 3}},
                        .inputs = {ones},
                        .info = {.seed = 5, .microBatch = microBatch}})[0];
  };
  EXPECT_TRUE(dropped(1).sameBits(dropped(1)));
  EXPECT_FALSE(dropped(1).sameBits(dropped(2)));
}

}  // namespace
}  // namespace sluice::devices::cuda
