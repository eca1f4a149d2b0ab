// Structure: nested values as functions take and return them. A structure is a tensor, a list, a
// set of named parts, or nothing. Its leaves are host tensors when a model is called, symbolic
// tensors while it is traced, and types where only types matter. StructureParser
// (structure_parser.h) converts C++ types to structures.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

/// Specialised for the types that can be taken apart: see structure_parser.h.
template <class T>
struct StructureParser {};

template <class T, class Leaf>
concept StructureOf = std::is_same_v<typename StructureParser<T>::Leaf, Leaf>;

enum class StructureKind : std::uint8_t { Absent, Tensor, List, Named };

/// For messages: "nothing", "a tensor", "a list of 2", "parts [a, b]".
std::string describe(StructureKind kind,
                     std::size_t parts,
                     std::span<const std::string> names = {});

/// The path of a part of something, such as "boxes.corners".
std::string pathOf(std::string_view whole, std::string_view part);

template <class L>
class Structure {
 public:
  /// An absent value, like std::nullopt.
  Structure() = default;
  Structure(std::nullopt_t /*none*/) {}  // NOLINT(google-explicit-constructor)
  // NOLINTNEXTLINE(google-explicit-constructor): a call is given tensors where it takes structures
  Structure(L leaf) : kind_(StructureKind::Tensor), leaf_(std::move(leaf)) {}
  /// Converts any type that has a parser: lists, maps, tuples, optionals, structs.
  template <StructureOf<L> T>
  requires(!std::is_same_v<T, Structure> && !std::is_same_v<T, L>)  //
      Structure(const T& value)  // NOLINT(google-explicit-constructor): as for a tensor
      : Structure(StructureParser<T>::parse(value)) {}

  static Structure list(std::vector<Structure> parts) {
    Structure result;
    result.kind_ = StructureKind::List;
    result.parts_ = std::move(parts);
    return result;
  }
  static Structure named(std::map<std::string, Structure> parts) {
    Structure result;
    result.kind_ = StructureKind::Named;
    for (auto& [name, part] : parts) {
      result.names_.push_back(name);
      result.parts_.push_back(std::move(part));
    }
    return result;
  }

  StructureKind kind() const { return kind_; }
  bool isAbsent() const { return kind_ == StructureKind::Absent; }
  /// The leaf; throws InvalidArgument unless the structure is a tensor.
  const L& tensor() const {
    require(StructureKind::Tensor, "a tensor");
    return *leaf_;
  }
  /// The parts of a list, or the named parts in the order of their names.
  const std::vector<Structure>& parts() const { return parts_; }
  std::size_t size() const { return parts_.size(); }
  /// The names of the parts, ascending; empty unless the parts have names.
  const std::vector<std::string>& names() const { return names_; }
  /// Throws InvalidArgument unless this part exists.
  const Structure& operator[](std::size_t i) const {
    if (i >= parts_.size()) {
      raise<InvalidArgument>("expected a list with a part {}, got {}", i, describe());
    }
    return parts_[i];
  }
  const Structure& operator[](std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      raise<InvalidArgument>("expected a part '{}', got {}", name, describe());
    }
    return parts_[static_cast<std::size_t>(found - names_.begin())];
  }

  /// Throws InvalidArgument, which says what was expected, if the kind differs.
  void require(StructureKind kind, std::string_view expected) const {
    if (kind_ != kind) {
      raise<InvalidArgument>("expected {}, got {}", expected, describe());
    }
  }
  std::string describe() const { return sluice::describe(kind_, parts_.size(), names_); }
  /// The word for a part in paths: its name or its number.
  std::string partName(std::size_t i) const {
    return kind_ == StructureKind::Named ? names_[i] : std::to_string(i);
  }

  std::vector<L> leaves() const {
    std::vector<L> all;
    map([&](const L& leaf, const std::string& /*path*/) {
      all.push_back(leaf);
      return true;
    });
    return all;
  }

  /// Returns the same structure with make(leaf, path) in place of every leaf, depth first. `path`
  /// is the path of the whole structure.
  template <class Make>
  auto map(const Make& make, const std::string& path = "") const {
    using Other = std::decay_t<std::invoke_result_t<const Make&, const L&, const std::string&>>;
    if (leaf_) {
      return Structure<Other>(make(*leaf_, path));
    }
    std::vector<Structure<Other>> parts;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts.push_back(parts_[i].map(make, pathOf(path, partName(i))));
    }
    return Structure<Other>(kind_, names_, std::move(parts));
  }

  /// Returns the same structure with these leaves; there must be as many as it has.
  template <class Other>
  Structure<Other> with(const std::vector<Other>& leaves) const {
    std::size_t next = 0;
    Structure<Other> result = map([&](const L& /*leaf*/, const std::string& /*path*/) {
      SLUICE_CHECK(next < leaves.size(), "{} leaves are too few", leaves.size());
      return leaves[next++];
    });
    SLUICE_CHECK(next == leaves.size(), "{} leaves for {}", leaves.size(), next);
    return result;
  }

  bool operator==(const Structure&) const = default;

 private:
  template <class>
  friend class Structure;
  Structure(StructureKind kind, std::vector<std::string> names, std::vector<Structure> parts)
      : kind_(kind), names_(std::move(names)), parts_(std::move(parts)) {}

  StructureKind kind_ = StructureKind::Absent;
  std::optional<L> leaf_;
  std::vector<std::string> names_;
  std::vector<Structure> parts_;
};

