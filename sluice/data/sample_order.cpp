#include <numeric>
#include <utility>

#include "sluice/base/hash.h"
#include "sluice/base/philox.h"
#include "sluice/data/dataset.h"

namespace sluice::data {

std::vector<std::int64_t> sampleOrder(std::int64_t samples,
                                      Shuffle shuffle,
                                      std::uint64_t seed,
                                      std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (shuffle == Shuffle::No) {
    return order;
  }
  const RandomStream stream{Hasher().add(seed).add(epoch).digest(), 0, 0};
  for (std::size_t i = order.size(); i > 1; --i) {
    // The bias of a 32-bit word over at most 2^31 samples is far below what training can see.
    const std::uint64_t word = stream.word(i);
    std::swap(order[i - 1], order[(word * i) >> 32]);
  }
  return order;
}

}  // namespace sluice::data
