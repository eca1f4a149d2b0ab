// What a Reduction does with the operands of all replicas. A part is one of as many equal runs of
// elements as there are replicas, the last ones padded with zeros.
#pragma once

#include <cstddef>
#include <span>

#include "sluice/device/device.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

/// The bytes of a whole that are a replica's part of it; less than a part where it ends.
struct Part {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};
Part partOf(std::size_t wholeBytes, std::size_t partBytes, std::size_t replica);

/// `sources` are the operands by replica; afterwards where the terms of a sum begin. Gives the
/// number of elements that were added up.
std::int64_t reduce(device::Queue& queue,
                    const program::Reduction& reduction,
                    std::span<device::Address> sources,
                    device::Address to,
                    std::size_t replica);

}  // namespace sluice::runtime