using HostStructure = Structure<HostTensor>;

/// Says where and how the second structure differs from the first, whatever their leaves, such as
/// "boxes.1: a tensor, now nothing"; empty if they do not differ.
template <class A, class B>
std::string difference(const Structure<A>& was, const Structure<B>& now, const std::string& path) {
  if (was.kind() != now.kind() || was.size() != now.size() || was.names() != now.names()) {
    return fmt::format("{}: {}, now {}", path, was.describe(), now.describe());
  }
  for (std::size_t i = 0; i < was.size(); ++i) {
    const std::string part = pathOf(path, was.partName(i));
    if (std::string found = difference(was[i], now[i], part); !found.empty()) {
      return found;
    }
  }
  return "";
}

// Converts C++ types to a Structure and back. Optionals, vectors, arrays, maps, pairs and tuples of
// such types are known. A struct can be added in two ways. Either it lists its fields,
//
//   template <class T>                     // nn::Tensor in forward, HostTensor in a call
//   struct Boxes {
//     T corners;
//     std::optional<T> weights;
//     static auto fields() {
//       return std::tuple(field("corners", &Boxes::corners), field("weights", &Boxes::weights));
//     }
//   };
//
// or other code registers a parser for it: a specialisation of StructureParser with the members
// Leaf, With (the same type with other leaves), parse and build, like those below.

/// The type that holds what a T holds, with other leaves: vector<Tensor> to vector<HostTensor>.
template <class T, class Leaf>
using WithLeaf = typename StructureParser<T>::template With<Leaf>;

/// Makes a T from its structure. Throws InvalidArgument if the structure is not that of a T.
template <class T>
T build(const Structure<typename StructureParser<T>::Leaf>& structure) {
  return StructureParser<T>::build(structure);
}

/// The parser of a type that is a leaf itself.
template <class L>
struct LeafParser {
  using Leaf = L;
  template <class Other>
  using With = Other;
  static Structure<L> parse(const L& leaf) { return leaf; }
  static L build(const Structure<L>& structure) { return structure.tensor(); }
};

template <>
struct StructureParser<HostTensor> : LeafParser<HostTensor> {};

template <class L>
struct StructureParser<Structure<L>> {
  using Leaf = L;
  template <class Other>
  using With = Structure<Other>;
  static Structure<L> parse(const Structure<L>& structure) { return structure; }
  static Structure<L> build(const Structure<L>& structure) { return structure; }
};

template <class T>
struct StructureParser<std::optional<T>> {
  using Leaf = typename StructureParser<T>::Leaf;
  template <class Other>
  using With = std::optional<WithLeaf<T, Other>>;
  static Structure<Leaf> parse(const std::optional<T>& value) {
    return value ? Structure<Leaf>(*value) : Structure<Leaf>();
  }
  static std::optional<T> build(const Structure<Leaf>& structure) {
    return structure.isAbsent() ? std::nullopt : std::optional(sluice::build<T>(structure));
  }
};

template <class T>
struct StructureParser<std::vector<T>> {
  using Leaf = typename StructureParser<T>::Leaf;
  template <class Other>
  using With = std::vector<WithLeaf<T, Other>>;
  static Structure<Leaf> parse(const std::vector<T>& values) {
    return Structure<Leaf>::list({values.begin(), values.end()});
  }
  static std::vector<T> build(const Structure<Leaf>& structure) {
    structure.require(StructureKind::List, "a list");
    std::vector<T> values;
    for (const Structure<Leaf>& part : structure.parts()) {
      values.push_back(sluice::build<T>(part));
    }
    return values;
  }
};

