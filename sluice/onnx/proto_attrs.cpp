#include "sluice/onnx/proto_attrs.h"

#include "sluice/base/error.h"
#include "sluice/onnx/node.h"
#include "sluice/onnx/proto.h"

namespace sluice::onnx {
namespace {

/// Reals that a 32-bit attribute would change are tensors of 64 bits.
void setReal(pb::AttributeProto& proto, double value) {
  if (decimalDouble(static_cast<float>(value)) == value) {
    proto.set_type(pb::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  } else {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() = toTensorProto(HostTensor::scalar(value), "");
  }
}

struct SetAttr {
  pb::AttributeProto& proto;

  void operator()(std::int64_t value) const {
    proto.set_type(pb::AttributeProto::INT);
    proto.set_i(value);
  }
  void operator()(bool value) const { (*this)(std::int64_t{value ? 1 : 0}); }
  void operator()(double value) const { setReal(proto, value); }
  void operator()(const std::string& value) const {
    proto.set_type(pb::AttributeProto::STRING);
    proto.set_s(value);
  }
  void operator()(const std::vector<std::int64_t>& values) const {
    proto.set_type(pb::AttributeProto::INTS);
    proto.mutable_ints()->Assign(values.begin(), values.end());
  }
  void operator()(const std::vector<double>& values) const {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() =
        toTensorProto(HostTensor::of<double>(Shape{static_cast<std::int64_t>(values.size())},
                                             std::span<const double>(values)),
                      "");
  }
  void operator()(const std::vector<std::string>& values) const {
    proto.set_type(pb::AttributeProto::STRINGS);
    for (const std::string& value : values) {
      proto.add_strings(value);
    }
  }
  void operator()(const HostTensor& value) const {
    proto.set_type(pb::AttributeProto::TENSOR);
    *proto.mutable_t() = toTensorProto(value, "");
  }
  void operator()(const ir::GraphRef& /*body*/) const {
    raise<Unsupported>("export: attribute '{}' is a body, which has no form in a file",
                       proto.name());
  }
};

}  // namespace

void addAttr(pb::NodeProto& node, const ir::NamedAttr& attr) {
  pb::AttributeProto& proto = *node.add_attribute();
  proto.set_name(attr.name);
  std::visit(SetAttr{proto}, attr.value);
}

void addNarrowAttr(pb::NodeProto& node, const ir::NamedAttr& attr) {
  if (const auto* number = std::get_if<double>(&attr.value)) {
    pb::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attr.name);
    proto.set_type(pb::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(*number));
  } else if (const auto* numbers = std::get_if<std::vector<double>>(&attr.value)) {
    pb::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attr.name);
    proto.set_type(pb::AttributeProto::FLOATS);
    for (const double value : *numbers) {
      proto.add_floats(static_cast<float>(value));
    }
  } else {
    addAttr(node, attr);
  }
}

void setType(pb::ValueInfoProto& info, const std::string& name, const TensorType& type) {
  info.set_name(name);
  pb::TypeProto_Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int>(onnxTypeOf(type.dtype)));
  tensor.mutable_shape();  // a scalar has a shape without dimensions
  for (const std::int64_t extent : type.shape.dims()) {
    tensor.mutable_shape()->add_dim()->set_dim_value(extent);
  }
}

}  // namespace sluice::onnx
