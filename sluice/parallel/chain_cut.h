// Cuts a chain of items into contiguous parts, one per device: as even in work as can be, give or
// take a tenth, and of those cuts the one over which the fewest bytes go.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::parallel {

struct ChainItem {
  /// Something that every part with a reader keeps, like a weight.
  struct Shared {
    std::int64_t bytes = 0;
    std::size_t next = 0;  ///< the next item that reads it; the number of items: none does
  };

  std::int64_t work = 1;
  std::int64_t bytes = 0;      ///< that its part keeps for it alone
  std::vector<Shared> shared;  ///< that it reads
  std::int64_t crossing = 0;   ///< bytes that go from it or earlier ones to later ones
  bool mayCut = true;          ///< behind it
};

/// Into how many parts the chain can be cut so that none is empty.
std::size_t mostParts(std::span<const ChainItem> items);

/// The part of each item. `shares` are those of the parts in the work, in order; there are fewer
/// parts if the chain cannot be cut so often. With a budget of bytes per part, cuts that keep more
/// than the evenest in bytes are left out unless they stay well below the budget. The number of
/// parts that it looks at is added to `looks`, for tests of how the time grows.
std::vector<std::int32_t> cutChain(std::span<const ChainItem> items,
                                   std::span<const double> shares,
                                   std::int64_t budget = 0,
                                   std::size_t* looks = nullptr);

}  // namespace sluice::parallel
