#include "sluice/devices/measure.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "sluice/base/function_ref.h"
#include "sluice/ops/linear_ops.h"

namespace sluice::devices {
namespace {

// The bytes of ordinary numbers in every float type: some kernels are quicker with zeros.
constexpr std::byte kFilling{0x3C};

/// A product of square matrices, its buffers numbered in the order of its operands.
device::KernelCall productOf(DType type, std::int64_t size) {
  device::KernelCall call;
  call.def = &ops::kMatMul;
  call.attrs = ir::completeAttrs(*call.def, {});
  call.inputTypes.assign(2, TensorType{type, Shape{size, size}});
  call.outputTypes = call.def->infer({*call.def, call.attrs, call.inputTypes, {}});
  call.inputs = {0, 1};
  call.outputs = {2};
  call.scratch = 3;
  return call;
}

/// It, ready to be run any number of times.
class Product {
 public:
  Product(device::Device& device, device::Queue& queue, device::KernelCall call) : queue_(queue) {
    call.choice = device.kernels().choose(call.view());
    for (std::size_t i = 0; i < call.inputTypes.size(); ++i) {
      add(device, call.choice.inputs[i].bytes(call.inputTypes[i]));
    }
    add(device, call.choice.outputs[0].bytes(call.outputTypes[0]));
    add(device, call.choice.scratchBytes);
    executable_ = device.prepare({&call, 1});
    queue_.finish();
  }

  void run(int times) {
    for (int i = 0; i < times; ++i) {
      queue_.launch(*executable_, addresses_);
    }
    queue_.finish();
  }

 private:
  void add(device::Device& device, std::size_t bytes) {
    memory_.push_back(device.allocate(bytes));
    addresses_.push_back(memory_.back()->at());
    queue_.fill(addresses_.back(), kFilling, bytes);
  }

  device::Queue& queue_;
  std::vector<std::unique_ptr<device::Memory>> memory_;
  std::vector<device::Address> addresses_;
  std::unique_ptr<device::Executable> executable_;
};

/// One alone says little on a machine that does other work, too.
constexpr int kFewestRuns = 3;

class Measurement {
 public:
  Measurement(device::Device& device, const MeasureOptions& options)
      : device_(device), options_(options), queue_(device.makeQueue()) {}

  /// Matrices grow until a product is long against what surrounds it.
  double productsPerSecond(DType type) {
    constexpr std::int64_t kSmallest = 64;
    constexpr double kLong = 2e-3;
    for (std::int64_t size = kSmallest;; size *= 2) {
      const device::KernelCall call = productOf(type, size);
      if (!device_.kernels().supports(call.view())) {
        return 0;
      }
      Product product(device_, *queue_, call);
      product.run(1);
      if (2 * size > options_.largest || areLonger(kLong, [&] { product.run(1); })) {
        const auto extent = static_cast<double>(size);
        return 2 * extent * extent * extent / shortest([&] { product.run(1); });
      }
    }
  }

  double launchSeconds() {
    constexpr int kLaunches = 100;
    const device::KernelCall call = productOf(DType::F32, 1);
    if (!device_.kernels().supports(call.view())) {
      return 0;
    }
    Product product(device_, *queue_, call);
    return shortest([&] { product.run(kLaunches); }) / kLaunches;
  }

  double copiedPerSecond(const device::Memory& to, const device::Memory& from) {
    const std::size_t bytes = std::min(to.bytes(), from.bytes());
    return static_cast<double>(bytes) / shortest([&] {
             queue_->copy(to.at(), from.at(), bytes);
             queue_->finish();
           });
  }

 private:
  double seconds(FunctionRef<void()> body) const {
    const std::int64_t start = options_.clock();
    body();
    return static_cast<double>(options_.clock() - start) * 1e-9;
  }

  /// All of several runs: one may have been interrupted.
  bool areLonger(double limit, FunctionRef<void()> body) const {
    for (int i = 0; i < kFewestRuns; ++i) {
      if (seconds(body) < limit) {
        return false;
      }
    }
    return true;
  }

  /// Of as many runs as fill the time, after one that touches all memory.
  double shortest(FunctionRef<void()> body) const {
    constexpr double kTick = 1e-9;  // what the clock cannot tell from nothing
    body();
    double least = std::numeric_limits<double>::max();
    double all = 0;
    for (int i = 0; i < kFewestRuns || all < options_.secondsEach; ++i) {
      const double one = std::max(seconds(body), kTick);
      least = std::min(least, one);
      all += one;
    }
    return least;
  }

  device::Device& device_;
  const MeasureOptions& options_;
  std::unique_ptr<device::Queue> queue_;
};

}  // namespace

Measured measureRates(device::Device& device, const MeasureOptions& options) {
  Measurement measurement(device, options);
  Measured measured;
  measured.rates = {.f32 = measurement.productsPerSecond(DType::F32),
                    .f16 = measurement.productsPerSecond(DType::F16),
                    .bf16 = measurement.productsPerSecond(DType::BF16),
                    .f64 = measurement.productsPerSecond(DType::F64)};
  measured.launchSeconds = measurement.launchSeconds();
  const auto one = device.allocate(options.copyBytes);
  const auto other = device.allocate(options.copyBytes);
  measured.memoryBytesPerSecond = 2 * measurement.copiedPerSecond(*one, *other);
  const auto host = device.allocatePinned(options.copyBytes);
  measured.fromHostBytesPerSecond = measurement.copiedPerSecond(*one, *host);
  measured.toHostBytesPerSecond = measurement.copiedPerSecond(*host, *one);
  return measured;
}

}  // namespace sluice::devices
