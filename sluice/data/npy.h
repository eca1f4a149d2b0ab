// NumPy's file formats: .npy holds one array, .npz is a zip archive of them, plain or deflated.
// Readers take untrusted files: what does not explain itself is a FileError that names the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

/// One array: numbers and booleans of either byte order, in C or Fortran order; the tensor is
/// row-major. Throws FileError.
HostTensor readNpy(const std::string& path);
/// The bytes of a file; `name` is for messages.
HostTensor parseNpy(std::string_view bytes, const std::string& name);

/// The arrays of an archive by their names, without ".npy". Checks sizes and CRC-32. Throws
/// FileError, also when the arrays have more than `maxBytes` unpacked (none given: see
/// defaultInflateLimit).
std::map<std::string, HostTensor> readNpz(const std::string& path,
                                          std::optional<std::uint64_t> maxBytes = {});
std::map<std::string, HostTensor> parseNpz(std::string_view bytes,
                                           const std::string& name,
                                           std::optional<std::uint64_t> maxBytes = {});

/// The bytes of an .npy file, format 1.0. Throws Unsupported for bfloat16, which NumPy lacks.
std::string npyBytes(const HostTensor& tensor);

}  // namespace sluice::data
