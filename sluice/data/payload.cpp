#include "sluice/data/payload.h"

#include <algorithm>
#include <cstring>

#include "sluice/base/error.h"

namespace sluice::data {

HostTensor fromPayload(const TensorType& type,
                       std::string_view payload,
                       ByteOrder order,
                       const std::string& file) {
  if (type.bytes() != payload.size()) {
    raise<FileError>("'{}' says {}, which is {} bytes, but holds {} after the header",
                     file,
                     type.str(),
                     type.bytes(),
                     payload.size());
  }
  HostTensor tensor(type);
  if (!payload.empty()) {
    std::memcpy(tensor.bytes(), payload.data(), payload.size());
  }
  const std::size_t size = byteSize(type.dtype);
  for (std::size_t i = 0; order == ByteOrder::Big && size > 1 && i < payload.size(); i += size) {
    std::reverse(tensor.bytes() + i, tensor.bytes() + i + size);
  }
  return tensor;
}

}  // namespace sluice::data
