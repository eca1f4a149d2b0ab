// Identities inside a Graph.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include "sluice/base/ids.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

using OpId = Id<struct OpTag>;

/// One result of one op. A default-constructed Value means "none".
struct Value {
  OpId op;
  std::uint16_t out = 0;

  bool valid() const { return op.valid(); }
  auto operator<=>(const Value&) const = default;
};

}  // namespace sluice::ir

template <>
struct std::hash<sluice::ir::Value> {
  std::size_t operator()(sluice::ir::Value v) const noexcept {
    return static_cast<std::size_t>(v.op.value) * 65537U + v.out;
  }
};

#pragma GCC visibility pop
