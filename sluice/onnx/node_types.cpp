#include "sluice/onnx/node_types.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include <onnx/defs/schema.h>

#include "sluice/onnx/node.h"
#include "sluice/onnx/proto.h"

namespace sluice::onnx {
namespace {

/// Types that hold the numbers of a type, nearest first.
std::vector<DType> holders(DType dtype) {
  switch (dtype) {
    case DType::F16:
    case DType::BF16:
      return {DType::F32, DType::F64};
    case DType::F32:
      return {DType::F64};
    case DType::Bool:
    case DType::U8:
      return {DType::U8, DType::I32, DType::U32, DType::I64, DType::F32, DType::F64};
    case DType::U16:
      return {DType::I32, DType::U32, DType::I64, DType::F32, DType::F64};
    case DType::I8:
    case DType::I16:
      return {DType::I32, DType::I64, DType::F32, DType::F64};
    case DType::I32:
      return {DType::I64, DType::F64};
    case DType::U32:
      return {DType::I64, DType::U64, DType::F64};
    case DType::I64:
    case DType::U64:
      return {DType::F64};
    case DType::F64:
      break;
  }
  return {};
}

using TypeTexts = std::array<std::string, kNumDTypes>;

TypeTexts makeTypeTexts() {
  TypeTexts texts;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    pb::TypeProto proto;
    proto.mutable_tensor_type()->set_elem_type(static_cast<int>(onnxTypeOf(static_cast<DType>(i))));
    texts[i] = *pb::Utils::DataTypeUtils::ToType(proto);
  }
  return texts;
}

/// "tensor(float)".
const std::string& typeText(DType dtype) {
  static const TypeTexts kTexts = makeTypeTexts();
  return kTexts[static_cast<std::size_t>(dtype)];
}

bool allows(const pb::OpSchema::FormalParameter& parameter, DType dtype) {
  const std::string& text = typeText(dtype);
  return std::ranges::any_of(parameter.GetTypes(),
                             [&](const std::string* type) { return *type == text; });
}

/// Parameters that share a type share the list of allowed ones, so each can be asked by itself.
std::optional<DType> allowedType(std::span<const pb::OpSchema::FormalParameter> parameters,
                                 std::size_t i,
                                 DType dtype) {
  const auto& parameter = parameters[std::min(i, parameters.size() - 1)];  // the last may repeat
  if (allows(parameter, dtype)) {
    return dtype;
  }
  const std::vector<DType> wider = holders(dtype);
  const auto found = std::ranges::find_if(wider, [&](DType d) { return allows(parameter, d); });
  return found == wider.end() ? std::nullopt : std::optional(*found);
}

}  // namespace

std::optional<NodeTypes> standardTypes(std::string_view op, const NodeTypes& types) {
  const pb::OpSchema* schema = pb::OpSchemaRegistry::Schema(std::string(op), kNewestOpset, "");
  if (schema == nullptr) {
    return types;
  }
  NodeTypes result = types;
  for (std::size_t i = 0; i < types.inputs.size(); ++i) {
    if (types.inputs[i]) {
      result.inputs[i] = allowedType(schema->inputs(), i, *types.inputs[i]);
      if (!result.inputs[i]) {
        return std::nullopt;
      }
    }
  }
  for (std::size_t i = 0; i < types.outputs.size(); ++i) {
    const std::optional<DType> allowed = allowedType(schema->outputs(), i, types.outputs[i]);
    if (!allowed) {
      return std::nullopt;
    }
    result.outputs[i] = *allowed;
  }
  return result;
}

}  // namespace sluice::onnx
