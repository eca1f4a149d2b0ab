#include "sluice/ir/attrs.h"

#include <algorithm>
#include <array>
#include <bit>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::ir {
namespace {

constexpr std::array<std::string_view, 9> kKindNames = {
    "int", "real", "bool", "text", "ints", "reals", "texts", "tensor", "subgraph"};

bool sameReal(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

}  // namespace

std::string_view name(AttrKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

bool equal(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) {
    return false;
  }
  switch (kindOf(a)) {
    case AttrKind::Real:
      return sameReal(std::get<double>(a), std::get<double>(b));
    case AttrKind::Reals:
      return std::ranges::equal(
          std::get<std::vector<double>>(a), std::get<std::vector<double>>(b), sameReal);
    case AttrKind::Tensor:
      return std::get<HostTensor>(a).sameBits(std::get<HostTensor>(b));
    case AttrKind::Subgraph:
      return structurallyEqual(*std::get<GraphRef>(a), *std::get<GraphRef>(b));
    case AttrKind::Int:
      return std::get<std::int64_t>(a) == std::get<std::int64_t>(b);
    case AttrKind::Bool:
      return std::get<bool>(a) == std::get<bool>(b);
    case AttrKind::Text:
      return std::get<std::string>(a) == std::get<std::string>(b);
    case AttrKind::Ints:
      return std::get<std::vector<std::int64_t>>(a) == std::get<std::vector<std::int64_t>>(b);
    case AttrKind::Texts:
      return std::get<std::vector<std::string>>(a) == std::get<std::vector<std::string>>(b);
  }
  return false;
}

NamedAttr::NamedAttr(std::string_view n, std::int64_t v) : name(n), value(v) {}
NamedAttr::NamedAttr(std::string_view n, bool v) : name(n), value(v) {}
NamedAttr::NamedAttr(std::string_view n, double v) : name(n), value(v) {}
NamedAttr::NamedAttr(std::string_view n, std::string_view v) : name(n), value(std::string(v)) {}
NamedAttr::NamedAttr(std::string_view n, std::string v) : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, std::initializer_list<std::int64_t> v)
    : name(n), value(std::vector<std::int64_t>(v)) {}
NamedAttr::NamedAttr(std::string_view n, std::vector<std::int64_t> v)
    : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, std::vector<double> v) : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, std::vector<std::string> v)
    : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, HostTensor v) : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, GraphRef v) : name(n), value(std::move(v)) {}
NamedAttr::NamedAttr(std::string_view n, Attr v) : name(n), value(std::move(v)) {}

NamedAttr::NamedAttr(const NamedAttr& other) = default;
NamedAttr::NamedAttr(NamedAttr&& other) noexcept = default;
NamedAttr& NamedAttr::operator=(const NamedAttr& other) = default;
NamedAttr& NamedAttr::operator=(NamedAttr&& other) noexcept = default;
NamedAttr::~NamedAttr() = default;

Attrs::Attrs() = default;
Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;

Attrs::Attrs(std::initializer_list<NamedAttr> items) {
  for (const NamedAttr& item : items) {
    set(item);
  }
}

void Attrs::set(NamedAttr item) {
  const auto at = std::ranges::lower_bound(items_, item.name, {}, &NamedAttr::name);
  if (at != items_.end() && at->name == item.name) {
    at->value = std::move(item.value);
  } else {
    items_.insert(at, std::move(item));
  }
}

const Attr* Attrs::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(items_, name, {}, &NamedAttr::name);
  return at != items_.end() && at->name == name ? &at->value : nullptr;
}

template <class T>
const T& Attrs::get(std::string_view name) const {
  const Attr* attr = find(name);
  SLUICE_CHECK(attr != nullptr, "attribute '{}' is missing", name);
  const T* value = std::get_if<T>(attr);
  SLUICE_CHECK(value != nullptr, "attribute '{}' is of kind {}", name, ir::name(kindOf(*attr)));
  return *value;
}

std::int64_t Attrs::integer(std::string_view name) const {
  return get<std::int64_t>(name);
}
double Attrs::real(std::string_view name) const {
  return get<double>(name);
}
bool Attrs::flag(std::string_view name) const {
  return get<bool>(name);
}
const std::string& Attrs::text(std::string_view name) const {
  return get<std::string>(name);
}
const std::vector<std::int64_t>& Attrs::integers(std::string_view name) const {
  return get<std::vector<std::int64_t>>(name);
}
const std::vector<double>& Attrs::reals(std::string_view name) const {
  return get<std::vector<double>>(name);
}
const std::vector<std::string>& Attrs::texts(std::string_view name) const {
  return get<std::vector<std::string>>(name);
}
const HostTensor& Attrs::tensor(std::string_view name) const {
  return get<HostTensor>(name);
}
const Graph& Attrs::subgraph(std::string_view name) const {
  return *get<GraphRef>(name);
}

bool Attrs::operator==(const Attrs& other) const {
  return std::ranges::equal(items_, other.items_, [](const NamedAttr& a, const NamedAttr& b) {
    return a.name == b.name && equal(a.value, b.value);
  });
}

}  // namespace sluice::ir
