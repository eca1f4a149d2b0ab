// ProtoNode: a NodeProto in its scope, as translations see it. Internal to this module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sluice/onnx/graph_importer.h"

namespace onnx {
class OpSchema;
}

namespace sluice::onnx {

class ProtoNode final : public Node {
 public:
  /// The schema may be null; then there are no defaults.
  ProtoNode(GraphImporter& importer,
            const pb::NodeProto& proto,
            Scope& scope,
            const pb::OpSchema* schema,
            int version);

  std::string_view op() const override { return proto_.op_type(); }
  std::string_view note() const override { return proto_.doc_string(); }
  int version() const override { return version_; }
  bool forTraining() const override { return importer_.options().training; }
  std::int64_t replicas() const override { return importer_.options().replicas; }
  const ImportLimits& limits() const override { return importer_.options().limits; }
  std::int64_t rollFrom() const override { return importer_.options().rollFrom; }
  void countSequence(std::size_t elements) override { importer_.countSequence(elements); }
  void countConstant(double elements, DType dtype) override;
  void countWork(double flops) override { importer_.countWork(flops); }
  std::size_t numInputs() const override { return static_cast<std::size_t>(proto_.input_size()); }
  std::size_t numOutputs() const override { return static_cast<std::size_t>(proto_.output_size()); }
  bool has(std::size_t input) const override;
  bool wants(std::size_t output) const override;
  Value input(std::size_t i) override;
  Value buffer(std::size_t i) override;
  HostTensor constant(std::size_t i) override;
  bool isConstant(std::size_t i) override;
  const ir::Attr* find(std::string_view attr) const override;
  const ir::Attrs& attrs() const override { return attrs_; }
  std::vector<Value> inlineBody(std::string_view attr, std::span<const Value> inputs) override;
  std::size_t bodyInputs(std::string_view attr) const override;
  HostTensor evaluate(Value value) override;
  bool canEvaluate(Value value) override;
  Value named(const std::string& tensor) override;

  /// Throws Unsupported if an operand is a sequence.
  void requireTensors() const;
  /// Throws Unsupported if an attribute is a graph.
  void requireNoBodies() const;
  /// All operands; nullopt for one that is left out.
  std::vector<std::optional<Value>> operands();
  /// Translates the node by the standard's own definition of its op in terms of simpler ops.
  std::vector<Value> expandFunction();

 private:
  Scope::Tensor& tensor(std::size_t i) const;
  const pb::GraphProto& body(std::string_view attr) const;
  std::optional<HostTensor> tryConstant(std::size_t i, std::vector<std::string>& inputs);

  GraphImporter& importer_;
  const pb::NodeProto& proto_;
  Scope& scope_;
  const pb::OpSchema* schema_;
  int version_;
  ir::Attrs attrs_;     // the node's own
  ir::Attrs defaults_;  // the standard's
};

}  // namespace sluice::onnx
