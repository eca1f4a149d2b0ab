// NumPy's file formats: an .npy file holds one array, an .npz file is a zip archive of such files,
// plain or deflated. The files need not be trusted: anything invalid is a FileError that names the
// file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

/// Reads one array of numbers or booleans, with either byte order and in C or Fortran order. The
/// tensor is row-major. Throws FileError.
HostTensor readNpy(const std::string& path);
/// Parses the contents of a file; `name` is for messages.
HostTensor parseNpy(std::string_view bytes, const std::string& name);

/// The arrays of an archive by their names, without ".npy". Checks sizes and CRC-32. Throws
/// FileError, also if the arrays have more than `maxBytes` bytes when unpacked (default:
/// defaultInflateLimit).
std::map<std::string, HostTensor> readNpz(const std::string& path,
                                          std::optional<std::uint64_t> maxBytes = {});
std::map<std::string, HostTensor> parseNpz(std::string_view bytes,
                                           const std::string& name,
                                           std::optional<std::uint64_t> maxBytes = {});

/// The bytes of an .npy file, format 1.0. Throws Unsupported for bfloat16, which NumPy lacks.
std::string npyBytes(const HostTensor& tensor);

}  // namespace sluice::data

#pragma GCC visibility pop
