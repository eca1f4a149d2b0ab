#include "sluice/devices/cuda/launch_order.h"

#include <algorithm>

namespace sluice::devices::cuda {
namespace {

bool anyMeet(std::span<const ByteRange> some, std::span<const ByteRange> others) {
  return std::ranges::any_of(some, [&](const ByteRange& one) {
    return std::ranges::any_of(others, [&](const ByteRange& other) { return one.meets(other); });
  });
}

}  // namespace

bool Access::conflicts(const Access& other) const {
  return anyMeet(writes, other.writes) || anyMeet(writes, other.reads) ||
         anyMeet(reads, other.writes);
}

std::vector<std::vector<std::size_t>> launchOrder(std::span<const Access> kernels) {
  std::vector<std::vector<std::size_t>> order(kernels.size());
  std::vector<std::vector<bool>> follows(kernels.size());  // by kernel and earlier kernel
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    std::vector<bool>& mine = follows[k];
    mine.resize(k, false);
    for (std::size_t earlier = k; earlier-- > 0;) {
      if (mine[earlier] || !kernels[k].conflicts(kernels[earlier])) {
        continue;
      }
      order[k].push_back(earlier);
      mine[earlier] = true;
      for (std::size_t i = 0; i < earlier; ++i) {
        mine[i] = mine[i] || follows[earlier][i];
      }
    }
  }
  return order;
}

}  // namespace sluice::devices::cuda
