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

template <class T>
void copyStrided(const std::byte* from, std::byte* to, const CopyAxis& line, std::int64_t count) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) {
    target[i * line.to] = source[i * line.from];
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

void StridedCopy::copyLine(const std::byte* from, std::byte* to, std::int64_t count) const {
  if (line_.from == 1 && line_.to == 1) {
    return copyRun(from, to, static_cast<std::size_t>(count) * bytes_);
  }
  switch (bytes_) {
    case 1:
      return copyStrided<std::uint8_t>(from, to, line_, count);
    case 2:
      return copyStrided<std::uint16_t>(from, to, line_, count);
    case 4:
      return copyStrided<std::uint32_t>(from, to, line_, count);
    default:
      return copyStrided<std::uint64_t>(from, to, line_, count);
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
  const std::int64_t first = tile * perTile_;
  const std::int64_t last = std::min(first + perTile_, lines_ * pieces_);
  const auto size = static_cast<std::int64_t>(bytes_);
  const CopyAxis next = outer_.empty() ? CopyAxis{1, 0, 0} : outer_.back();
  Place place = placeOf(first / pieces_);
  for (std::int64_t item = first; item < last; ++item) {
    const std::int64_t begin = item % pieces_ * kPiece;
    copyLine(from + (place.from + begin * line_.from) * size,
             to + (place.to + begin * line_.to) * size,
             std::min(kPiece, line_.extent - begin));
    if ((item + 1) % pieces_ == 0) {
      const std::int64_t line = (item + 1) / pieces_;
      const bool stays = line % next.extent != 0;
      place = stays ? Place{place.from + next.from, place.to + next.to} : placeOf(line);
    }
  }
}

}  // namespace sluice::devices::cpu
