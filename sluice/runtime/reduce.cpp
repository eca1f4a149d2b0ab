#include "sluice/runtime/reduce.h"

#include <algorithm>
#include <array>

namespace sluice::runtime {
namespace {

/// At most an element per replica.
void padWithZeros(device::Queue& queue, std::byte* to, std::size_t bytes) {
  static constexpr std::array<std::byte, 256> kZeros{};
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(bytes - done, kZeros.size());
    queue.copy(to + done, kZeros.data(), count);
    done += count;
  }
}

}  // namespace

Part partOf(std::size_t wholeBytes, std::size_t partBytes, std::size_t replica) {
  const std::size_t begin = std::min(replica * partBytes, wholeBytes);
  return {begin, std::min(partBytes, wholeBytes - begin)};
}

std::int64_t reduce(device::Queue& queue,
                    const program::Reduction& reduction,
                    std::span<const void*> sources,
                    std::byte* to,
                    std::size_t replica) {
  const DType type = reduction.type.dtype;
  switch (reduction.kind) {
    case program::ReductionKind::Sum:
      queue.sum(to, sources, type, reduction.type.shape.elements());
      return reduction.type.shape.elements();
    case program::ReductionKind::SumPart: {
      const Part part = partOf(reduction.operand.bytes(), reduction.type.bytes(), replica);
      for (const void*& source : sources) {
        source = static_cast<const std::byte*>(source) + part.begin;
      }
      const auto elements = static_cast<std::int64_t>(part.bytes / byteSize(type));
      queue.sum(to, sources, type, elements);
      padWithZeros(queue, to + part.bytes, reduction.type.bytes() - part.bytes);
      return elements;
    }
    case program::ReductionKind::Gather:
      for (std::size_t r = 0; r < sources.size(); ++r) {
        const Part part = partOf(reduction.type.bytes(), reduction.operand.bytes(), r);
        queue.copy(to + part.begin, sources[r], part.bytes);
      }
      break;
  }
  return 0;
}

}  // namespace sluice::runtime
