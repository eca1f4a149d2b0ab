// AiOnnx: ops that pick or place elements by index.
#include "sluice/frontends/popart/builder.h"
#include "sluice/ops/shape_ops.h"

namespace sluice {
namespace {

std::vector<ir::NamedAttr> axisAttr(std::optional<std::int64_t> axis) {
  return axis ? std::vector<ir::NamedAttr>{{"axis", *axis}} : std::vector<ir::NamedAttr>{};
}

}  // namespace

TensorId AiOnnx::compress(const TensorId& x,
                          const TensorId& condition,
                          std::optional<std::int64_t> axis) {
  return one("Compress", {x, condition}, axisAttr(axis));
}

TensorId AiOnnx::gather(const TensorId& x, const TensorId& indices, std::int64_t axis) {
  return b_.make("Gather",
                 [&] { return ops::gather(b_.b_, b_.value(x), b_.value(indices), axis); });
}

TensorId AiOnnx::gatherelements(const TensorId& x, const TensorId& indices, std::int64_t axis) {
  return one("GatherElements", {x, indices}, {{"axis", axis}});
}

TensorId AiOnnx::gathernd(const TensorId& x, const TensorId& indices, std::int64_t batchDims) {
  return one("GatherND", {x, indices}, {{"batch_dims", batchDims}});
}

TensorId AiOnnx::onehot(const TensorId& indices,
                        std::int64_t depth,
                        const TensorId& values,
                        std::int64_t axis) {
  return one("OneHot", {indices, HostTensor::scalar(depth), values}, {{"axis", axis}});
}

TensorId AiOnnx::reversesequence(const TensorId& x,
                                 const TensorId& lengths,
                                 std::int64_t batchAxis,
                                 std::int64_t timeAxis) {
  return one("ReverseSequence", {x, lengths}, {{"batch_axis", batchAxis}, {"time_axis", timeAxis}});
}

TensorId AiOnnx::scatter(const TensorId& x,
                         const TensorId& indices,
                         const TensorId& updates,
                         std::int64_t axis) {
  return one("Scatter", {x, indices, updates}, {{"axis", axis}});
}

TensorId AiOnnx::scatterelements(const TensorId& x,
                                 const TensorId& indices,
                                 const TensorId& updates,
                                 std::int64_t axis,
                                 std::string_view reduction) {
  return one("ScatterElements", {x, indices, updates}, {{"axis", axis}, {"reduction", reduction}});
}

TensorId AiOnnx::scatternd(const TensorId& x,
                           const TensorId& indices,
                           const TensorId& updates,
                           std::string_view reduction) {
  return one("ScatterND", {x, indices, updates}, {{"reduction", reduction}});
}

AiOnnx::Ids AiOnnx::topk(const TensorId& x, std::int64_t k, const TopKOptions& options) {
  return b_.op(
      {.op = "TopK",
       .inputs = {x, Ints{k}},
       .attrs = {{"axis", options.axis}, {"largest", options.largest}, {"sorted", options.sorted}},
       .outputs = 2});
}

TensorId AiOnnx::trilu(const TensorId& x, std::int64_t k, bool upper) {
  return one("Trilu", {x, HostTensor::scalar(k)}, {{"upper", upper}});
}

AiOnnx::Ids AiOnnx::unique(const TensorId& x, const UniqueOptions& options) {
  std::vector<ir::NamedAttr> attrs = axisAttr(options.axis);
  attrs.emplace_back("sorted", options.sorted);
  return node("Unique", {x}, std::move(attrs), 4);
}

}  // namespace sluice
