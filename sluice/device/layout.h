// How the elements of a tensor are stored in memory. Values are always defined by their logical
// row-major order; a layout only changes where they are stored, so it changes no bits (rule R2).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "sluice/tensor/shape.h"

namespace sluice::device {

struct Layout {
  enum class Kind : std::uint8_t {
    Plain,         ///< row-major
    ChannelsLast,  ///< axis 1 innermost; rank 3 to 5
    Opaque         ///< described by `blob`, which only one kind of device understands
  };
  Kind kind = Kind::Plain;
  std::string blob = {};
  std::size_t opaqueBytes = 0;

  static Layout plain() { return {}; }
  static Layout channelsLast() { return {.kind = Kind::ChannelsLast}; }

  bool isPlain() const { return kind == Kind::Plain; }
  /// The size in bytes of a tensor of this type in this layout.
  std::size_t bytes(const TensorType& type) const {
    return kind == Kind::Opaque ? opaqueBytes : type.bytes();
  }
  std::string str() const;  ///< "plain", "channels-last", "opaque"
  bool operator==(const Layout&) const = default;
};

/// Strides in elements, by logical axis. The layout must not be opaque.
std::vector<std::int64_t> strides(const Shape& shape, const Layout& layout);

}  // namespace sluice::device
