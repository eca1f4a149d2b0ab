// Graph: a copyable value that owns ops by id, in one execution order. Names are for people; the id
// is the identity. Every change goes through the few methods below, which keep the order and the
// types consistent; verify.h states the invariants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/ir/value.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

/// When an op runs: Forward and Backward once per micro-batch, Update once per weight update.
enum class Pass : std::uint8_t { Forward, Backward, Update };
std::string_view name(Pass pass);

/// Where and when an op runs, as annotated or as decided by the compiler; -1 means not set.
struct Placement {
  Pass pass = Pass::Forward;
  std::int32_t block = -1;  ///< index into Graph::blocks()
  std::int32_t stage = -1;
  std::int32_t phase = -1;
  std::int32_t device = -1;

  bool operator==(const Placement&) const = default;
};

struct Op {
  OpId id;
  const OpDef* def = nullptr;
  std::vector<Value> inputs;
  Attrs attrs;
  std::vector<TensorType> outputs;
  Placement place;
  std::string name;

  Value out(std::size_t i = 0) const { return {id, static_cast<std::uint16_t>(i)}; }
  bool is(const OpDef& other) const { return def == &other; }
};

struct Output {
  std::string name;
  Value value;
  bool operator==(const Output&) const = default;
};

/// The parts of an op that is to be made.
struct NewOp {
  const OpDef& def;
  std::vector<Value> inputs = {};
  Attrs attrs = {};
  std::string name = {};
  Placement place = {};
  std::vector<TensorType> types = {};  ///< only for ops whose def has no `infer`
};

/// One operand position that reads a value.
struct Use {
  OpId op;
  std::size_t input = 0;
};

/// The uses of each value, in op order. Made on demand; valid until the graph changes.
class Users {
 public:
  std::span<const Use> of(Value value) const;
  bool isOutput(Value value) const;

 private:
  friend class Graph;
  /// The index of a value among all values of the graph; nullopt if it is not in the graph.
  std::optional<std::size_t> numberOf(Value value) const;

  std::vector<std::size_t> values_;  // by OpId: index of its first value; last: their count
  std::vector<std::size_t> begins_;  // by value: index of its first use; last: their count
  std::vector<Use> uses_;            // by value
  std::vector<bool> outputs_;        // by value
};

/// Hashes names so that a map of strings can be searched with a string_view.
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>()(name);
  }
};

class Graph {
 public:
  explicit Graph(std::string name = "");
  Graph(const Graph& other);
  Graph(Graph&& other) noexcept;
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  const std::string& name() const { return name_; }
  void setName(std::string name) { name_ = std::move(name); }

  /// Ids of the live ops in execution order.
  std::span<const OpId> order() const { return order_; }
  std::size_t numOps() const { return order_.size(); }
  /// Every id, also that of a removed op, is below this number.
  std::size_t numIds() const { return ops_.size(); }
  /// Counts every change: as long as the number is the same, so is the graph.
  std::size_t changes() const { return changes_.count; }
  bool contains(OpId id) const;
  /// The reference stays valid while ops are added, until this op is removed.
  const Op& op(OpId id) const;
  const TensorType& type(Value value) const;
  std::vector<TensorType> inputTypes(const Op& op) const;

  /// Checks the operand count, attributes and types. Throws InvalidArgument and then leaves the
  /// graph unchanged.
  OpId append(NewOp op);
  OpId insertBefore(OpId position, NewOp op);

  void setPlacement(OpId id, Placement place);
  void setName(OpId id, std::string name);
  void setAttr(OpId id, NamedAttr attr);
  /// Redirects uses (and outputs); keys and values must have the same types. The caller makes sure
  /// that producers still come before their users, by reorder() if necessary.
  void replaceUses(const std::unordered_map<Value, Value>& replacements);
  /// Removes ops; no other op and no output may read them.
  void remove(std::span<const OpId> ids);
  /// Sets a new execution order, which must be a permutation of order().
  void reorder(std::vector<OpId> order);

  std::span<const Output> outputs() const { return outputs_; }
  void addOutput(std::string name, Value value);
  void setOutputs(std::vector<Output> outputs);
  /// The input ops in order.
  std::vector<OpId> inputs() const;

  std::span<const Variable> variables() const { return variables_; }
  const Variable* findVariable(std::string_view name) const;
  /// Throws InvalidArgument if another variable already has this name.
  void addVariable(Variable variable);
  /// Replaces the variable of the same name; the caller replaces the ops that read and assign it.
  void replaceVariable(Variable variable);

