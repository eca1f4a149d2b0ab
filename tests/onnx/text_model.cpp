#include "tests/onnx/text_model.h"

#include <numeric>
#include <stdexcept>

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>

#include "sluice/ir/graph.h"
#include "sluice/onnx/proto.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/transforms/autodiff.h"

namespace sluice::testing {
namespace {

namespace pb = ::onnx;

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

/// The text form cannot leave the first operand out.
void leaveOut(pb::GraphProto& graph) {
  for (pb::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == "_") {
        input.clear();
      }
    }
    for (pb::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) {
        leaveOut(*attribute.mutable_g());
      }
    }
  }
}

double sumOf(const HostTensor& tensor) {
  const std::vector<double> values = tensor.toDoubles();
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

onnx::ImportedModel importText(const std::string& graph,
                               const onnx::ImportOptions& options,
                               int opset) {
  const std::string text =
      fmt::format("<ir_version: 8, opset_import: [\"\" : {}, \"local\" : 1]>\n{}", opset, graph);
  pb::ModelProto model;
  pb::OnnxParser parser(text.c_str());
  if (const auto status = parser.Parse(model); !status.IsOK()) {
    throw std::runtime_error(status.ErrorMessage());
  }
  leaveOut(*model.mutable_graph());
  const std::string bytes = model.SerializeAsString();
  return onnx::importModelBytes(std::as_bytes(std::span(bytes)), options);
}

ops::TensorMap evaluateModel(const onnx::ImportedModel& model, const ops::TensorMap& inputs) {
  ops::TensorMap variables;
  for (const ir::Variable& variable : model.graph.variables()) {
    variables.emplace(variable.name, variable.initializer.tensor);
  }
  return ops::evaluate(model.graph, inputs, variables);
}

std::vector<double> resultOf(const onnx::ImportedModel& model, const ops::TensorMap& inputs) {
  return evaluateModel(model, inputs).begin()->second.toDoubles();
}

void expectGradients(const onnx::ImportedModel& model,
                     const ops::TensorMap& inputs,
                     const std::string& output) {
  onnx::ImportedModel with = model;
  ir::GraphBuilder b(with.graph);
  std::vector<ir::Value> wrt;
  std::vector<std::string> names;
  for (const ir::OpId id : with.graph.inputs()) {
    const ir::Op& op = with.graph.op(id);
    if (op.outputs[0].dtype == DType::F64) {
      wrt.push_back(op.out());
      names.push_back(op.name);
    }
  }
  ir::Value result;
  for (const ir::Output& candidate : with.graph.outputs()) {
    if (candidate.name == output) {
      result = candidate.value;
    }
  }
  ASSERT_TRUE(result.valid()) << "no output " << output;
  const ir::Value loss = ops::reduceSum(b, result, {});
  const auto grads = transforms::differentiate(with.graph, loss, wrt);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    with.graph.addOutput("grad." + names[i], grads[i]);
  }
  const ops::TensorMap found = evaluateModel(with, inputs);
  for (const std::string& name : names) {
    const HostTensor& gradient = found.at("grad." + name);
    for (std::int64_t i = 0; i < gradient.shape().elements(); ++i) {
      const auto at = [&](double shift) {
        ops::TensorMap moved = inputs;
        moved.at(name) = moved.at(name).clone();
        moved.at(name).set(i, moved.at(name).at(i) + shift);
        return sumOf(evaluateModel(model, moved).at(output));
      };
      EXPECT_NEAR(gradient.at(i), (at(kStep) - at(-kStep)) / (2 * kStep), kTolerance)
          << name << " element " << i;
    }
  }
}

HostTensor doubles(std::initializer_list<double> values) {
  return HostTensor::of<double>(Shape{static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace sluice::testing
