// How ops are written in the standard: an entry for each op whose form is not simply the name in
// its OpDef, in lists by family (export_*.cpp). They mirror the translations of the import. An op
// that no node can say is first replaced by its parts, which are ops with forms of their own.
// Internal to this module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

using ir::Value;

class ModelWriter;

/// How well the standard's form of an op fits it.
enum class Fit : std::uint8_t {
  None,    ///< there is no form
  Values,  ///< the form computes the same values and is imported as other ops or attributes
  Same,    ///< the form is imported as this very op
};

/// A graph and who reads its values.
struct UsedGraph {
  const ir::Graph& graph;
  const ir::Users& users;

  const Shape& shape(const ir::Op& op, std::size_t input) const {
    return graph.type(op.inputs[input]).shape;
  }
  /// Whether an op reads the value or it is an output.
  bool isRead(Value value) const;
  /// Whether an op of this kind reads the value.
  bool isReadBy(Value value, const ir::OpDef& def) const;
};

/// An op that is to be said in other ops.
struct Whole {
  ir::GraphBuilder& b;
  ir::OpView op;
  std::span<const Value> inputs;

  // Ops round their results once, so their parts compute in 32 bits at least.
  Value wide(std::size_t input) const;  ///< 16-bit floats as float32
  Value rounded(Value value) const;     ///< as the type of the op's first result
};

struct StandardForm {
  std::string_view op;
  /// Adds nodes that give the op's results their names. nullptr: a node of the name in OpDef::onnx
  /// with the op's operands and attributes.
  void (*write)(ModelWriter&, const ir::Op&) = nullptr;
  /// nullptr: Same for an entry that writes, None for one that has only parts.
  Fit (*fit)(const UsedGraph&, const ir::Op&) = nullptr;
  /// What takes the place of the op's results where its form does not fit. nullptr: the op's own
  /// decomposition, if it has one.
  std::vector<Value> (*parts)(const Whole&) = nullptr;
};

std::span<const StandardForm> imageForms();
std::span<const StandardForm> indexingForms();
std::span<const StandardForm> linearForms();
std::span<const StandardForm> lossForms();
std::span<const StandardForm> mathForms();
std::span<const StandardForm> normForms();
std::span<const StandardForm> randomForms();
std::span<const StandardForm> shapeForms();
std::span<const StandardForm> windowForms();

/// How well the op's form fits, whatever the element types.
Fit fitOf(const UsedGraph& graph, const ir::Op& op);
/// The same for an op without an entry, and for entries that write by the name in OpDef::onnx.
Fit directFit(const ir::Op& op);
/// Same if the standard's 32-bit attributes keep these numbers, else Values.
Fit fitOfReals(std::span<const double> numbers);

/// Adds the op in its form, which must fit.
void writeForm(ModelWriter& writer, const ir::Op& op);

/// Replaces ops that have no form by parts that have one, where there are such parts.
void replaceByStandardOps(ir::Graph& graph);

}  // namespace sluice::onnx
