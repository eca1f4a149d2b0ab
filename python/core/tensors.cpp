// HostTensor and NumPy arrays, in both directions without a copy, and DLPack.
#include <array>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <pybind11/numpy.h>

#include "python/core/bindings.h"
#include "python/core/dlpack.h"
#include "sluice/base/error.h"

namespace sluice::python {
namespace {

constexpr std::array<std::string_view, kNumDTypes> kNames{"float32",
                                                          "float16",
                                                          "bfloat16",
                                                          "float64",
                                                          "int8",
                                                          "uint8",
                                                          "int16",
                                                          "uint16",
                                                          "int32",
                                                          "uint32",
                                                          "int64",
                                                          "uint64",
                                                          "bool"};

/// NumPy has no bfloat16: its bits are int16.
std::string numpyName(DType dtype) {
  return std::string(dtype == DType::BF16 ? "int16" : dtypeName(dtype));
}

DType dtypeOf(const py::array& array, const std::optional<std::string>& given) {
  const auto found = py::str(array.dtype().attr("name")).cast<std::string>();
  if (!given || *given == found) {
    return parseDtype(found);
  }
  const DType wanted = parseDtype(*given);
  if (wanted == DType::BF16 && (found == "int16" || found == "uint16")) {
    return wanted;
  }
  raise<InvalidArgument>("an array of {} cannot be read as {}; convert it first", found, *given);
}

Shape shapeOf(const py::array& array) {
  return Shape(std::vector<std::int64_t>(array.shape(), array.shape() + array.ndim()));
}

HostTensor fromArray(const py::object& object, const std::optional<std::string>& dtype) {
  const py::array any = py::array::ensure(object);
  if (!any) {
    PyErr_Clear();
    raise<InvalidArgument>("expected a NumPy array, got {}",
                           py::repr(py::type::of(object)).cast<std::string>());
  }
  const DType type = dtypeOf(any, dtype);
  const py::array array = py::array::ensure(any, py::array::c_style);
  const auto order = array.dtype().attr("byteorder").cast<std::string>();
  if (order == ">" || order == "!") {
    raise<InvalidArgument>("the array's bytes are in big-endian order; use array.astype('<{}')",
                           array.dtype().attr("kind").cast<std::string>());
  }
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(array.data()));
  return HostTensor::over({type, shapeOf(array)}, std::shared_ptr<std::byte>(keep(array), bytes));
}

/// Over memory that the owner keeps, without the way through an array.
HostTensor fromAddress(std::uintptr_t address,
                       const std::vector<std::int64_t>& shape,
                       std::string_view dtype,
                       const py::object& owner) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python has addresses as numbers
  auto* const bytes = reinterpret_cast<std::byte*>(address);
  return HostTensor::over({parseDtype(dtype), Shape(shape)},
                          std::shared_ptr<std::byte>(keep(owner), bytes));
}

/// Without a search by name, where C++ has a type for it.
py::dtype numpyType(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return py::dtype::of<float>();
    case DType::F64:
      return py::dtype::of<double>();
    case DType::I64:
      return py::dtype::of<std::int64_t>();
    case DType::I32:
      return py::dtype::of<std::int32_t>();
    default:
      return py::dtype(numpyName(dtype));
  }
}

/// In bytes. pybind11 works them out as well, but one from before NumPy 2 reads the element's size
/// where NumPy 2 no longer has it, and takes it for 0.
std::vector<py::ssize_t> stridesOf(const HostTensor& tensor) {
  std::vector<py::ssize_t> strides = tensor.shape().strides();
  for (py::ssize_t& stride : strides) {
    stride *= static_cast<py::ssize_t>(byteSize(tensor.dtype()));
  }
  return strides;
}

/// An array over the tensor's own memory, which lives as long as the array.
py::array toArray(const HostTensor& tensor) {
  auto owner = std::make_unique<HostTensor>(tensor);
  auto* const bytes = owner->bytes();
  const py::capsule base(owner.release(),
                         [](void* pointer) { delete static_cast<HostTensor*>(pointer); });
  const auto dims = tensor.shape().dims();
  return {numpyType(tensor.dtype()),
          std::vector<py::ssize_t>(dims.begin(), dims.end()),
          stridesOf(tensor),
          bytes,
          base};
}

}  // namespace

std::string_view dtypeName(DType dtype) {
  return kNames.at(static_cast<std::size_t>(dtype));
}

DType parseDtype(std::string_view name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) {
      return static_cast<DType>(i);
    }
  }
  raise<InvalidArgument>(
      "there is no element type '{}'; there are {}", name, fmt::join(kNames, ", "));
}

py::tuple shapeTuple(const Shape& shape) {
  const auto dims = shape.dims();
  py::tuple result(dims.size());
  for (std::size_t i = 0; i < dims.size(); ++i) {
    result[i] = dims[i];
  }
  return result;
}

std::shared_ptr<PyObject> keep(py::object object) {
  return {object.release().ptr(), [](PyObject* kept) {
            if (Py_IsInitialized() != 0 && !interpreterEnds()) {
              const Locked gil;
              Py_DECREF(kept);
            }
          }};
}

void bindTensors(py::module_& m) {
  py::class_<HostTensor>(m, "HostTensor", "A tensor in host memory; copies share the memory.")
      .def(py::init(&fromArray),
           py::arg("array"),
           py::arg("dtype") = py::none(),
           "Shares the memory of a NumPy array; an array that is not contiguous is copied once. "
           "dtype='bfloat16' takes the bits as int16.")
      .def_static("at",
                  &fromAddress,
                  py::arg("address"),
                  py::arg("shape"),
                  py::arg("dtype"),
                  py::arg("owner"),
                  "Over contiguous memory at an address, which the owner keeps alive.")
      .def_static("from_dlpack",
                  &fromDlpack,
                  py::arg("tensor"),
                  "Shares the memory of any object with __dlpack__.")
      .def_property_readonly("shape", [](const HostTensor& t) { return shapeTuple(t.shape()); })
      .def_property_readonly("dtype", [](const HostTensor& t) { return dtypeName(t.dtype()); })
      .def("array", &toArray, "A NumPy array over the same memory; bfloat16 as bits in int16.")
      .def("clone", &HostTensor::clone)
      .def("hash", &HostTensor::hash, "Equal tensors have equal hashes, on every machine.")
      .def(
          "__dlpack__",
          [](const HostTensor& t, const py::object& /*stream*/) { return toDlpack(t); },
          py::arg("stream") = py::none())
      .def("__dlpack_device__", [](const HostTensor&) { return py::make_tuple(1, 0); })
      .def("__repr__", [](const HostTensor& t) { return "HostTensor(" + t.type().str() + ")"; });
}

}  // namespace sluice::python
