#include "sluice/runtime/reduce.h"

#include <algorithm>

namespace sluice::runtime {
Part partOf(std::size_t wholeBytes, std::size_t partBytes, std::size_t replica) {
  const std::size_t begin = std::min(replica * partBytes, wholeBytes);
  return {begin, std::min(partBytes, wholeBytes - begin)};
}

std::int64_t reduce(device::Queue& queue,
                    const program::Collective& collective,
                    std::span<device::Address> sources,
                    device::Address to,
                    std::size_t replica) {
  const DType type = collective.type.dtype;
  switch (collective.kind) {
    case program::CollectiveKind::Sum:
      queue.sum(to, sources, type, collective.type.shape.elements());
      return collective.type.shape.elements();
    case program::CollectiveKind::SumPart: {
      const Part part = partOf(collective.operand.bytes(), collective.type.bytes(), replica);
      for (device::Address& source : sources) {
        source = source + part.begin;
      }
      const auto elements = static_cast<std::int64_t>(part.bytes / byteSize(type));
      queue.sum(to, sources, type, elements);
      queue.fill(to + part.bytes, std::byte{0}, collective.type.bytes() - part.bytes);
      return elements;
    }
    case program::CollectiveKind::Gather:
      for (std::size_t r = 0; r < sources.size(); ++r) {
        const Part part = partOf(collective.type.bytes(), collective.operand.bytes(), r);
        queue.copy(to + part.begin, sources[r], part.bytes);
      }
      break;
  }
  return 0;
}

}  // namespace sluice::runtime
