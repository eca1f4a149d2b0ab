// What a model says of its tensors: inputs with the types that the caller completes, initializers,
// and the types of results.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/onnx/graph_importer.h"

namespace sluice::onnx {

TensorType GraphImporter::inputType(const pb::ValueInfoProto& info) const {
  if (!info.type().has_tensor_type()) {
    raise<Unsupported>("input '{}' is no tensor (sequence, map or optional)", info.name());
  }
  const pb::TypeProto_Tensor& tensor = info.type().tensor_type();
  if (const auto given = options_.shapes.find(info.name()); given != options_.shapes.end()) {
    return {dtypeOf(tensor.elem_type()), given->second};
  }
  if (!tensor.has_shape()) {
    raise<InvalidArgument>("input '{}' has no shape: give it in ImportOptions.shapes", info.name());
  }
  return declaredType(info, "input");
}

TensorType GraphImporter::declaredType(const pb::ValueInfoProto& info,
                                       std::string_view what) const {
  const pb::TypeProto_Tensor& tensor = info.type().tensor_type();
  std::vector<std::int64_t> dims;
  for (const pb::TensorShapeProto_Dimension& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      dims.push_back(dim.dim_value());
      continue;
    }
    const auto bound = options_.dims.find(dim.dim_param());
    if (bound == options_.dims.end()) {
      raise<InvalidArgument>(
          "{} '{}': dimension {} is '{}', which has no value: give one in ImportOptions.dims "
          "(--dim NAME=4 on a command line) or the whole shape in ImportOptions.shapes",
          what,
          info.name(),
          dims.size(),
          dim.dim_param().empty() ? "?" : dim.dim_param());
    }
    dims.push_back(bound->second);
  }
  return {dtypeOf(tensor.elem_type()), Shape(std::move(dims))};
}

std::vector<TensorType> GraphImporter::declaredResults(const pb::NodeProto& node) {
  if (declared_.empty()) {
    for (const auto* list : {&model_.graph().value_info(), &model_.graph().output()}) {
      for (const pb::ValueInfoProto& info : *list) {
        declared_.emplace(info.name(), &info);
      }
    }
  }
  std::vector<TensorType> types;
  for (const std::string& name : node.output()) {
    const auto found = declared_.find(name);
    if (found == declared_.end() || !found->second->type().tensor_type().has_shape()) {
      return {};
    }
    types.push_back(declaredType(*found->second, "result"));
  }
  return types;
}

void GraphImporter::requireInputs(const auto& given, std::string_view option) const {
  std::vector<std::string> names;
  for (const pb::ValueInfoProto& input : model_.graph().input()) {
    names.push_back(input.name());
  }
  for (const auto& [name, value] : given) {
    if (std::ranges::find(names, name) == names.end()) {
      raise<InvalidArgument>("ImportOptions.{}: the model has no input '{}', only {}",
                             option,
                             name,
                             fmt::join(names, ", "));
    }
  }
}

void GraphImporter::requireDims() const {
  std::set<std::string> known;
  for (const pb::ValueInfoProto& input : model_.graph().input()) {
    for (const auto& dim : input.type().tensor_type().shape().dim()) {
      if (!dim.dim_param().empty()) {
        known.insert(dim.dim_param());
      }
    }
  }
  for (const auto& [name, value] : options_.dims) {
    if (!known.contains(name)) {
      raise<InvalidArgument>(
          "ImportOptions.dims: no input of the model has a dimension '{}', {}",
          name,
          known.empty() ? "all are numbers" : fmt::format("only {}", fmt::join(known, ", ")));
    }
  }
}

Value GraphImporter::declareInput(const pb::ValueInfoProto& info) {
  const auto constant = options_.constants.find(info.name());
  if (constant == options_.constants.end()) {
    return builder_.input(info.name(), inputType(info));
  }
  const DType dtype = dtypeOf(info.type().tensor_type().elem_type());
  if (constant->second.dtype() != dtype) {
    raise<InvalidArgument>("ImportOptions.constants: input '{}' is of {}, its value is {}",
                           info.name(),
                           name(dtype),
                           constant->second.type().str());
  }
  return builder_.constant(constant->second);
}

void GraphImporter::declareInputs(Scope& scope) {
  requireInputs(options_.shapes, "shapes");
  requireInputs(options_.constants, "constants");
  requireDims();
  std::unordered_set<std::string> initialized;
  for (const pb::TensorProto& tensor : model_.graph().initializer()) {
    initialized.insert(tensor.name());
  }
  for (const pb::ValueInfoProto& info : model_.graph().input()) {
    if (initialized.contains(info.name())) {
      continue;  // files before IR version 4 list initializers here too
    }
    if (info.name().empty() || scope.tensors.contains(info.name())) {
      raise<InvalidArgument>("the model has two inputs '{}'", info.name());
    }
    scope.tensors[info.name()].value = declareInput(info);
    names_.push_back(info.name());
  }
}

void GraphImporter::declareInitializers(const pb::GraphProto& graph, Scope& scope) {
  if (graph.sparse_initializer_size() > 0) {
    raise<Unsupported>("sparse initializers are not supported");
  }
  for (const pb::TensorProto& tensor : graph.initializer()) {
    if (!scope.tensors.emplace(tensor.name(), Scope::Tensor{{}, &tensor}).second) {
      raise<InvalidArgument>("the model has two tensors '{}'", tensor.name());
    }
    if (&scope == &main_) {
      names_.push_back(tensor.name());
    }
  }
}

}  // namespace sluice::onnx
