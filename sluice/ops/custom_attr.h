// Attributes of custom ops as callers write them. A value may be anything that an attribute of a
// graph can be, and a list may hold anything at all. attrOf reduces them to the six kinds that
// custom ops have: numbers, texts, and lists of one kind of these.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/attrs.h"

#pragma GCC visibility push(default)

namespace sluice::ops {

class AttrValue {
 public:
  template <std::integral T>
  AttrValue(T value) : AttrValue(integer(value)) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point T>
  AttrValue(T value)  // NOLINT(google-explicit-constructor)
      : AttrValue(ir::Attr(static_cast<double>(value))) {}
  AttrValue(const char* value);               // NOLINT(google-explicit-constructor)
  AttrValue(std::string value);               // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<std::int64_t> list);  // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<double> list);        // NOLINT(google-explicit-constructor)
  AttrValue(std::vector<std::string> list);   // NOLINT(google-explicit-constructor)
  AttrValue(ir::Attr value);                  // NOLINT(google-explicit-constructor)
  AttrValue(std::initializer_list<AttrValue> list);
  explicit AttrValue(std::vector<AttrValue> list) : value_(std::move(list)) {}

  /// Returns an attribute; an empty list gets the kind `declared`. Throws InvalidArgument for lists
  /// of lists or of several kinds. The caller checks later that the kind is the declared one.
  ir::Attr attrOf(ir::AttrKind declared) const;

 private:
  template <class T>
  static ir::Attr integer(T value) {
    if constexpr (std::same_as<T, bool>) {
      return ir::Attr(value);
    } else {
      if (!std::in_range<std::int64_t>(value)) {
        raise<InvalidArgument>("{} is out of range for an attribute of 64 bits", value);
      }
      return ir::Attr(static_cast<std::int64_t>(value));
    }
  }

  std::variant<ir::Attr, std::vector<AttrValue>> value_;
};

struct CustomAttribute {
  std::string name;
  AttrValue value;
};

}  // namespace sluice::ops

#pragma GCC visibility pop
