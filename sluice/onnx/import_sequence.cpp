// Translations of sequences of tensors. They are resolved here: positions and lengths must be known
// when the model is imported.
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/sequence.h"
#include "sluice/onnx/translations.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Values = std::vector<Value>;

/// The type is of no meaning: no other op reads it.
std::vector<TensorType> infer(const ir::OpView& /*op*/) {
  return {{DType::Bool, Shape{0}}};
}

void reference(const ir::KernelArgs& /*args*/) {}

constinit const ir::OpDef kSequence{.name = "sequence",
                                    .minInputs = 0,
                                    .maxInputs = ir::kVariadic,
                                    .infer = infer,
                                    .reference = reference};

/// Where the value comes from if it was only passed on.
const ir::Op& origin(const ir::Graph& graph, Value value) {
  const ir::Op* op = &graph.op(value.op);
  while (op->is(ops::kIdentity)) {
    op = &graph.op(op->inputs[0].op);
  }
  return *op;
}

Values elements(Node& node, std::size_t operand) {
  return elementsOf(node.b.graph(), node.input(operand));
}

/// A position in [-length, length], or below the length if there must be an element.
std::size_t position(Node& node, std::size_t operand, std::size_t length, bool atEnd) {
  const auto count = static_cast<std::int64_t>(length);
  const std::int64_t otherwise = atEnd ? count : count - 1;
  const std::int64_t given = node.integerOf(operand, otherwise);
  const std::int64_t index = given < 0 ? given + count : given;
  if (index < 0 || index > count || (index == count && !atEnd)) {
    raise<InvalidArgument>("position {} is outside of a sequence of {}", given, length);
  }
  return static_cast<std::size_t>(index);
}

Values construct(Node& node) {
  Values parts;
  for (std::size_t i = 0; i < node.numInputs(); ++i) {
    parts.push_back(node.input(i));
  }
  return {makeSequence(node, std::move(parts))};
}

Values empty(Node& node) {
  return {makeSequence(node, {})};
}

Values at(Node& node) {
  const Values parts = elements(node, 0);
  return {parts[position(node, 1, parts.size(), false)]};
}

Values length(Node& node) {
  const auto count = static_cast<std::int64_t>(elements(node, 0).size());
  return {node.b.constant(HostTensor::scalar(count))};
}

Values insert(Node& node) {
  Values parts = elements(node, 0);
  const std::size_t index = position(node, 2, parts.size(), true);
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(index), node.input(1));
  return {makeSequence(node, std::move(parts))};
}

Values erase(Node& node) {
  Values parts = elements(node, 0);
  const std::size_t index = position(node, 1, parts.size(), false);
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(index));
  return {makeSequence(node, std::move(parts))};
}

Values concat(Node& node) {
  Values parts = elements(node, 0);
  if (parts.empty()) {
    raise<InvalidArgument>("an empty sequence has nothing to concatenate");
  }
  const std::int64_t rank = node.b.shape(parts[0]).rank();
  std::int64_t axis = node.integer("axis");
  if (node.flag("new_axis")) {
    axis = normalizeAxis(axis, rank + 1);
    for (Value& part : parts) {
      part = ops::unsqueeze(node.b, part, {axis});
    }
  }
  return {ops::concat(node.b, std::move(parts), axis)};
}

/// Sizes of the pieces: a list, or pieces of one size with a smaller last one.
std::vector<std::int64_t> pieceSizes(Node& node, std::int64_t extent) {
  if (node.has(1) && node.rank(1) == 1) {
    return node.integersOf(1);
  }
  const std::int64_t size = node.integerOf(1, 1);
  if (size < 1) {
    raise<InvalidArgument>("pieces must have an extent of 1 or more, got {}", size);
  }
  node.countSequence(static_cast<std::size_t>(extent / size));
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(extent / size), size);
  if (extent % size != 0) {
    sizes.push_back(extent % size);
  }
  return sizes;
}

Values splitTo(Node& node) {
  const std::int64_t axis = normalizeAxis(node.integer("axis"), node.rank(0));
  std::vector<std::int64_t> sizes = pieceSizes(node, node.shape(0)[axis]);
  if (sizes.empty()) {
    return {makeSequence(node, {})};
  }
  Values parts = ops::split(node.b, node.input(0), axis, std::move(sizes));
  if (!node.has(1) && !node.flag("keepdims", true)) {
    for (Value& part : parts) {
      part = ops::squeeze(node.b, part, {axis});
    }
  }
  return {makeSequence(node, std::move(parts))};
}

constexpr std::array kSequenceTranslations = {
    Translation{"ConcatFromSequence", concat, "", true},
    Translation{"SequenceAt", at, "", true},
    Translation{"SequenceConstruct", construct},
    Translation{"SequenceEmpty", empty},
    Translation{"SequenceErase", erase, "", true},
    Translation{"SequenceInsert", insert, "", true},
    Translation{"SequenceLength", length, "", true},
    Translation{"SplitToSequence", splitTo},
};

}  // namespace

bool isSequence(const ir::Graph& graph, Value value) {
  return origin(graph, value).is(kSequence);
}

Value makeSequence(Node& node, std::vector<Value> elements) {
  node.countSequence(elements.size());
  return node.b.add(kSequence, std::move(elements));
}

std::vector<Value> elementsOf(const ir::Graph& graph, Value value) {
  const ir::Op& op = origin(graph, value);
  if (!op.is(kSequence)) {
    raise<InvalidArgument>("expected a sequence, got {}", graph.type(value).str());
  }
  return op.inputs;
}

std::span<const Translation> sequenceTranslations() {
  return kSequenceTranslations;
}

}  // namespace sluice::onnx
