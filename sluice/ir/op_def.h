// OpDef: everything the framework knows of one kind of op, as one constant record. Op files in
// sluice/ops define them; ir itself defines only input, variable, constant and assign.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ir/attrs.h"
#include "sluice/ir/value.h"
#include "sluice/tensor/shape.h"

namespace sluice::ir {

class GraphBuilder;
struct OpDef;

struct AttrSpec {
  std::string_view name;
  AttrKind kind = AttrKind::Int;
  bool required = false;
  // The default when not required; lists default to empty. Tensors and subgraphs are required.
  std::int64_t integer = 0;
  double real = 0.0;
  std::string_view text = {};
};

/// An op as its own functions see it: no graph, no ids.
struct OpView {
  const OpDef& def;
  const Attrs& attrs;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;  // empty while inferring

  std::int64_t integer(std::string_view name) const { return attrs.integer(name); }
};

/// Which operands an op's gradient reads: bit i is input or output i. Planners of stashes,
/// recomputation and offload read this instead of guessing; autodiff checks it.
struct GradReads {
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
};

struct Cost {
  double flops = 0;
  double bytesRead = 0;
  double bytesWritten = 0;
};

/// What a gradient function gets: the op's own values and the gradients of its outputs. An output
/// gradient is invalid (Value().valid() == false) when nothing depends on that output.
class GradContext {
 public:
  GradContext(GraphBuilder& builder,
              OpView view,
              std::span<const Value> inputs,
              std::span<const Value> outputs,
              std::span<const Value> outputGrads,
              std::uint64_t needed)
      : b(builder),
        op(view),
        inputs_(inputs),
        outputs_(outputs),
        outputGrads_(outputGrads),
        needed_(needed) {}

  GraphBuilder& b;
  const OpView op;

  Value input(std::size_t i) const;   ///< checked against gradReads
  Value output(std::size_t i) const;  ///< checked against gradReads
  Value grad(std::size_t i = 0) const { return outputGrads_[i]; }
  /// Whether the gradient of input i is wanted; an unwanted one may be returned as Value().
  bool needs(std::size_t i) const { return ((needed_ >> (i < 63 ? i : 63)) & 1U) != 0; }
  std::size_t numInputs() const { return inputs_.size(); }

 private:
  std::span<const Value> inputs_;
  std::span<const Value> outputs_;
  std::span<const Value> outputGrads_;
  std::uint64_t needed_;
};

/// Facts of the running step that a kernel may depend on.
struct RunInfo {
  std::uint64_t seed = 0;
  std::int64_t microBatch = 0;         ///< counted over the whole training (random numbers, R6)
  std::int64_t microBatchInRound = 0;  ///< 0 is the first of an accumulation
  std::int32_t replica = 0;
};

/// Operands of one kernel run: plain row-major memory.
struct KernelArgs {
  OpView op;
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  RunInfo run;

  template <class T>
  std::span<const T> in(std::size_t i) const {
    return {static_cast<const T*>(inputs[i]),
            static_cast<std::size_t>(op.inputs[i].shape.elements())};
  }
  template <class T>
  std::span<T> out(std::size_t i) const {
    return {static_cast<T*>(outputs[i]), static_cast<std::size_t>(op.outputs[i].shape.elements())};
  }
};

struct OnnxName {
  std::string_view name;
  int since = 1;
  std::string_view domain = "";
};

struct OpTraits {
  bool effect = false;       ///< writes state or talks to the host: never removed, cloned or moved
  bool random = false;       ///< reads the random stream of its `ordinal` attribute
  bool elementwise = false;  ///< output element i depends on (broadcast) input elements i only
  bool view = false;         ///< output 0 has the bytes of input 0 (reshape); may share its memory
  bool commutative = false;
  bool keep = false;  ///< never removed or merged though pure (nop)
  bool once = false;  ///< never merged, folded or repeated, but removed when unread (print)
  bool loss = false;  ///< what it makes is there to be minimised
  bool host = false;  ///< only the host can do it: a function, a library or a text of the host
};

inline constexpr int kVariadic = -1;

struct OpDef {
  std::string_view name;
  int minInputs = 1;
  int maxInputs = 1;  ///< kVariadic: any number from minInputs
  int outputs = 1;    ///< kVariadic: as many as infer returns
  std::span<const AttrSpec> attrs = {};
  /// Output types; throws InvalidArgument. nullptr: the types are given by whoever makes the op.
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;
  /// Gradients of the inputs, built only from ops; nullptr: not differentiable, unless `decompose`.
  std::vector<Value> (*grad)(GradContext&) = nullptr;
  GradReads gradReads = {};
  /// nullptr: no flops, reads and writes every operand once.
  Cost (*cost)(const OpView&) = nullptr;
  /// Plain loops, the oracle of every device.
  void (*reference)(const KernelArgs&) = nullptr;
  /// The same in other ops. Composites have this and no reference; an op that has both runs as it
  /// is and is taken apart only to be differentiated.
  std::vector<Value> (*decompose)(GraphBuilder&, const OpView&, std::span<const Value>) = nullptr;
  OpTraits traits = {};
  std::span<const OnnxName> onnx = {};
};

/// The op's cost, by its function or the default.
Cost costOf(const OpView& op);

/// What an attribute that is not given is set to.
Attr defaultOf(const AttrSpec& spec);

/// Checks names and kinds against the schema, and that what has no default is there; throws
/// InvalidArgument.
void checkAttrs(const OpDef& def, const Attrs& attrs);
/// The same, and fills in defaults.
Attrs completeAttrs(const OpDef& def, Attrs attrs);

/// Looks op definitions up by name; the parser takes one, so tests can pass toy ops.
class OpSet {
 public:
  explicit OpSet(std::span<const OpDef* const> defs) : defs_(defs) {}
  /// nullptr when there is none of that name.
  const OpDef* find(std::string_view name) const;
  std::span<const OpDef* const> all() const { return defs_; }

 private:
  std::span<const OpDef* const> defs_;  // sorted by name
};

// The ops that ir itself knows.
extern const OpDef kInput;     ///< () -> x; the op's name is the input's name
extern const OpDef kVariable;  ///< () {var} -> the variable's value at this point of the order
extern const OpDef kConstant;  ///< () {value} -> the tensor
extern const OpDef kAssign;    ///< (x) {var, mode}: writes the variable; set | add | sum | mean

}  // namespace sluice::ir
