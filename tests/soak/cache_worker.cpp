// Compiles models out of a small cache again and again: what cache.py starts several times on one
// folder. Every result is compared with that of the same model without a cache, so a wrong hit is
// found; some files are damaged or removed on the way.
//
//   cache_worker <folder> <seconds> <cache bytes> <seed>
//
// Prints "calls <n> hits <n> damaged <n> largest <bytes of the folder>".
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>

#include <fmt/core.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/executable_cache.h"
#include "sluice/sluice.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

constexpr unsigned kModels = 96;  // more than the cache has room for
constexpr unsigned kOften = 6;    // of them are used as often as all others together

/// A model whose program has a constant that cannot be compressed: its entry takes as many bytes.
struct Net : nn::Module {
  explicit Net(int number) {
    std::mt19937 draw(static_cast<unsigned>(number) + 1);
    const std::int64_t rows = 16 * (1 + number % 12);
    HostTensor values(DType::F32, Shape{64, rows * 16});
    for (float& value : values.data<float>()) {
      value = static_cast<float>(draw()) * 0x1p-32F - 0.5F;
    }
    weights = values;
  }
  HostTensor weights;
  nn::Tensor forward(const nn::Tensor& x) {
    return nn::tanh(nn::sum(nn::matmul(x, nn::constant(weights)), {1}, true));
  }
};

HostTensor input() {
  HostTensor x(DType::F32, Shape{2, 64});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, static_cast<double>(i % 7) / 7 - 0.4);
  }
  return x;
}

struct Result {
  std::uint64_t hash = 0;
  bool hit = false;
};

Result run(int number, const Options& options) {
  Net net(number);
  auto model = inferenceModel(net, options);
  const HostTensor y = model(input());
  return {y.hash(), model.compiled().cached};
}

/// What another program, or a disk, may do to a file. Returns whether there was one.
bool spoil(const ExecutableCache& cache, std::mt19937& draw) {
  const std::vector<ExecutableCache::File> files = cache.files();
  if (files.empty()) {
    return false;
  }
  const ExecutableCache::File& file = files[draw() % files.size()];
  std::error_code gone;  // another process may have removed it
  if (draw() % 2 == 0) {
    return fs::remove(file.path, gone);
  }
  std::fstream bytes(file.path, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(draw() % std::max<std::uint64_t>(file.bytes, 1)));
  bytes.put('x');
  return bytes.good();
}

void hammer(const fs::path& folder, double seconds, std::uint64_t bytes, unsigned seed) {
  std::mt19937 draw(seed);
  const ExecutableCache cache(folder, bytes);
  const Options cached = Options().enableExecutableCaching(folder.string(), std::to_string(bytes));
  std::map<int, std::uint64_t> expected;
  std::int64_t calls = 0;
  std::int64_t hits = 0;
  std::int64_t damaged = 0;
  std::uint64_t largest = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    const int number = static_cast<int>(draw() % (draw() % 2 == 0 ? kOften : kModels));
    if (!expected.contains(number)) {
      expected[number] = run(number, Options().enableExecutableCaching("")).hash;
    }
    const Result result = run(number, cached.clone());
    if (result.hash != expected[number]) {
      throw InternalError(fmt::format("model {} has another result out of the cache", number));
    }
    ++calls;
    hits += result.hit ? 1 : 0;
    damaged += draw() % 20 == 0 && spoil(cache, draw) ? 1 : 0;
    largest = std::max(largest, cache.bytes());
    if (largest > bytes) {
      throw InternalError(fmt::format("the cache has {} bytes, allowed are {}", largest, bytes));
    }
  }
  fmt::print("calls {} hits {} damaged {} largest {}\n", calls, hits, damaged, largest);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    return 2;
  }
  try {
    hammer(argv[1],
           std::atof(argv[2]),
           static_cast<std::uint64_t>(std::atoll(argv[3])),
           static_cast<unsigned>(std::atoll(argv[4])));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
