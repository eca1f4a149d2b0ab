// Reads and writes safetensors files, in which PyTorch users exchange weights. A file holds tensors
// by name and a map of texts. It consists of the length of the header (eight bytes, little-endian),
// the header (JSON with the type, shape and byte range of every tensor) and the elements without
// gaps.
//
// Files may come from anywhere: their content is checked in full before memory is allocated for it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

using Metadata = std::map<std::string, std::string, std::less<>>;

struct SafeTensors {
  NamedTensors tensors;
  Metadata metadata = {};
};

/// Reads a whole file. Throws FileError naming the file and its defect: the file is missing or cut
/// off; the header is too long, not JSON or not of this format; a type is unknown; a name appears
/// twice; or byte ranges overlap, leave a gap, lie outside or do not match the shape.
SafeTensors readSafeTensors(const std::filesystem::path& path);
/// Parses the bytes of a file; `name` appears in messages.
SafeTensors parseSafeTensors(std::string_view bytes, std::string_view name);

/// Creates or replaces the file atomically (atomic_file.h). Each tensor is aligned to the size of
/// its elements. Throws FileError, and InvalidArgument for a tensor called "__metadata__" or text
/// that is not UTF-8.
void writeSafeTensors(const std::filesystem::path& path, const SafeTensors& content);
/// Returns the bytes that such a file holds.
std::string serializeSafeTensors(const SafeTensors& content);

}  // namespace sluice

#pragma GCC visibility pop
