#include "sluice/devices/cpu/kernels/strided_copy.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"

namespace sluice::devices::cpu {
namespace {

/// Elements of a line that are one item of work.
constexpr std::int64_t kPiece = 32768;

std::vector<CopyAxis> merged(const std::vector<CopyAxis>& axes) {
  std::vector<CopyAxis> result;
  for (const CopyAxis& axis : axes) {
    if (axis.extent == 1) {
      continue;
    }
    if (!result.empty() && result.back().from == axis.from * axis.extent &&
        result.back().to == axis.to * axis.extent) {
      result.back() = {result.back().extent * axis.extent, axis.from, axis.to};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

/// Lines of elements that lie apart.
template <class T>
void copyElements(const std::byte* from,
                  std::byte* to,
                  const CopyAxis& line,
                  const CopyAxis& next) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (std::int64_t n = 0; n < next.extent; ++n, source += next.from, target += next.to) {
    for (std::int64_t i = 0; i < line.extent; ++i) {
      target[i * line.to] = source[i * line.from];
    }
  }
}

/// Short contiguous lines in pieces of kBytes, of which a line has a whole number.
template <std::size_t kBytes>
void copyPieces(const std::byte* from, std::byte* to, std::size_t bytes, const CopyAxis& next) {
  for (std::int64_t n = 0; n < next.extent; ++n, from += next.from, to += next.to) {
    for (std::size_t at = 0; at < bytes; at += kBytes) {
      std::memcpy(to + at, from + at, kBytes);
    }
  }
}

/// Contiguous lines; the strides of `next` are in bytes.
void copyRuns(const std::byte* from, std::byte* to, std::size_t bytes, const CopyAxis& next) {
  constexpr std::size_t kShort = 256;
  if (bytes <= kShort && bytes % 32 == 0) {
    return copyPieces<32>(from, to, bytes, next);
  }
  if (bytes <= kShort && bytes % 8 == 0) {
    return copyPieces<8>(from, to, bytes, next);
  }
  for (std::int64_t n = 0; n < next.extent; ++n, from += next.from, to += next.to) {
    copyRun(from, to, bytes);
  }
}

}  // namespace

StridedCopy::StridedCopy(const std::vector<CopyAxis>& axes, std::size_t elementBytes)
    : outer_(merged(axes)), bytes_(elementBytes) {
  if (!outer_.empty()) {
    line_ = outer_.back();
    outer_.pop_back();
  }
  for (const CopyAxis& axis : outer_) {
    lines_ *= axis.extent;
  }
  pieces_ = ceilDiv(line_.extent, kPiece);
  perTile_ = itemsPerTile(std::min(line_.extent, kPiece));
  tiles_ = ceilDiv(lines_ * pieces_, perTile_);
}

void StridedCopy::copyLines(const std::byte* from,
                            std::byte* to,
                            const CopyAxis& line,
                            const CopyAxis& next) const {
  const auto size = static_cast<std::int64_t>(bytes_);
  if (line.from == 1 && line.to == 1) {
    return copyRuns(from,
                    to,
                    static_cast<std::size_t>(line.extent) * bytes_,
                    {next.extent, next.from * size, next.to * size});
  }
  switch (bytes_) {
    case 1:
      return copyElements<std::uint8_t>(from, to, line, next);
    case 2:
      return copyElements<std::uint16_t>(from, to, line, next);
    case 4:
      return copyElements<std::uint32_t>(from, to, line, next);
    default:
      return copyElements<std::uint64_t>(from, to, line, next);
  }
}

StridedCopy::Place StridedCopy::placeOf(std::int64_t line) const {
  Place place;
  for (std::size_t i = outer_.size(); i-- > 0;) {
    place.from += line % outer_[i].extent * outer_[i].from;
    place.to += line % outer_[i].extent * outer_[i].to;
    line /= outer_[i].extent;
  }
  return place;
}

void StridedCopy::runTile(std::int64_t tile, const std::byte* from, std::byte* to) const {
  const auto size = static_cast<std::int64_t>(bytes_);
  const std::int64_t first = tile * perTile_;
  const std::int64_t last = std::min(first + perTile_, lines_ * pieces_);
  CopyAxis line = line_;
  if (pieces_ > 1) {  // of one line each
    for (std::int64_t item = first; item < last; ++item) {
      const std::int64_t begin = item % pieces_ * kPiece;
      const Place place = placeOf(item / pieces_);
      line.extent = std::min(kPiece, line_.extent - begin);
      copyLines(from + (place.from + begin * line.from) * size,
                to + (place.to + begin * line.to) * size,
                line,
                {1, 0, 0});
    }
    return;
  }
  const CopyAxis along = outer_.empty() ? CopyAxis{1, 0, 0} : outer_.back();
  for (std::int64_t item = first; item < last;) {
    const std::int64_t count = std::min(last - item, along.extent - item % along.extent);
    const Place place = placeOf(item);
    copyLines(from + place.from * size, to + place.to * size, line, {count, along.from, along.to});
    item += count;
  }
}

}  // namespace sluice::devices::cpu
