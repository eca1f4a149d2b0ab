// The elements behind the header of a file that holds one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

enum class ByteOrder : std::uint8_t { Little, Big };

/// `payload` as a tensor; throws FileError naming the file unless it has the type's size.
HostTensor fromPayload(const TensorType& type,
                       std::string_view payload,
                       ByteOrder order,
                       const std::string& file);

}  // namespace sluice::data
