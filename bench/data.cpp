// The MNIST loader, shuffled and normalised, with one worker: against PyTorch's DataLoader, against
// what training consumes, and how long devices wait for input. Images are random bytes: reading
// them costs the same. Prints one JSON object.
//
//   bench_data [launches]
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string_view>

#include <unistd.h>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;
using bench::Json;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kImages = 60000;
constexpr std::int64_t kBatch = bench::kMnistBatch;

data::DatasetPtr images() {
  HostTensor pixels(DType::U8, Shape{kImages, 28, 28});
  std::uint32_t state = 1;
  for (std::uint8_t& pixel : pixels.data<std::uint8_t>()) {
    state = state * 1664525 + 1013904223;
    pixel = static_cast<std::uint8_t>(state >> 24);
  }
  const HostTensor labels = testing::randomTensor(2, {DType::I64, {kImages}}, 0, 10);
  return data::normalize(data::toTensor(data::tensorDataset({pixels, labels})), {0.1307}, {0.3081});
}

constexpr DataLoaderOptions kLoading{
    .shuffle = data::Shuffle::Yes, .workers = 1, .mode = DataLoaderMode::Async};

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Batch nextBatch(DataLoader& loader) {
  std::optional<Batch> batch = loader.next();
  return batch ? *std::move(batch) : *loader.next();
}

/// Batches of 40 images, as PyTorch's loader gives them.
Json load() {
  DataLoader loader(Options(), images(), kBatch, kLoading);
  constexpr int kPerCall = 100;
  const auto call = [&] {
    for (int i = 0; i < kPerCall; ++i) {
      nextBatch(loader);
    }
  };
  Json result = bench::perUpdate(bench::timeCalls(call, 5, 60), kPerCall);
  result["images_per_second"] = 1e6 * kBatch / result["us_per_update"].get<double>();
  return result;
}

/// Microseconds of a trace in which a device runs no kernel while input is copied to it, and all.
std::pair<double, double> inputWait(const std::filesystem::path& trace) {
  const Json events = Json::parse(std::ifstream(trace))["traceEvents"];
  std::vector<std::pair<double, double>> kernels;
  std::vector<std::pair<double, double>> feeds;
  double begin = 1e300;
  double end = 0;
  for (const Json& event : events) {
    if (event["ph"] != "X") {
      continue;
    }
    const double start = event["ts"];
    const double stop = start + event["dur"].get<double>();
    begin = std::min(begin, start);
    end = std::max(end, stop);
    (event["cat"] == "feed" ? feeds : kernels).emplace_back(start, stop);
  }
  double wait = 0;
  for (const auto& [start, stop] : feeds) {
    double hidden = 0;
    for (const auto& [from, to] : kernels) {
      hidden += std::max(0.0, std::min(stop, to) - std::max(start, from));
    }
    wait += std::max(0.0, stop - start - hidden);
  }
  return {wait, end - begin};
}

/// Training from the loader on one device of one thread: images per second of the step alone, and
/// what it waits: for the next batch between steps, and for copies to the device within.
Json trainFromLoader() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("sluice-bench-data-" + std::to_string(::getpid()));
  testing::MnistNetwork net;
  Options options;
  options.deviceIterations(100).threads(1).enableProfiling(folder.string());
  auto model = trainingModel(net, options, optim::AdamW(1e-3));
  DataLoader loader(options, images(), kBatch, kLoading);
  model.run(nextBatch(loader));
  constexpr int kSteps = 15;
  double waited = 0;
  double ran = 0;
  for (int i = 0; i < kSteps; ++i) {
    auto start = Clock::now();
    const Batch batch = nextBatch(loader);
    waited += secondsSince(start);
    start = Clock::now();
    model.run(batch);
    ran += secondsSince(start);
  }
  const auto [wait, span] = inputWait(folder / "training" / "trace.json");
  std::filesystem::remove_all(folder);
  const double trained = kSteps * static_cast<double>(loader.combinedBatchSize());
  return {{"images_per_second", trained / ran},
          {"wait_for_batch", waited / ran},
          {"wait_in_step", wait / span}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("--load")) {
    std::cout << load() << "\n";
    return 0;
  }
  const int launches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  Json report = bench::compare(
      bench::self({"--load"}), {bench::torch("data_torch.py", {"loader"})}, launches);
  report["training"] = trainFromLoader();
  report["loader_over_training"] = report["sluice"]["images_per_second"].get<double>() /
                                   report["training"]["images_per_second"].get<double>();
  std::cout << report.dump(2) << "\n";
  return 0;
}
