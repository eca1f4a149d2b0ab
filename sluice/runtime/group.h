// Group: the ranks that hold replicas of the same devices, in the order of their replicas, and what
// they do with the terms of all replicas. Every rank of a group has as many replicas as the others.
// A sum adds up the replicas in their order, element by element, wherever they are: it has the bits
// of a sum in one process. Each rank adds up one part of the elements, and the parts are gathered;
// or each has all terms and adds up all elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/program/program.h"
#include "sluice/runtime/communicator.h"

namespace sluice::runtime {

struct Group {
  Communicator* communicator = nullptr;
  std::vector<std::int32_t> ranks;  ///< in the order of their replicas
  std::size_t me = 0;               ///< place of this rank in `ranks`

  bool isWhole() const { return ranks.size() < 2; }  ///< all replicas are here
};

/// Whether every rank adds up a whole sum of so many bytes: few are sent to all at once, instead of
/// a part to each and the sums back.
constexpr bool addsWhole(std::size_t replicas, std::size_t bytes) {
  return replicas * bytes <= std::size_t{32} * 1024;
}

/// The sum of the terms of all replicas; `sources` are those of the replicas here.
MessageBytes sumOf(const Group& group,
                   device::Queue& queue,
                   std::int64_t number,
                   std::span<const device::Address> sources,
                   DType type,
                   std::int64_t elements);

/// What a collective writes in all replicas of this rank together: the whole sum, the sums of their
/// parts one after the other, or the whole value from the parts of all replicas.
MessageBytes reduceOver(const Group& group,
                        device::Queue& queue,
                        std::int64_t number,
                        const program::Collective& collective,
                        std::span<const device::Address> sources);

/// The part of what reduceOver has returned that belongs to replica `local` of this rank.
std::span<const std::byte> shareOf(const program::Collective& collective,
                                   const MessageBytes& reduced,
                                   std::size_t local);

}  // namespace sluice::runtime
