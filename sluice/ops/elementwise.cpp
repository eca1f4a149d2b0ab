#include "sluice/ops/elementwise.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::ops {
namespace {

bool accepted(DType dtype, Accepts accepts) {
  switch (accepts) {
    case Accepts::Any:
      return true;
    case Accepts::Numeric:
      return dtype != DType::Bool;
    case Accepts::Floating:
      return isFloat(dtype);
    case Accepts::Integer:
      return isInteger(dtype);
    case Accepts::Boolean:
      return dtype == DType::Bool;
  }
  return false;
}

std::string_view describe(Accepts accepts) {
  switch (accepts) {
    case Accepts::Any:
      return "any type";
    case Accepts::Numeric:
      return "a number type";
    case Accepts::Floating:
      return "a float type";
    case Accepts::Integer:
      return "an integer type";
    case Accepts::Boolean:
      return "bool";
  }
  return "";
}

}  // namespace

void requireDType(const ir::OpView& op, std::size_t input, Accepts accepts) {
  if (!accepted(op.inputs[input].dtype, accepts)) {
    raise<InvalidArgument>("{}: input {} must be of {}, got {}",
                           op.def.name,
                           input,
                           describe(accepts),
                           op.inputs[input].str());
  }
}

void requireSameDType(const ir::OpView& op) {
  for (const TensorType& type : op.inputs) {
    if (type.dtype != op.inputs[0].dtype) {
      raise<InvalidArgument>(
          "{}: inputs must have one element type, got {} and {}; cast one of them",
          op.def.name,
          op.inputs[0].str(),
          type.str());
    }
  }
}

void requireSameType(const ir::OpView& op) {
  for (const TensorType& type : op.inputs) {
    if (type != op.inputs[0]) {
      raise<InvalidArgument>("{}: inputs must have one type, got {} and {}",
                             op.def.name,
                             op.inputs[0].str(),
                             type.str());
    }
  }
}

void requireOneOf(const ir::OpView& op,
                  std::string_view attr,
                  std::initializer_list<std::string_view> words) {
  const std::string& text = op.attrs.text(attr);
  if (std::ranges::find(words, text) == words.end()) {
    raise<InvalidArgument>(
        "{}: {} is '{}', expected one of {}", op.def.name, attr, text, fmt::join(words, ", "));
  }
}

DType dtypeAttr(const ir::OpView& op) {
  const std::string& text = op.attrs.text("dtype");
  const std::optional<DType> dtype = parseDType(text);
  if (!dtype) {
    raise<InvalidArgument>("{}: dtype '{}' is not an element type; f32 is one", op.def.name, text);
  }
  return *dtype;
}

Shape broadcastInputs(const ir::OpView& op) {
  Shape shape = op.inputs[0].shape;
  try {
    for (const TensorType& type : op.inputs) {
      shape = broadcast(shape, type.shape);
    }
  } catch (Error& error) {
    error.at(op.def.name);
    throw;
  }
  return shape;
}

std::vector<TensorType> inferBroadcast(const ir::OpView& op, Accepts accepts) {
  requireDType(op, 0, accepts);
  requireSameDType(op);
  return {{op.inputs[0].dtype, broadcastInputs(op)}};
}

void copyBytes(const ir::KernelArgs& args) {
  if (args.op.inputs[0].bytes() != 0) {
    std::memmove(args.outputs[0], args.inputs[0], args.op.inputs[0].bytes());
  }
}

BroadcastIndex::BroadcastIndex(const Shape& input, const Shape& output)
    : identity_(input == output), outputStrides_(output.strides()), dims_(output.dims()) {
  const std::vector<std::int64_t> strides = input.strides();
  const std::size_t offset = output.dims().size() - input.dims().size();
  inputStrides_.assign(output.dims().size(), 0);
  for (std::size_t i = 0; i < strides.size(); ++i) {
    inputStrides_[offset + i] = input.dims()[i] == 1 ? 0 : strides[i];
  }
}

std::int64_t BroadcastIndex::operator()(std::int64_t outputElement) const {
  if (identity_) {
    return outputElement;
  }
  std::int64_t index = 0;
  for (std::size_t i = 0; i < dims_.size(); ++i) {
    const std::int64_t coordinate = outputElement / outputStrides_[i];
    outputElement -= coordinate * outputStrides_[i];
    index += coordinate * inputStrides_[i];
  }
  return index;
}

}  // namespace sluice::ops
