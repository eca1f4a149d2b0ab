// transpose: permutes the axes; output axis i is input axis permutation[i].
#include <array>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 1> kAttrs = {
    {{.name = "permutation", .kind = ir::AttrKind::Ints, .required = true}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  const auto& permutation = op.attrs.integers("permutation");
  const Shape& shape = op.inputs[0].shape;
  std::vector<bool> seen(shape.dims().size(), false);
  std::vector<std::int64_t> dims;
  for (const std::int64_t axis : permutation) {
    if (axis < 0 || axis >= shape.rank() || seen[static_cast<std::size_t>(axis)]) {
      break;
    }
    seen[static_cast<std::size_t>(axis)] = true;
    dims.push_back(shape[axis]);
  }
  if (dims.size() != seen.size() || permutation.size() != seen.size()) {
    raise<InvalidArgument>("transpose: [{}] is not a permutation of the {} axes of {}",
                           fmt::join(permutation, ", "),
                           seen.size(),
                           shape.str());
  }
  return {{op.inputs[0].dtype, Shape(std::move(dims))}};
}

std::vector<Value> grad(ir::GradContext& g) {
  const auto& permutation = g.op.attrs.integers("permutation");
  std::vector<std::int64_t> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return {transpose(g.b, g.grad(), std::move(inverse))};
}

void reference(const ir::KernelArgs& args) {
  const auto& permutation = args.op.attrs.integers("permutation");
  const std::vector<std::int64_t> inStrides = args.op.inputs[0].shape.strides();
  const std::vector<std::int64_t> outStrides = args.op.outputs[0].shape.strides();
  const std::size_t size = byteSize(args.op.inputs[0].dtype);
  const auto* in = static_cast<const std::byte*>(args.inputs[0]);
  auto* out = static_cast<std::byte*>(args.outputs[0]);
  for (std::int64_t i = 0; i < args.op.outputs[0].shape.elements(); ++i) {
    std::int64_t rest = i;
    std::int64_t from = 0;
    for (std::size_t axis = 0; axis < permutation.size(); ++axis) {
      from += rest / outStrides[axis] * inStrides[static_cast<std::size_t>(permutation[axis])];
      rest %= outStrides[axis];
    }
    std::memcpy(
        out + static_cast<std::size_t>(i) * size, in + static_cast<std::size_t>(from) * size, size);
  }
}

constexpr ir::OnnxName kOnnx[] = {{"Transpose", 1}};

}  // namespace

constinit const ir::OpDef kTranspose{.name = "transpose",
                                     .attrs = kAttrs,
                                     .infer = infer,
                                     .grad = grad,
                                     .reference = reference,
                                     .onnx = kOnnx};

Value transpose(GraphBuilder& b, Value x, std::vector<std::int64_t> permutation) {
  if (permutation.empty()) {
    permutation.resize(b.shape(x).dims().size());
    std::iota(permutation.rbegin(), permutation.rend(), 0);
  }
  return b.add(kTranspose, {x}, {{"permutation", std::move(permutation)}});
}

}  // namespace sluice::ops
