#include "sluice/ops/elementwise.h"

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

std::vector<TensorType> inferBroadcast(const ir::OpView& op, Accepts accepts) {
  requireDType(op, 0, accepts);
  requireSameDType(op);
  TensorType result = op.inputs[0];
  try {
    for (const TensorType& type : op.inputs) {
      result.shape = broadcast(result.shape, type.shape);
    }
  } catch (Error& error) {
    error.at(op.def.name);
    throw;
  }
  return {result};
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
