// Random networks, cut and scheduled at random over shares of a GPU, against the same network on
// one of them: every variable and every output, bit for bit.
//
//   cuda_random_test [first seed] [end]
//
// Prints what differs, and at the end how many seeds were run; 77 where there is no GPU.
#include "tests/e2e/random_models.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "sluice/devices/cuda/cuda_device.h"

namespace {

using sluice::testing::Variety;

constexpr Variety kVarieties[] = {
    Variety::Devices, Variety::Streams, Variety::Replicas, Variety::Exchanges};

/// Each seed has one variety.
std::string differenceOf(std::uint64_t seed) {
  try {
    return sluice::testing::compareRandomNet(seed, kVarieties[seed % std::size(kVarieties)]);
  } catch (const std::exception& error) {
    return std::string("seed ") + std::to_string(seed) + ": " + error.what();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::string why = sluice::devices::cuda::whyUnusable(); !why.empty()) {
    std::printf("skipped, because devices of kind 'cuda' cannot be used here: %s\n", why.c_str());
    return 77;
  }
  constexpr std::uint64_t kFew = 8;
  const std::uint64_t first = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const std::uint64_t end = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : first + kFew;
  ::setenv("SLUICE_DEVICE", "cuda:0*8", 1);
  int different = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    if (const std::string what = differenceOf(seed); !what.empty()) {
      ++different;
      std::printf("%s\n", what.c_str());
    }
  }
  std::printf("seeds %llu to %llu: %d differ\n",
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(std::max(first, end) - 1),
              different);
  return different == 0 ? 0 : 1;
}
