// Tensors in the memory of a GPU that belong to another library, taken by DLPack. A call reads its
// inputs there and leaves its outputs there; the host never has them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "python/core/bindings.h"
#include "sluice/device/memory.h"
#include "sluice/tensor/shape.h"

namespace sluice::python {

struct DeviceTensor {
  TensorType type;
  int gpu = 0;
  std::shared_ptr<void> owner;  ///< the other library's tensor
  std::shared_ptr<const device::Memory> memory;
  std::size_t offset = 0;
};

/// Takes over an object with __dlpack__, without waiting for work on it. Its bits stand for `dtype`
/// if one of the same size is given. Throws InvalidArgument for memory that is not a GPU's, that is
/// not contiguous, or of a type that Sluice does not have.
DeviceTensor deviceTensor(const py::object& source,
                          const std::optional<std::string>& dtype = std::nullopt);

}  // namespace sluice::python
