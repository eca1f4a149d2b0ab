// DLPack, the exchange of tensors between Python libraries: https://dmlc.github.io/dlpack. Only
// memory of the host is exchanged here.
#pragma once

#include "python/core/bindings.h"

namespace sluice::python {

/// A capsule that another library may take over; the memory is shared.
py::capsule toDlpack(const HostTensor& tensor);

/// Shares the memory of an object with __dlpack__, or of a capsule; copies it if it is not
/// contiguous. Throws InvalidArgument for memory that is not the host's and for types that Sluice
/// does not have.
HostTensor fromDlpack(const py::object& source);

}  // namespace sluice::python
