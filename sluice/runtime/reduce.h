// What a Collective does with the operands of all replicas. The elements are divided into as many
// equal parts as there are replicas; the last parts are padded with zeros.
#pragma once

#include <cstddef>
#include <span>

#include "sluice/device/device.h"
#include "sluice/program/program.h"

namespace sluice::runtime {

/// The bytes of a replica's part in a whole; the last parts may be shorter or empty.
struct Part {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};
Part partOf(std::size_t wholeBytes, std::size_t partBytes, std::size_t replica);

/// `sources` holds the operands by replica; afterwards, the places where the terms of the sum
/// begin. Returns the number of elements that were added.
std::int64_t reduce(device::Queue& queue,
                    const program::Collective& collective,
                    std::span<device::Address> sources,
                    device::Address to,
                    std::size_t replica);

}  // namespace sluice::runtime
