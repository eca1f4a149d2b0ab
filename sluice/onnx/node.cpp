#include "sluice/onnx/node.h"

#include <array>

#include "sluice/base/error.h"

namespace sluice::onnx {
namespace {

struct TypePair {
  std::int64_t onnx;
  DType dtype;
};

constexpr std::array<TypePair, 13> kTypes = {{{1, DType::F32},
                                              {2, DType::U8},
                                              {3, DType::I8},
                                              {4, DType::U16},
                                              {5, DType::I16},
                                              {6, DType::I32},
                                              {7, DType::I64},
                                              {9, DType::Bool},
                                              {10, DType::F16},
                                              {11, DType::F64},
                                              {12, DType::U32},
                                              {13, DType::U64},
                                              {16, DType::BF16}}};

template <class T>
T attrOr(const Node& node, std::string_view name, T otherwise) {
  const ir::Attr* attr = node.find(name);
  if (attr == nullptr) {
    return otherwise;
  }
  const T* value = std::get_if<T>(attr);
  if (value == nullptr) {
    raise<InvalidArgument>("attribute '{}' has the wrong kind: {}", name, ir::name(kindOf(*attr)));
  }
  return *value;
}

}  // namespace

DType dtypeOf(std::int64_t onnxType) {
  for (const TypePair& pair : kTypes) {
    if (pair.onnx == onnxType) {
      return pair.dtype;
    }
  }
  const bool text = onnxType == 8;
  const bool complex = onnxType == 14 || onnxType == 15;
  raise<Unsupported>("element type {}{} is not supported",
                     onnxType,
                     text      ? " (string)"
                     : complex ? " (complex)"
                               : "");
}

std::int64_t onnxTypeOf(DType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) {
      return pair.onnx;
    }
  }
  SLUICE_CHECK(false, "{} has no ONNX type", name(dtype));
  return 0;
}

std::int64_t Node::integer(std::string_view attr, std::int64_t otherwise) const {
  return attrOr<std::int64_t>(*this, attr, otherwise);
}

bool Node::flag(std::string_view attr, bool otherwise) const {
  return integer(attr, otherwise ? 1 : 0) != 0;
}

double Node::real(std::string_view attr, double otherwise) const {
  return attrOr<double>(*this, attr, otherwise);
}

std::string Node::text(std::string_view attr, std::string_view otherwise) const {
  return attrOr<std::string>(*this, attr, std::string(otherwise));
}

std::vector<std::int64_t> Node::integers(std::string_view attr) const {
  return attrOr<std::vector<std::int64_t>>(*this, attr, {});
}

std::vector<double> Node::reals(std::string_view attr) const {
  return attrOr<std::vector<double>>(*this, attr, {});
}

std::vector<std::string> Node::texts(std::string_view attr) const {
  return attrOr<std::vector<std::string>>(*this, attr, {});
}

std::vector<std::int64_t> Node::integersOf(std::size_t i) {
  const HostTensor tensor = constant(i);
  if (!isInteger(tensor.dtype())) {
    raise<InvalidArgument>("operand {} must be integers, got {}", i, tensor.type().str());
  }
  const HostTensor wide = cast(tensor, DType::I64);
  const auto data = wide.data<std::int64_t>();
  return {data.begin(), data.end()};
}

std::vector<double> Node::realsOf(std::size_t i) {
  return constant(i).toDoubles();
}

double Node::realOf(std::size_t i, double otherwise) {
  if (!has(i)) {
    return otherwise;
  }
  const HostTensor tensor = constant(i);
  if (tensor.shape().elements() != 1) {
    raise<InvalidArgument>("operand {} must be one number, got {}", i, tensor.type().str());
  }
  return tensor.at(0);
}

std::int64_t Node::integerOf(std::size_t i, std::int64_t otherwise) {
  if (!has(i)) {
    return otherwise;
  }
  const std::vector<std::int64_t> numbers = integersOf(i);
  if (numbers.size() != 1) {
    raise<InvalidArgument>("operand {} must be one number, got {}", i, numbers.size());
  }
  return numbers[0];
}

std::vector<std::int64_t> Node::integersOf(std::string_view attr, std::size_t i) {
  return has(i) ? integersOf(i) : integers(attr);
}

DType Node::dtypeAttr(std::string_view attr, DType otherwise) const {
  return hasAttr(attr) ? dtypeOf(integer(attr)) : otherwise;
}

void Node::unsupported(std::string_view reason) const {
  throw Unsupported(std::string(reason));
}

}  // namespace sluice::onnx