template <class T, class Compare>
struct StructureParser<std::map<std::string, T, Compare>> {
  using Leaf = typename StructureParser<T>::Leaf;
  template <class Other>
  using With = std::map<std::string, WithLeaf<T, Other>, Compare>;
  static Structure<Leaf> parse(const std::map<std::string, T, Compare>& values) {
    return Structure<Leaf>::named({values.begin(), values.end()});
  }
  static std::map<std::string, T, Compare> build(const Structure<Leaf>& structure) {
    structure.require(StructureKind::Named, "parts by name");
    std::map<std::string, T, Compare> values;
    for (std::size_t i = 0; i < structure.size(); ++i) {
      values.emplace(structure.names()[i], sluice::build<T>(structure[i]));
    }
    return values;
  }
};

namespace detail {

/// Throws InvalidArgument unless the structure is a list of `size` parts.
template <class L>
void requireLength(const Structure<L>& structure, std::size_t size) {
  if (structure.kind() != StructureKind::List || structure.size() != size) {
    raise<InvalidArgument>(
        "expected {}, got {}", describe(StructureKind::List, size), structure.describe());
  }
}

/// The parser of lists whose parts have different types.
template <class List, class... Ts>
struct FixedListParser {
  using Leaf = typename StructureParser<std::tuple_element_t<0, List>>::Leaf;
  static Structure<Leaf> parse(const List& list) {
    return std::apply(
        [](const Ts&... parts) { return Structure<Leaf>::list({Structure<Leaf>(parts)...}); },
        list);
  }
  static List build(const Structure<Leaf>& structure) {
    requireLength(structure, sizeof...(Ts));
    return build(structure, std::index_sequence_for<Ts...>());
  }

 private:
  template <std::size_t... kIs>
  static List build(const Structure<Leaf>& structure, std::index_sequence<kIs...>) {
    return {sluice::build<Ts>(structure[kIs])...};
  }
};

}  // namespace detail

template <class T, std::size_t kSize>
struct StructureParser<std::array<T, kSize>> {
  using Leaf = typename StructureParser<T>::Leaf;
  template <class Other>
  using With = std::array<WithLeaf<T, Other>, kSize>;
  static Structure<Leaf> parse(const std::array<T, kSize>& values) {
    return Structure<Leaf>::list({values.begin(), values.end()});
  }
  static std::array<T, kSize> build(const Structure<Leaf>& structure) {
    detail::requireLength(structure, kSize);
    std::array<T, kSize> values;
    for (std::size_t i = 0; i < kSize; ++i) {
      values[i] = sluice::build<T>(structure[i]);
    }
    return values;
  }
};

template <class A, class B>
struct StructureParser<std::pair<A, B>> : detail::FixedListParser<std::pair<A, B>, A, B> {
  template <class Other>
  using With = std::pair<WithLeaf<A, Other>, WithLeaf<B, Other>>;
};

template <class... Ts>
requires(sizeof...(Ts) > 0)  //
    struct StructureParser<std::tuple<Ts...>> : detail::FixedListParser<std::tuple<Ts...>, Ts...> {
  template <class Other>
  using With = std::tuple<WithLeaf<Ts, Other>...>;
};

/// A field of a struct, with its name as a part.
template <class S, class T>
struct Field {
  std::string name;
  T S::*member;
};
template <class S, class T>
Field<S, T> field(std::string name, T S::*member) {
  return {std::move(name), member};
}

/// The parser of structs that list their fields.
template <template <class> class S, class L>
requires requires {
  S<L>::fields();
}
struct StructureParser<S<L>> {
  using Leaf = L;
  template <class Other>
  using With = S<Other>;
  static Structure<L> parse(const S<L>& value) {
    std::map<std::string, Structure<L>> parts;
    std::apply(
        [&](const auto&... each) {
          (parts.emplace(each.name, Structure<L>(value.*(each.member))), ...);
        },
        S<L>::fields());
    return Structure<L>::named(std::move(parts));
  }
  static S<L> build(const Structure<L>& structure) {
    structure.require(StructureKind::Named, "parts by name");
    S<L> value{};
    std::apply([&](const auto&... each) { (assign(value, each, structure), ...); }, S<L>::fields());
    return value;
  }

 private:
  template <class T>
  static void assign(S<L>& value, const Field<S<L>, T>& field, const Structure<L>& structure) {
    value.*(field.member) = sluice::build<T>(structure[field.name]);
  }
};

}  // namespace sluice

#pragma GCC visibility pop
