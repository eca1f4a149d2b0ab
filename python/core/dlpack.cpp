#include "python/core/dlpack.h"

#include <cstring>

#include "sluice/base/error.h"

namespace sluice::python {
namespace {

// The binary interface, as its specification gives it.
struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byteOffset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6 };
constexpr std::int32_t kCpu = 1;
constexpr const char* kFresh = "dltensor";
constexpr const char* kTaken = "used_dltensor";

DLDataType dlType(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * byteSize(dtype));
  const Code code = dtype == DType::Bool   ? kBool
                    : dtype == DType::BF16 ? kBfloat
                    : isFloat(dtype)       ? kFloat
                    : isSigned(dtype)      ? kInt
                                           : kUInt;
  return {code, bits, 1};
}

DType fromDlType(DLDataType type) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DLDataType known = dlType(dtype);
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) {
      return dtype;
    }
  }
  raise<InvalidArgument>("DLPack: the element type (code {}, {} bits, {} lanes) is not supported",
                         type.code,
                         type.bits,
                         type.lanes);
}

/// What a tensor that was given away needs until it is deleted.
struct Given {
  HostTensor tensor;
  std::vector<std::int64_t> shape;
  DLManagedTensor managed{};
};

bool isContiguous(const DLTensor& t) {
  if (t.strides == nullptr) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::int32_t i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) {
      return false;
    }
    expected *= t.shape[i];
  }
  return true;
}

/// Copies the elements of `from` in row-major order, an axis at a time.
void copyAxis(const DLTensor& t, std::int32_t axis, const std::byte* from, std::byte*& to) {
  const std::size_t size = t.dtype.bits / 8U;
  if (axis == t.ndim) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  const std::int64_t stride = t.strides[axis] * static_cast<std::int64_t>(size);
  for (std::int64_t i = 0; i < t.shape[axis]; ++i) {
    copyAxis(t, axis + 1, from + i * stride, to);
  }
}

void endCapsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kFresh) != 0) {  // nobody took it over
    auto* const managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
    managed->deleter(managed);
  }
}

}  // namespace

py::capsule toDlpack(const HostTensor& tensor) {
  auto given = std::make_unique<Given>();
  const auto dims = tensor.shape().dims();
  given->tensor = tensor;
  given->shape.assign(dims.begin(), dims.end());
  given->managed = {
      .tensor = {.data = given->tensor.bytes(),
                 .device = {kCpu, 0},
                 .ndim = static_cast<std::int32_t>(given->shape.size()),
                 .dtype = dlType(tensor.dtype()),
                 .shape = given->shape.data(),
                 .strides = nullptr,
                 .byteOffset = 0},
      .context = given.get(),
      .deleter = [](DLManagedTensor* self) { delete static_cast<Given*>(self->context); }};
  PyObject* const capsule = PyCapsule_New(&given->managed, kFresh, &endCapsule);
  if (capsule == nullptr) {
    throw py::error_already_set();
  }
  given.release();
  return py::reinterpret_steal<py::capsule>(capsule);
}

namespace {

/// The tensor of a capsule that nobody has taken.
DLManagedTensor& managedOf(const py::object& capsule) {
  if (PyCapsule_IsValid(capsule.ptr(), kFresh) == 0) {
    raise<InvalidArgument>("expected an object with __dlpack__ or an unused DLPack capsule, got {}",
                           py::repr(py::type::of(capsule)).cast<std::string>());
  }
  return *static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
}

std::shared_ptr<DLManagedTensor> takeOver(const py::object& capsule) {
  DLManagedTensor& managed = managedOf(capsule);
  PyCapsule_SetName(capsule.ptr(), kTaken);
  return {&managed, [](DLManagedTensor* m) {
            if (m->deleter != nullptr) {
              m->deleter(m);
            }
          }};
}

TensorType typeOf(const DLTensor& t) {
  return {fromDlType(t.dtype), Shape(std::vector<std::int64_t>(t.shape, t.shape + t.ndim))};
}

}  // namespace

TakenTensor takeDlpack(const py::object& capsule) {
  TensorType type = typeOf(managedOf(capsule).tensor);
  const std::shared_ptr<DLManagedTensor> owner = takeOver(capsule);
  const DLTensor& t = owner->tensor;
  return {.type = std::move(type),
          .data = static_cast<std::byte*>(t.data) + t.byteOffset,
          .isContiguous = isContiguous(t),
          .deviceType = t.device.type,
          .owner = owner};
}

HostTensor fromDlpack(const py::object& source) {
  const py::object capsule =
      py::hasattr(source, "__dlpack__") ? py::object(source.attr("__dlpack__")()) : source;
  const DLTensor& t = managedOf(capsule).tensor;
  if (t.device.type != kCpu) {
    raise<InvalidArgument>(
        "DLPack: the tensor is in the memory of device type {}; move it to the host",
        t.device.type);
  }
  const TensorType type = typeOf(t);
  const std::shared_ptr<DLManagedTensor> owner = takeOver(capsule);
  auto* const bytes = static_cast<std::byte*>(t.data) + t.byteOffset;
  if (isContiguous(t)) {
    return HostTensor::over(type, std::shared_ptr<std::byte>(owner, bytes));
  }
  HostTensor copy(type);
  std::byte* to = copy.bytes();
  copyAxis(t, 0, bytes, to);
  return copy;
}

}  // namespace sluice::python