  std::span<const std::string> blocks() const { return blocks_; }
  std::int32_t blockIndex(std::string_view name);  ///< adds the block if it is new

  Users users() const;

 private:
  friend struct GraphTestAccess;  // breaks graphs that verify() must refuse, looks into the index

  /// An op that is copied with its owner; empty if the op was removed.
  class Slot {
   public:
    explicit Slot(Op op);
    Slot(const Slot& other);
    Slot(Slot&& other) noexcept;
    Slot& operator=(const Slot& other);
    Slot& operator=(Slot&& other) noexcept;
    ~Slot();
    Op* get() const { return op_.get(); }
    Op& operator*() const { return *op_; }
    Op* operator->() const { return op_.get(); }
    void reset() { op_.reset(); }

   private:
    std::unique_ptr<Op> op_;
  };

  /// Counts changes; an assignment counts as one.
  struct Changes {
    std::size_t count = 0;
    Changes() = default;
    Changes(const Changes&) = default;
    ~Changes() = default;
    Changes& operator=(const Changes& other) {
      count = std::max(count, other.count) + 1;
      return *this;
    }
  };

  Op makeOp(NewOp op) const;
  Op& change(OpId id);

  std::string name_;
  Changes changes_;
  std::vector<Slot> ops_;  // by id
  std::vector<OpId> order_;
  std::vector<Output> outputs_;
  std::vector<Variable> variables_;
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> variableIndex_;
  std::vector<std::string> blocks_;
  std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>> blockIndex_;
  std::unordered_set<std::string, NameHash, std::equal_to<>> outputNames_;
};

/// The view that an op's own functions take; `inputTypes` must outlive it.
inline OpView view(const Op& op, std::span<const TensorType> inputTypes) {
  return {*op.def, op.attrs, inputTypes, op.outputs};
}

/// True if ops, attributes, wiring, types, variables and outputs are the same and in the same
/// order. Names of ops and values of ids do not count.
bool structurallyEqual(const Graph& a, const Graph& b);
/// Equal graphs have equal hashes, on every machine.
std::uint64_t structuralHash(const Graph& graph);

// GraphBuilder: appends ops to a Graph under the current annotations (name scope, block, stage,
// phase, device, pass). Op files, gradients and front ends build with it; it adds no meaning of its
// own.

class GraphBuilder {
 public:
  explicit GraphBuilder(Graph& graph) : graph_(graph) {}

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  const TensorType& type(Value value) const { return graph_.type(value); }
  const Shape& shape(Value value) const { return graph_.type(value).shape; }
  DType dtype(Value value) const { return graph_.type(value).dtype; }

  /// Makes an op and returns its first result.
  Value add(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {});
  /// Makes an op and returns all its results.
  std::vector<Value> addMany(const OpDef& def, std::vector<Value> inputs, Attrs attrs = {});

  Value input(std::string name, TensorType type);
  /// Reads the variable, which must exist in the graph.
  Value variable(std::string_view name);
  Value constant(HostTensor value);
  /// A scalar constant of the given type.
  Value scalar(DType dtype, double value);
  void assign(std::string_view variable, Value value, std::string_view mode = "set");

  /// Returns a new ordinal for a random op (rule R6); it is fixed when the op is made.
  std::int64_t nextRandomOrdinal();

  /// Annotations for the ops that are made from now on; AnnotationScope saves and restores them.
  Placement place;
  std::string scope;  ///< prefix of op names, "encoder/0/"

 private:
  OpId make(const OpDef& def, std::vector<Value> inputs, Attrs attrs);

  Graph& graph_;
};

/// Restores the builder's annotations when it goes out of scope.
class AnnotationScope {
 public:
  explicit AnnotationScope(GraphBuilder& builder)
      : builder_(builder), place_(builder.place), scope_(builder.scope) {}
  ~AnnotationScope() {
    builder_.place = place_;
    builder_.scope = std::move(scope_);
  }
  AnnotationScope(const AnnotationScope&) = delete;
  AnnotationScope& operator=(const AnnotationScope&) = delete;

 private:
  GraphBuilder& builder_;
  Placement place_;
  std::string scope_;
};

}  // namespace sluice::ir

#pragma GCC visibility pop
