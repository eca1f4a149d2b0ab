#include "sluice/ir/byte_form.h"

#include <cstring>
#include <limits>
#include <memory>

#include <fmt/format.h>

#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"

namespace sluice::ir {
namespace {

constexpr std::int64_t kRoles = static_cast<std::int64_t>(VariableRole::StepScalar) + 1;
constexpr std::int64_t kInitializers = static_cast<std::int64_t>(Initializer::Kind::Tensor) + 1;
constexpr std::int64_t kAttrKinds = static_cast<std::int64_t>(AttrKind::Subgraph) + 1;
constexpr std::int64_t kMostParts = 1 << 20;

void writeShape(ByteWriter& out, const Shape& shape) {
  out.number(std::uint64_t{shape.dims().size()});
  for (const std::int64_t extent : shape.dims()) {
    out.number(extent);
  }
}

Shape readShape(ByteReader& in) {
  std::vector<std::int64_t> dims(in.count("extents"));
  for (std::int64_t& extent : dims) {
    extent = in.within(0, std::numeric_limits<std::int64_t>::max(), "an extent");
  }
  return Shape(std::move(dims));
}

template <class T, class Write>
void writeList(ByteWriter& out, const std::vector<T>& list, const Write& write) {
  out.number(std::uint64_t{list.size()});
  for (const T& item : list) {
    write(item);
  }
}

/// Writes each kind of attribute as its own.
struct AttrWriter {
  ByteWriter& out;

  void operator()(std::int64_t value) const { out.number(value); }
  void operator()(double value) const { out.real(value); }
  void operator()(bool value) const { out.flag(value); }
  void operator()(const std::string& value) const { out.text(value); }
  void operator()(const std::vector<std::int64_t>& list) const { writeList(out, list, *this); }
  void operator()(const std::vector<double>& list) const { writeList(out, list, *this); }
  void operator()(const std::vector<std::string>& list) const { writeList(out, list, *this); }
  void operator()(const HostTensor& value) const { writeTensor(out, value); }
  void operator()(const GraphRef& value) const { out.text(print(*value)); }
};

}  // namespace

void writeType(ByteWriter& out, const TensorType& type) {
  out.number(static_cast<std::int32_t>(type.dtype));
  writeShape(out, type.shape);
}

TensorType readType(ByteReader& in) {
  const auto dtype = static_cast<DType>(in.index(0, kNumDTypes, "a type of elements"));
  return {dtype, readShape(in)};
}

void writeTensor(ByteWriter& out, const HostTensor& tensor) {
  writeType(out, tensor.type());
  out.text({reinterpret_cast<const char*>(tensor.bytes()), tensor.byteCount()});
}

HostTensor readTensor(ByteReader& in) {
  const TensorType type = readType(in);
  const std::string_view bytes = in.view();  // before memory is allocated for them
  if (bytes.size() != type.bytes()) {
    in.fail(
        fmt::format("a tensor {} has {} bytes, not {}", type.str(), type.bytes(), bytes.size()));
  }
  HostTensor tensor(type);
  std::memcpy(tensor.bytes(), bytes.data(), bytes.size());
  return tensor;
}

void writeAttrs(ByteWriter& out, const Attrs& attrs) {
  out.number(std::uint64_t{attrs.size()});
  for (const NamedAttr& attr : attrs) {
    out.text(attr.name);
    out.number(static_cast<std::int32_t>(kindOf(attr.value)));
    std::visit(AttrWriter{out}, attr.value);
  }
}

Attrs AttrReader::read(ByteReader& in, const OpDef& def) {
  Attrs attrs;
  const std::size_t count = in.count("attributes");
  if (count > def.attrs.size()) {
    in.fail(fmt::format(
        "{} has {} attributes, expected at most {}", def.name, count, def.attrs.size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = in.text();
    attrs.set(NamedAttr(name, readAttr(in)));
  }
  checkAttrs(def, attrs);
  return completeAttrs(def, std::move(attrs));
}

Attr AttrReader::readAttr(ByteReader& in) {
  const auto many = [&](auto one) {
    std::vector<decltype(one())> list(in.count("values"));
    for (auto& item : list) {
      item = one();
    }
    return list;
  };
  switch (static_cast<AttrKind>(in.index(0, kAttrKinds, "the kind of an attribute"))) {
    case AttrKind::Int:
      return in.signedNumber();
    case AttrKind::Real:
      return in.real();
    case AttrKind::Bool:
      return in.flag();
    case AttrKind::Text:
      return in.text();
    case AttrKind::Ints:
      return many([&] { return in.signedNumber(); });
    case AttrKind::Reals:
      return many([&] { return in.real(); });
    case AttrKind::Texts:
      return many([&] { return in.text(); });
    case AttrKind::Tensor:
      return readTensor(in);
    case AttrKind::Subgraph:
      break;
  }
  return graphOf(in.view());
}

GraphRef AttrReader::graphOf(std::string_view text) {
  const auto known = graphs_.find(text);
  if (known != graphs_.end()) {
    return known->second;
  }
  auto graph = std::make_shared<const Graph>(parse(text, ops_));
  graphs_.emplace(text, graph);
  return graph;
}

void writeVariable(ByteWriter& out, const Variable& variable) {
  out.text(variable.name);
  writeType(out, variable.type);
  out.number(static_cast<std::int32_t>(variable.role));
  out.flag(variable.trainable);
  out.number(static_cast<std::int32_t>(variable.initializer.kind));
  out.real(variable.initializer.a);
  out.real(variable.initializer.b);
  out.flag(variable.split.has_value());
  if (variable.split) {
    writeShape(out, variable.split->whole);
    out.number(variable.split->parts);
  }
}

Variable readVariable(ByteReader& in) {
  Variable variable{.name = in.text(), .type = readType(in)};
  variable.role = static_cast<VariableRole>(in.index(0, kRoles, "the role of a variable"));
  variable.trainable = in.flag();
  const auto kind =
      static_cast<Initializer::Kind>(in.index(0, kInitializers, "the kind of an initial value"));
  const double a = in.real();
  const double b = in.real();
  variable.initializer =
      kind == Initializer::Kind::Tensor ? Initializer::constant(0) : Initializer{kind, a, b, {}};
  if (in.flag()) {
    const Shape whole = readShape(in);
    variable.split = Split{whole, in.index(1, kMostParts, "the number of parts")};
    const std::int64_t part = partOf(whole.elements(), variable.split->parts);
    if (variable.type.shape != Shape{part}) {
      in.fail(fmt::format(
          "a part of '{}' is {}, expected {} elements", variable.name, variable.type.str(), part));
    }
  }
  return variable;
}

}  // namespace sluice::ir
