// safetensors files: tensors by name and a map of texts, the format in which PyTorch's users
// exchange weights. Eight bytes with the length of the header (little-endian), the header (JSON:
// type, shape and byte range of every tensor), then the elements without gaps.
//
// Files may come from anywhere: what is read is checked in full before memory is taken for it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "sluice/tensor/named_tensors.h"

namespace sluice {

using Metadata = std::map<std::string, std::string, std::less<>>;

struct SafeTensors {
  NamedTensors tensors;
  Metadata metadata = {};
};

/// Reads a whole file. Throws FileError naming the file and what is wrong with it: missing, cut
/// off, a header that is too long, no JSON or not of this format, an unknown type, a name that
/// comes twice, byte ranges that overlap, leave a gap, lie outside or do not fit the shape.
SafeTensors readSafeTensors(const std::filesystem::path& path);
/// Parses the bytes of a file; `name` is for messages.
SafeTensors parseSafeTensors(std::string_view bytes, std::string_view name);

/// Replaces or makes the file, which is there whole or not at all. Tensors are aligned to their
/// elements' size. Throws FileError, and InvalidArgument for a tensor called "__metadata__" or text
/// that is not UTF-8.
void writeSafeTensors(const std::filesystem::path& path, const SafeTensors& content);
/// The bytes of such a file.
std::string serializeSafeTensors(const SafeTensors& content);

}  // namespace sluice
