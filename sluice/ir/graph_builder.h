// GraphBuilder: appends ops to a Graph under the current annotations (name scope, block, stage,
// phase, device, pass). Op files, gradients and front ends build with it; it adds no meaning of its
// own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"

#pragma GCC visibility push(default)

namespace sluice::ir {

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
