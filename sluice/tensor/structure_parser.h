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
#pragma once

#include <array>
#include <tuple>

#include "sluice/tensor/structure.h"

#pragma GCC visibility push(default)

namespace sluice {

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
