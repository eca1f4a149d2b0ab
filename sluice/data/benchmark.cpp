#include <chrono>
#include <cstring>
#include <functional>

#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/data/queues.h"

namespace sluice::data {
namespace {

using Json = nlohmann::ordered_json;
using Next = std::function<std::vector<HostTensor>()>;

/// Copies an element and gives its size.
class Copier {
 public:
  std::int64_t copy(std::span<const HostTensor> element, bool copies) {
    std::size_t bytes = 0;
    for (const HostTensor& tensor : element) {
      bytes += tensor.byteCount();
    }
    if (copies) {
      memory_.resize(std::max(memory_.size(), bytes));
      std::size_t at = 0;
      for (const HostTensor& tensor : element) {
        std::memcpy(memory_.data() + at, tensor.bytes(), tensor.byteCount());
        at += tensor.byteCount();
      }
    }
    return static_cast<std::int64_t>(bytes);
  }

 private:
  std::vector<std::byte> memory_;
};

Json runEpoch(const Next& next, std::int64_t elements, const BenchmarkOptions& options) {
  using Clock = std::chrono::steady_clock;
  Copier copier;
  std::int64_t bytes = 0;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < elements; ++i) {
    bytes += copier.copy(next(), options.doMemcpy);
  }
  constexpr double kTick = 1e-9;  // no clock that a division could not stand
  const double seconds =
      std::max(kTick, std::chrono::duration<double>(Clock::now() - start).count());
  return {{"elements_processed", elements},
          {"total_bytes_processed", bytes},
          {"time_elapsed", seconds},
          {"elements_per_second", static_cast<double>(elements) / seconds},
          {"bandwidth", static_cast<double>(bytes) / seconds / 1e9}};
}

std::string run(const Next& next,
                const std::function<void()>& begin,
                std::int64_t epochs,
                std::int64_t elements,
                const BenchmarkOptions& options) {
  if (epochs < 1 || elements < 1) {
    raise<InvalidArgument>(
        "benchmark: needs at least one epoch of one element, got {} of {}", epochs, elements);
  }
  Json report = {{"epochs", Json::array()}};
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    begin();
    const Json result = runEpoch(next, elements, options);
    if (options.printStats) {
      log::info("data",
                "epoch {}: {:.1f} elements/s, {:.3f} GB/s",
                epoch,
                result["elements_per_second"].get<double>(),
                result["bandwidth"].get<double>());
    }
    report["epochs"].push_back(result);
  }
  return report.dump(2);
}

}  // namespace

std::string datasetBenchmark(IterableDataset& dataset,
                             std::int64_t epochs,
                             std::int64_t elements,
                             const BenchmarkOptions& options) {
  const auto next = [&] {
    std::optional<Sample> sample = dataset.next();
    if (!sample) {
      raise<InvalidArgument>(
          "benchmark: the dataset ends before element {} of an epoch; repeat() gives it no end",
          elements);
    }
    return *std::move(sample);
  };
  return run(
      next, [&] { dataset.restart(); }, epochs, elements, options);
}

std::string infeedBenchmark(InfeedQueue& queue,
                            std::int64_t epochs,
                            std::int64_t elements,
                            const BenchmarkOptions& options) {
  return run([&] { return queue.dequeue(); }, [] {}, epochs, elements, options);
}

}  // namespace sluice::data
