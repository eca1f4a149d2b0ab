// Structural equality and hash of graphs, both over the same walk: ops in order, named by their
// position, so ids and op names do not count.
#include <algorithm>
#include <unordered_map>

#include "sluice/base/hash.h"
#include "sluice/ir/graph.h"

namespace sluice::ir {
namespace {

using Positions = std::unordered_map<OpId, std::int64_t>;

Positions positionsOf(const Graph& graph) {
  Positions positions;
  for (const OpId id : graph.order()) {
    positions.emplace(id, static_cast<std::int64_t>(positions.size()));
  }
  return positions;
}

/// The blocks' names matter, not the order in which the graph met them.
std::string_view blockName(const Graph& graph, const Op& op) {
  return op.place.block < 0 ? std::string_view()
                            : graph.blocks()[static_cast<std::size_t>(op.place.block)];
}

bool sameOp(const Graph& a,
            const Op& x,
            const Positions& xs,
            const Graph& b,
            const Op& y,
            const Positions& ys) {
  const auto sameValue = [&](Value v, Value w) {
    return xs.at(v.op) == ys.at(w.op) && v.out == w.out;
  };
  const bool sameName = !x.is(kInput) || x.name == y.name;
  Placement px = x.place;
  Placement py = y.place;
  px.block = py.block = -1;
  return x.def == y.def && sameName && px == py && blockName(a, x) == blockName(b, y) &&
         x.outputs == y.outputs && x.attrs == y.attrs &&
         std::ranges::equal(x.inputs, y.inputs, sameValue);
}

/// One overload per alternative of Attr.
struct AttrHasher {
  Hasher& hasher;

  void operator()(const HostTensor& value) const { hasher.add(value.hash()); }
  void operator()(const GraphRef& value) const { hasher.add(structuralHash(*value)); }
  void operator()(const std::string& value) const { hasher.add(std::string_view(value)); }
  template <class T>
  void operator()(const std::vector<T>& values) const {
    hasher.add(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) {
      (*this)(value);
    }
  }
  template <class T>
  void operator()(const T& value) const {
    hasher.add(value);
  }
};

void addAttr(Hasher& hasher, const Attr& attr) {
  hasher.add(static_cast<int>(kindOf(attr)));
  std::visit(AttrHasher{hasher}, attr);
}

void addOp(Hasher& hasher, const Graph& graph, const Op& op, const Positions& positions) {
  hasher.add(op.def->name);
  for (const Value v : op.inputs) {
    hasher.add(positions.at(v.op)).add(static_cast<int>(v.out));
  }
  for (const NamedAttr& attr : op.attrs) {
    hasher.add(std::string_view(attr.name));
    addAttr(hasher, attr.value);
  }
  for (const TensorType& type : op.outputs) {
    hasher.add(std::string_view(type.str()));
  }
  hasher.add(static_cast<int>(op.place.pass))
      .add(blockName(graph, op))
      .add(op.place.stage)
      .add(op.place.phase)
      .add(op.place.device);
  if (op.is(kInput)) {
    hasher.add(std::string_view(op.name));
  }
}

}  // namespace

bool structurallyEqual(const Graph& a, const Graph& b) {
  if (a.numOps() != b.numOps() || a.outputs().size() != b.outputs().size() ||
      !std::ranges::equal(a.variables(), b.variables())) {
    return false;
  }
  const Positions xs = positionsOf(a);
  const Positions ys = positionsOf(b);
  for (std::size_t i = 0; i < a.numOps(); ++i) {
    if (!sameOp(a, a.op(a.order()[i]), xs, b, b.op(b.order()[i]), ys)) {
      return false;
    }
  }
  return std::ranges::equal(a.outputs(), b.outputs(), [&](const Output& x, const Output& y) {
    return x.name == y.name && xs.at(x.value.op) == ys.at(y.value.op) && x.value.out == y.value.out;
  });
}

std::uint64_t structuralHash(const Attrs& attrs) {
  Hasher hasher;
  for (const NamedAttr& attr : attrs) {
    hasher.add(std::string_view(attr.name));
    addAttr(hasher, attr.value);
  }
  return hasher.digest();
}

std::uint64_t structuralHash(const Graph& graph) {
  Hasher hasher;
  const Positions positions = positionsOf(graph);
  for (const OpId id : graph.order()) {
    addOp(hasher, graph, graph.op(id), positions);
  }
  for (const Output& output : graph.outputs()) {
    hasher.add(std::string_view(output.name))
        .add(positions.at(output.value.op))
        .add(static_cast<int>(output.value.out));
  }
  for (const Variable& variable : graph.variables()) {
    const Initializer& init = variable.initializer;
    hasher.add(std::string_view(variable.name))
        .add(std::string_view(variable.type.str()))
        .add(static_cast<int>(variable.role))
        .add(variable.trainable)
        .add(static_cast<int>(init.kind))
        .add(init.a)
        .add(init.b)
        .add(init.tensor.hash());
    if (variable.split) {
      hasher.add(variable.split->parts).add(std::string_view(variable.split->whole.str()));
    }
  }
  return hasher.digest();
}

}  // namespace sluice::ir
