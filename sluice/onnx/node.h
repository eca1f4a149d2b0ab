// Node: one node of an ONNX graph as its translation sees it: operands, attributes with the
// standard's defaults, constants, bodies. This header does without protobuf, so that translations
// compile quickly; ProtoNode implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/onnx/files.h"

namespace sluice::onnx {

using ir::Value;

/// The newest opset of the default domain that is read, and the one that is written.
inline constexpr int kNewestOpset = 17;

class Node {
 public:
  explicit Node(ir::GraphBuilder& builder) : b(builder) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  ir::GraphBuilder& b;

  virtual std::string_view op() const = 0;
  /// The node's doc string, in which exported models keep what the standard has no word for.
  virtual std::string_view note() const = 0;
  /// The version of the op's definition that the model's opset refers to.
  virtual int version() const = 0;
  /// Whether the model will be trained, for nodes that do not say.
  virtual bool forTraining() const = 0;
  /// The number of replicas that the model will run with; 0: not known.
  virtual std::int64_t replicas() const = 0;
  virtual const ImportLimits& limits() const = 0;
  /// Loops of fewer iterations are unrolled.
  virtual std::int64_t rollFrom() const = 0;

  virtual std::size_t numInputs() const = 0;
  virtual std::size_t numOutputs() const = 0;
  /// Whether an operand is given (not empty); false for numbers after the last operand.
  virtual bool has(std::size_t input) const = 0;
  /// Whether the result may be read.
  virtual bool wants(std::size_t output) const = 0;

  /// The operand. Throws InvalidArgument if it is not given.
  virtual Value input(std::size_t i) = 0;
  /// The operand as state that is not trained (running statistics), unless it depends on inputs.
  virtual Value buffer(std::size_t i) = 0;

  /// The value of an operand. Throws NeedsConstant if it depends on the model's inputs.
  virtual HostTensor constant(std::size_t i) = 0;
  /// Whether constant(i) would succeed.
  virtual bool isConstant(std::size_t i) = 0;

  /// The attribute of the node, else the standard's default; nullptr if there is neither.
  virtual const ir::Attr* find(std::string_view attr) const = 0;
  /// All attributes that the node itself has, by name, except bodies.
  virtual const ir::Attrs& attrs() const = 0;

  /// Inlines the body `attr` (then_branch, body) with these values for its inputs.
  virtual std::vector<Value> inlineBody(std::string_view attr, std::span<const Value> inputs) = 0;
  virtual std::size_t bodyInputs(std::string_view attr) const = 0;
  /// Evaluates a value that was made while translating. Throws NeedsConstant.
  virtual HostTensor evaluate(Value value) = 0;
  virtual bool canEvaluate(Value value) = 0;
  /// A tensor of the graph by its name; it need not be an operand. Throws InvalidArgument if there
  /// is none.
  virtual Value named(const std::string& tensor) = 0;
  /// Must be called before a sequence of this many elements is made. Throws Unsupported above the
  /// limit.
  virtual void countSequence(std::size_t elements) = 0;
  /// Must be called before a tensor of this many elements is computed, because a few bytes of a
  /// file can ask for any number. Throws Unsupported if all such tensors together exceed the
  /// limits.
  virtual void countConstant(double elements, DType dtype) = 0;
  /// Must be called before this many flops are done. Throws Unsupported if all of them together
  /// exceed the limit.
  virtual void countWork(double flops) = 0;

  // The functions below use those above.
  const TensorType& type(std::size_t i) { return b.type(input(i)); }
  const Shape& shape(std::size_t i) { return type(i).shape; }
  DType dtype(std::size_t i) { return type(i).dtype; }
  std::int64_t rank(std::size_t i) { return shape(i).rank(); }

  bool hasAttr(std::string_view attr) const { return find(attr) != nullptr; }
  std::int64_t integer(std::string_view attr, std::int64_t otherwise = 0) const;
  bool flag(std::string_view attr, bool otherwise = false) const;
  double real(std::string_view attr, double otherwise = 0.0) const;
  std::string text(std::string_view attr, std::string_view otherwise = "") const;
  std::vector<std::int64_t> integers(std::string_view attr) const;  ///< empty if there is none
  std::vector<double> reals(std::string_view attr) const;
  std::vector<std::string> texts(std::string_view attr) const;

  /// A constant operand as numbers: integersOf takes any integer type, realsOf takes any type.
  std::vector<std::int64_t> integersOf(std::size_t i);
  std::vector<double> realsOf(std::size_t i);
  /// A constant operand as one number, or `otherwise` if the operand is not given.
  double realOf(std::size_t i, double otherwise);
  std::int64_t integerOf(std::size_t i, std::int64_t otherwise);
  /// A list that is an attribute in older versions and an operand in newer ones; empty if there is
  /// neither.
  std::vector<std::int64_t> integersOf(std::string_view attr, std::size_t i);
  /// The element type that the integer attribute stands for; `otherwise` if there is no such
  /// attribute.
  DType dtypeAttr(std::string_view attr, DType otherwise) const;

  /// Throws Unsupported with the reason. Callers add the location to the error.
  [[noreturn]] void unsupported(std::string_view reason) const;
};

using Translate = std::vector<Value> (*)(Node&);

/// How nodes of one op are translated. An op of Sluice that has the same operands and attributes as
/// in ONNX needs no Translation: the names in its OpDef suffice.
struct Translation {
  std::string_view op;
  Translate translate = nullptr;
  std::string_view domain = "";
  bool sequences = false;  ///< an operand may be a sequence of tensors
};

/// The element type that a number of TensorProto.DataType stands for. Throws Unsupported.
DType dtypeOf(std::int64_t onnxType);
/// The number of TensorProto.DataType for an element type.
std::int64_t onnxTypeOf(DType dtype);

}  // namespace sluice::onnx
