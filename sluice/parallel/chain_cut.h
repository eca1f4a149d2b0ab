// Cuts a chain of items into contiguous parts, one per device. The work of the parts is as even as
// possible, within a tenth; among such cuts it chooses the one that the fewest bytes cross.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sluice::parallel {

struct ChainItem {
  /// Data that every part with a reader keeps, like a weight.
  struct Shared {
    std::int64_t bytes = 0;
    std::size_t next = 0;  ///< the next item that reads it; the number of items: none
  };

  std::int64_t work = 1;
  std::int64_t bytes = 0;      ///< bytes that its part keeps for this item alone
  std::vector<Shared> shared;  ///< shared data that it reads
  std::int64_t crossing = 0;   ///< bytes that go from it or earlier items to later ones
  bool mayCut = true;          ///< whether the chain may be cut after it
};

/// The maximum number of non-empty parts into which the chain can be cut.
std::size_t mostParts(std::span<const ChainItem> items);

/// Returns the part of each item. `shares` are the parts' shares of the work, in order; there are
/// fewer parts if the chain cannot be cut that often. With a budget of bytes per part, a cut is
/// refused if one of its parts exceeds both most of the budget and the largest part of the cut that
/// is most even in bytes. The number of examined parts is added to `looks`, for tests of how the
/// time grows.
std::vector<std::int32_t> cutChain(std::span<const ChainItem> items,
                                   std::span<const double> shares,
                                   std::int64_t budget = 0,
                                   std::size_t* looks = nullptr);

}  // namespace sluice::parallel
