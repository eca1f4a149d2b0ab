// Attributes of an op as plain data: a small sorted map from name to value. Because they are data,
// printing, parsing, equality, hashing, cloning and serialising are each written once.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

class Graph;

/// A nested graph: immutable once it is an attribute, so copies of the owner may share it.
using GraphRef = std::shared_ptr<const Graph>;

/// The alternatives are in the order of AttrKind.
using Attr = std::variant<std::int64_t,
                          double,
                          bool,
                          std::string,
                          std::vector<std::int64_t>,
                          std::vector<double>,
                          std::vector<std::string>,
                          HostTensor,
                          GraphRef>;

enum class AttrKind : std::uint8_t { Int, Real, Bool, Text, Ints, Reals, Texts, Tensor, Subgraph };

std::string_view name(AttrKind kind);
inline AttrKind kindOf(const Attr& attr) {
  return static_cast<AttrKind>(attr.index());
}

/// Deep equality: tensors by bits, subgraphs by structure, NaN equal to NaN.
bool equal(const Attr& a, const Attr& b);

/// One name with its value; the constructors only save callers from spelling int64_t and string.
/// All members are defined out of line: a variant of nine types is slow to compile, and every op
/// makes some.
struct NamedAttr {
  std::string name;
  Attr value;

  NamedAttr(std::string_view n, std::int64_t v);
  template <std::integral T>
  requires(!std::same_as<T, bool>) NamedAttr(std::string_view n, T v)
      : NamedAttr(n, static_cast<std::int64_t>(v)) {}
  NamedAttr(std::string_view n, bool v);
  NamedAttr(std::string_view n, double v);
  NamedAttr(std::string_view n, float v) : NamedAttr(n, static_cast<double>(v)) {}
  NamedAttr(std::string_view n, const char* v) : NamedAttr(n, std::string_view(v)) {}
  NamedAttr(std::string_view n, std::string_view v);
  NamedAttr(std::string_view n, std::string v);
  NamedAttr(std::string_view n, std::initializer_list<std::int64_t> v);
  NamedAttr(std::string_view n, std::vector<std::int64_t> v);
  NamedAttr(std::string_view n, std::vector<double> v);
  NamedAttr(std::string_view n, std::vector<std::string> v);
  NamedAttr(std::string_view n, HostTensor v);
  NamedAttr(std::string_view n, GraphRef v);
  NamedAttr(std::string_view n, Attr v);

  NamedAttr(const NamedAttr& other);
  NamedAttr(NamedAttr&& other) noexcept;
  NamedAttr& operator=(const NamedAttr& other);
  NamedAttr& operator=(NamedAttr&& other) noexcept;
  ~NamedAttr();
};

class Attrs {
 public:
  Attrs();
  Attrs(std::initializer_list<NamedAttr> items);
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();

  void set(NamedAttr item);
  const Attr* find(std::string_view name) const;

  // Typed access. A missing name or a wrong kind is an InternalError (the op's schema was checked).
  std::int64_t integer(std::string_view name) const;
  double real(std::string_view name) const;
  bool flag(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  const std::vector<double>& reals(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  const HostTensor& tensor(std::string_view name) const;
  const Graph& subgraph(std::string_view name) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }

  bool operator==(const Attrs& other) const;

 private:
  template <class T>
  const T& get(std::string_view name) const;

  std::vector<NamedAttr> items_;  // sorted by name
};

/// Equal attributes have equal hashes, on every machine.
std::uint64_t structuralHash(const Attrs& attrs);

}  // namespace sluice::ir

#pragma GCC visibility pop
