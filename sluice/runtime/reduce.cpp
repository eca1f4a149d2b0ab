#include "sluice/runtime/reduce.h"

#include <algorithm>

namespace sluice::runtime {
Part partOf(std::size_t wholeBytes, std::size_t partBytes, std::size_t replica) {
  const std::size_t begin = std::min(replica * partBytes, wholeBytes);
  return {begin, std::min(partBytes, wholeBytes - begin)};
}

std::int64_t reduce(device::Queue& queue,
                    const program::Reduction& reduction,
                    std::span<device::Address> sources,
                    device::Address to,
                    std::size_t replica) {
  const DType type = reduction.type.dtype;
  switch (reduction.kind) {
    case program::ReductionKind::Sum:
      queue.sum(to, sources, type, reduction.type.shape.elements());
      return reduction.type.shape.elements();
    case program::ReductionKind::SumPart: {
      const Part part = partOf(reduction.operand.bytes(), reduction.type.bytes(), replica);
      for (device::Address& source : sources) {
        source = source + part.begin;
      }
      const auto elements = static_cast<std::int64_t>(part.bytes / byteSize(type));
      queue.sum(to, sources, type, elements);
      queue.fill(to + part.bytes, std::byte{0}, reduction.type.bytes() - part.bytes);
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
