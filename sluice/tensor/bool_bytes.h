// Booleans of files. Readers call this for what they copied from one: files may hold any byte, a
// bool of C++ is 0 or 1, and reading another one is undefined.
#pragma once

#include <cstddef>

#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// Any byte but 0 is true. Tensors of other types stay as they are.
inline void normalizeBools(HostTensor& tensor) {
  if (tensor.dtype() != DType::Bool) {
    return;
  }
  for (std::size_t i = 0; i < tensor.byteCount(); ++i) {
    tensor.bytes()[i] = std::byte{static_cast<unsigned char>(tensor.bytes()[i] != std::byte{0})};
  }
}

}  // namespace sluice
