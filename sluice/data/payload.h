// Reads the elements that follow the header of a file with one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

enum class ByteOrder : std::uint8_t { Little, Big };

/// Converts `payload` to a tensor. Throws FileError, which names the file, unless it has the size
/// of the type.
HostTensor fromPayload(const TensorType& type,
                       std::string_view payload,
                       ByteOrder order,
                       const std::string& file);

}  // namespace sluice::data
