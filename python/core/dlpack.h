// DLPack, the exchange of tensors between Python libraries: https://dmlc.github.io/dlpack. A
// HostTensor is in the host's memory; device_tensors.h has those of GPUs.
#pragma once

#include <memory>

#include "python/core/bindings.h"

namespace sluice::python {

/// A capsule that another library may take over; the memory is shared.
py::capsule toDlpack(const HostTensor& tensor);

/// A tensor that was taken over, wherever its memory is.
struct TakenTensor {
  TensorType type;
  void* data = nullptr;
  bool isContiguous = true;
  int deviceType = 0;           ///< as DLPack numbers them; 1 is the host
  std::shared_ptr<void> owner;  ///< keeps the memory
};
/// Takes a capsule over. Throws InvalidArgument for types that Sluice does not have.
TakenTensor takeDlpack(const py::object& capsule);

/// Shares the memory of an object with __dlpack__, or of a capsule; copies it if it is not
/// contiguous. Throws InvalidArgument for memory that is not the host's and for types that Sluice
/// does not have.
HostTensor fromDlpack(const py::object& source);

}  // namespace sluice::python
