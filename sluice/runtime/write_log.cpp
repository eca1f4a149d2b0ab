#include "sluice/runtime/write_log.h"

#include <cstring>
#include <utility>

#include "sluice/base/hash.h"

namespace sluice::runtime {
namespace {

/// The elements in the order of their logical indices.
std::vector<std::byte> plainOf(const TensorType& type,
                               const device::Layout& layout,
                               std::span<const std::byte> data) {
  std::vector<std::byte> plain(type.bytes());
  if (layout.isPlain()) {
    std::memcpy(plain.data(), data.data(), plain.size());
    return plain;
  }
  const std::vector<std::int64_t> strides = device::strides(type.shape, layout);
  std::vector<std::int64_t> index(strides.size(), 0);
  const std::size_t size = byteSize(type.dtype);
  for (std::int64_t i = 0; i < type.shape.elements(); ++i) {
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      from += index[axis] * strides[axis];
    }
    std::memcpy(plain.data() + static_cast<std::size_t>(i) * size,
                data.data() + static_cast<std::size_t>(from) * size,
                size);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < type.shape[axis]) {
        break;
      }
      index[axis] = 0;
    }
  }
  return plain;
}

}  // namespace

void WriteLog::add(WrittenValue written,
                   const device::Layout& layout,
                   std::span<const std::byte> data) {
  std::vector<std::byte> plain = plainOf(written.type, layout, data);
  written.hash = Hasher().add(written.type.str()).add(std::span<const std::byte>(plain)).digest();
  if (keepsValues_) {
    written.values = std::move(plain);
  }
  const std::scoped_lock lock(mutex_);
  entries_.push_back(std::move(written));
}

std::vector<WrittenValue> WriteLog::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(entries_, {});
}

}  // namespace sluice::runtime
