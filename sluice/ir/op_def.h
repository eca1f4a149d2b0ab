// OpDef: everything the framework knows about one kind of op, as one constant record. The op files
// in sluice/ops define these records; ir itself defines only input, variable, constant and assign.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ir/attrs.h"
#include "sluice/ir/value.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

class GraphBuilder;
struct OpDef;

struct AttrSpec {
  std::string_view name;
  AttrKind kind = AttrKind::Int;
  bool required = false;
  // The default unless required; lists default to empty. Tensors and subgraphs are always required.
  std::int64_t integer = 0;
  double real = 0.0;
  std::string_view text = {};
};

/// An op as its own functions see it, without graph and ids.
struct OpView {
  const OpDef& def;
  const Attrs& attrs;
  std::span<const TensorType> inputs;
  std::span<const TensorType> outputs;  // empty while inferring

  std::int64_t integer(std::string_view name) const { return attrs.integer(name); }
};

/// Which operands the gradient of an op reads: bit i stands for input or output i. The planners of
/// stashes, recomputation and offload read this instead of guessing; autodiff checks it.
struct GradReads {
  std::uint64_t inputs = 0;
  std::uint64_t outputs = 0;
};

struct Cost {
  double flops = 0;
  double bytesRead = 0;
  double bytesWritten = 0;
};

/// What a gradient function receives: the op's own values and the gradients of its outputs. The
/// gradient of an output is invalid (Value().valid() == false) if nothing depends on that output.
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

/// Facts about the running step that a kernel may depend on.
struct RunInfo {
  std::uint64_t seed = 0;
  std::int64_t microBatch = 0;         ///< counted over the whole training (random numbers, R6)
  std::int64_t microBatchInRound = 0;  ///< 0 is the first of an accumulation
  std::int32_t replica = 0;
};

/// The operands of one kernel run, in plain row-major memory.
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
  bool loss = false;  ///< its result is meant to be minimised
  bool host = false;  ///< only the host can run it, with its functions, libraries or texts
};

inline constexpr int kVariadic = -1;

struct OpDef {
  std::string_view name;
  int minInputs = 1;
  int maxInputs = 1;  ///< kVariadic: any number from minInputs on
  int outputs = 1;    ///< kVariadic: as many as infer returns
  std::span<const AttrSpec> attrs = {};
  /// Returns the output types; throws InvalidArgument. nullptr: NewOp::types gives them.
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;
  /// Returns the gradients of the inputs, built only from ops. nullptr: not differentiable, unless
  /// `decompose` is set.
  std::vector<Value> (*grad)(GradContext&) = nullptr;
  GradReads gradReads = {};
  /// nullptr: the op has no flops and reads and writes every operand once.
  Cost (*cost)(const OpView&) = nullptr;
  /// Computes the op with plain loops; the oracle of every device.
  void (*reference)(const KernelArgs&) = nullptr;
  /// Builds the same result from other ops. A composite has this and no reference. An op that has
  /// both runs as it is and is decomposed only to be differentiated.
  std::vector<Value> (*decompose)(GraphBuilder&, const OpView&, std::span<const Value>) = nullptr;
  OpTraits traits = {};
  std::span<const OnnxName> onnx = {};
};

/// The op's cost, by its function or the default.
Cost costOf(const OpView& op);

/// The value that a missing attribute is set to.
Attr defaultOf(const AttrSpec& spec);

/// Checks names and kinds against the schema, and that attributes without a default are present.
/// Throws InvalidArgument.
void checkAttrs(const OpDef& def, const Attrs& attrs);
/// Same as above, and fills in defaults.
Attrs completeAttrs(const OpDef& def, Attrs attrs);

/// Looks op definitions up by name; the parser takes one, so tests can pass toy ops.
class OpSet {
 public:
  explicit OpSet(std::span<const OpDef* const> defs) : defs_(defs) {}
  /// nullptr if no op has this name.
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

#pragma GCC visibility pop
