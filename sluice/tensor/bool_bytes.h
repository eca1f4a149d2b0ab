// Booleans read from files. Every reader calls this on the bytes it copied: a file may hold any
// byte, but a C++ bool must be 0 or 1, and reading another value is undefined.
#pragma once

#include <cstddef>

#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// Makes every nonzero byte 1 (true). Tensors of other types stay as they are.
inline void normalizeBools(HostTensor& tensor) {
  if (tensor.dtype() != DType::Bool) {
    return;
  }
  for (std::size_t i = 0; i < tensor.byteCount(); ++i) {
    tensor.bytes()[i] = std::byte{static_cast<unsigned char>(tensor.bytes()[i] != std::byte{0})};
  }
}

}  // namespace sluice
