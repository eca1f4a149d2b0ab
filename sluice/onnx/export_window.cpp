// Forms of convolutions and pooling. Their gradients are said by convolutions and by scattering.
#include <algorithm>
#include <array>
#include <numeric>

#include "sluice/onnx/model_writer.h"
#include "sluice/onnx/node.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/conv.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/pool.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

/// Lists that are left out stay so.
void addLists(const ir::Op& op, NewNode& node) {
  for (const char* name : {"strides", "pads", "dilations"}) {
    if (op.attrs.find(name) != nullptr && !op.attrs.integers(name).empty()) {
      node.attrs.emplace_back(name, op.attrs.integers(name));
    }
  }
}

void writeConv(ModelWriter& writer, const ir::Op& op) {
  NewNode node{"Conv", writer.operands(op), {{"group", op.attrs.integer("groups")}}};
  addLists(op, node);
  writer.addNode(op, std::move(node));
}

ops::ConvDims convDimsOf(const UsedGraph& graph, const ir::Op& op) {
  const std::vector<TensorType> types = graph.graph.inputTypes(op);
  return ops::convDims(ir::view(op, types));
}

/// Windows that do not reach the end of the input leave elements there that the transposed
/// convolution must be told of.
void writeConvTranspose(ModelWriter& writer, const ir::Op& op) {
  const ops::ConvDims d = convDimsOf(writer.used(), op);
  Ints left;
  for (std::size_t i = d.in.size() - d.rank; i < d.in.size(); ++i) {
    const std::int64_t span = d.dilations[i] * (d.kernel[i] - 1) + 1;
    const std::int64_t reached = d.strides[i] * (d.out[i] - 1) + span;
    left.push_back(d.in[i] + d.padsBefore[i] + d.padsAfter[i] - reached);
  }
  NewNode node{"ConvTranspose",
               {writer.nameOf(op.inputs[1]), writer.nameOf(op.inputs[0])},
               {{"group", op.attrs.integer("groups")}}};
  addLists(op, node);
  if (std::ranges::any_of(left, [](std::int64_t extent) { return extent != 0; })) {
    node.attrs.emplace_back("output_padding", left);
  }
  writer.addNode(op, std::move(node));
}

/// The importer fills in lists that are left out.
Fit fitConvTranspose(const UsedGraph& /*graph*/, const ir::Op& op) {
  const bool full = !op.attrs.integers("strides").empty() && !op.attrs.integers("pads").empty() &&
                    !op.attrs.integers("dilations").empty();
  return full ? Fit::Same : Fit::Values;
}

/// [a, b, ...] as [b, a, ...].
Value swapFirst(ir::GraphBuilder& b, Value x) {
  Ints axes(b.shape(x).dims().size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[0], axes[1]);
  return ops::transpose(b, x, std::move(axes));
}

/// x [batch, groups * channels, ...] as [channels, groups * batch, ...].
Value channelsFirst(ir::GraphBuilder& b, Value x, const ops::ConvDims& d) {
  const Ints& dims = b.shape(x).dims();
  const Ints space(dims.begin() + 2, dims.end());
  Ints apart = {d.batch, d.groups, d.inPerGroup()};
  Ints joined = {d.inPerGroup(), d.groups * d.batch};
  Ints axes = {2, 1, 0};
  for (std::size_t i = 0; i < space.size(); ++i) {
    apart.push_back(space[i]);
    joined.push_back(space[i]);
    axes.push_back(static_cast<std::int64_t>(i) + 3);
  }
  const Value turned = ops::transpose(b, ops::reshape(b, x, Shape(std::move(apart))), axes);
  return ops::reshape(b, turned, Shape(std::move(joined)));
}

/// The weight's gradient sums over the batch, so the batch takes the place of the channels in a
/// convolution of x with dy, whose steps and gaps change places.
std::vector<Value> convGradWeightParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.outputs[0];
  const ops::ConvDims d = ops::convDims(whole.op);
  if (whole.op.inputs[0].shape.elements() == 0 || whole.op.inputs[1].shape.elements() == 0) {
    return {ops::full(b, type, 0.0)};
  }
  const ops::ConvOptions options = ops::convOptions(whole.op);
  const Value all = ops::conv(b,
                              channelsFirst(b, whole.inputs[0], d),
                              swapFirst(b, whole.inputs[1]),
                              {.strides = options.dilations,
                               .pads = options.pads,
                               .dilations = options.strides,
                               .groups = d.groups});
  // Elements that no window reaches would make the weight larger.
  Ints ends = b.shape(all).dims();
  std::copy(type.shape.dims().begin() + 2, type.shape.dims().end(), ends.begin() + 2);
  const Value cut = ops::slice(b, all, Ints(ends.size(), 0), ends);
  return {swapFirst(b, cut)};
}

ops::PoolDims poolDimsOf(const UsedGraph& graph, const ir::Op& op) {
  const std::vector<TensorType> types = graph.graph.inputTypes(op);
  return ops::poolDims(ir::view(op, types));
}

/// Where extents are rounded up, the standard's formula counts a last window that begins after the
/// input and its padding. We have no such window.
bool leavesOutWindows(const ops::PoolDims& d, const ir::Op& op) {
  for (std::size_t i = d.in.size() - d.rank; i < d.in.size(); ++i) {
    const std::int64_t span = d.dilations[i] * (d.kernel[i] - 1) + 1;
    const std::int64_t room = d.in[i] + d.padsBefore[i] + d.padsAfter[i] - span;
    const std::int64_t last = (room + d.strides[i] - 1) / d.strides[i];
    if (op.attrs.flag("ceilMode") && d.out[i] < last + 1) {
      return true;
    }
  }
  return false;
}

/// The first windows of a pooled tensor, as many as the op has.
NewNode firstWindows(ModelWriter& writer, const ir::Op& op, const std::string& pooled) {
  const Ints& dims = op.outputs[0].shape.dims();
  const Ints ends(dims.begin() + 2, dims.end());
  Ints axes(ends.size());
  std::iota(axes.begin(), axes.end(), 2);
  return {"Slice",
          {pooled,
           writer.integers(Ints(ends.size(), 0)),
           writer.integers(ends),
           writer.integers(axes)}};
}

void writeAvgPool(ModelWriter& writer, const ir::Op& op) {
  NewNode node{"AveragePool",
               writer.operands(op),
               {{"kernel_shape", op.attrs.integers("kernel")},
                {"ceil_mode", op.attrs.flag("ceilMode") ? 1 : 0},
                {"count_include_pad", op.attrs.flag("countIncludePad") ? 1 : 0}}};
  addLists(op, node);
  if (leavesOutWindows(poolDimsOf(writer.used(), op), op)) {
    node = firstWindows(writer, op, writer.addHelper(std::move(node)));
  }
  writer.addNode(op, std::move(node));
}

Fit fitAvgPool(const UsedGraph& graph, const ir::Op& op) {
  return leavesOutWindows(poolDimsOf(graph, op), op) ? Fit::Values : Fit::Same;
}

HostTensor numbersAlong(std::size_t rank, std::size_t axis, const Ints& numbers) {
  Ints dims(rank, 1);
  dims[axis] = static_cast<std::int64_t>(numbers.size());
  return HostTensor::of<std::int64_t>(Shape(std::move(dims)),
                                      std::span<const std::int64_t>(numbers));
}

/// The place inside the window of each winner, from its place in the whole input: along each axis
/// the coordinate less the window's first one, in steps of the dilation.
std::string windowOffsets(ModelWriter& writer, const ops::PoolDims& d, const std::string& winners) {
  const auto combine = [&](std::string_view op, const std::string& x, const HostTensor& y) {
    return writer.addHelper({op, {x, writer.constant(y)}});
  };
  const auto scale = [&](std::string_view op, const std::string& x, std::int64_t factor) {
    return factor == 1 ? x : combine(op, x, HostTensor::scalar<std::int64_t>(factor));
  };
  std::int64_t inner = 1;
  std::int64_t step = 1;
  std::string sum;
  for (std::size_t i = d.in.size(); i-- > d.in.size() - d.rank;) {
    Ints firsts;
    for (std::int64_t o = 0; o < d.out[i]; ++o) {
      firsts.push_back(d.position(i, o, 0));
    }
    const std::size_t axis = i + d.rank + 2 - d.in.size();
    std::string at =
        combine("Mod", scale("Div", winners, inner), HostTensor::scalar<std::int64_t>(d.in[i]));
    at = combine("Sub", at, numbersAlong(d.rank + 2, axis, firsts));
    at = scale("Mul", scale("Div", at, d.dilations[i]), step);
    sum = sum.empty() ? at : writer.addHelper({"Add", {sum, at}});
    inner *= d.in[i];
    step *= d.kernel[i];
  }
  return sum;
}

/// ONNX's indices count from the first element of the input, ours inside the window.
void writeMaxPool(ModelWriter& writer, const ir::Op& op) {
  NewNode node{"MaxPool",
               writer.operands(op),
               {{"kernel_shape", op.attrs.integers("kernel")},
                {"ceil_mode", op.attrs.flag("ceilMode") ? 1 : 0}},
               1};
  addLists(op, node);
  const ops::PoolDims d = poolDimsOf(writer.used(), op);
  const bool fewer = leavesOutWindows(d, op);
  if (!writer.used().isRead(op.out(1))) {
    if (fewer) {
      node = firstWindows(writer, op, writer.addHelper(std::move(node)));
      node.outputs = 1;
    }
    writer.addNode(op, std::move(node));
    return;
  }
  std::string winners = writer.newName(DType::I64);
  if (fewer) {
    const std::string all = writer.newName(op.outputs[0].dtype);
    writer.addNode(std::move(node), {all, winners});
    writer.addNode(firstWindows(writer, op, all), {writer.nameOf(op.out(0))});
    winners = writer.addHelper(firstWindows(writer, op, winners), DType::I64);
  } else {
    writer.addNode(std::move(node), {writer.nameOf(op.out(0)), winners});
  }
  const std::string offsets = windowOffsets(writer, d, winners);
  writer.addNode(NewNode{"Cast", {offsets}, {{"to", onnxTypeOf(op.outputs[1].dtype)}}},
                 {writer.nameOf(op.out(1))});
}

Fit fitMaxPool(const UsedGraph& graph, const ir::Op& op) {
  const bool same = !graph.isRead(op.out(1)) && !leavesOutWindows(poolDimsOf(graph, op), op);
  return same ? Fit::Same : Fit::Values;
}

/// The last numbers, one per spatial axis.
Ints perAxis(const ops::Extents& extents, std::size_t rank) {
  return {extents.end() - static_cast<std::ptrdiff_t>(rank), extents.end()};
}

/// Every window spreads its gradient, divided, by a kernel of ones: a transposed convolution of
/// maps of one channel.
std::vector<Value> avgPoolGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.outputs[0];
  const ops::PoolDims d = ops::poolDims(whole.op);
  if (whole.op.inputs[0].shape.elements() == 0) {
    return {ops::full(b, type, 0.0)};
  }
  HostTensor divisors(DType::F64, ops::windowShape(d, 1, 1));
  std::ranges::copy(ops::avgPoolDivisors(d, whole.op.attrs.flag("countIncludePad")),
                    divisors.data<double>().begin());
  const Value maps = ops::reshape(b, whole.wide(0), ops::windowShape(d, d.maps(), 1));
  const DType wide = b.dtype(maps);
  const Value dy = ops::div(b, maps, b.constant(cast(divisors, wide)));
  Ints pads = perAxis(d.padsBefore, d.rank);
  Ints in = {d.maps(), 1};
  Ints kernel = {1, 1};
  for (std::size_t i = d.in.size() - d.rank; i < d.in.size(); ++i) {
    // Rounding up adds a window that ends behind the padding.
    const std::int64_t end = d.strides[i] * (d.out[i] - 1) + d.kernel[i] - d.padsBefore[i];
    pads.push_back(std::max(d.padsAfter[i], end - d.in[i]));
    in.push_back(d.in[i]);
    kernel.push_back(d.kernel[i]);
  }
  const Value ones = ops::full(b, {wide, Shape(std::move(kernel))}, 1.0);
  const Value spread = ops::convGradInput(
      b, ones, dy, Shape(std::move(in)), {.strides = perAxis(d.strides, d.rank), .pads = pads});
  return {whole.rounded(ops::reshape(b, spread, type.shape))};
}

/// Where each place of each window lies in its map, -1 in the padding.
HostTensor windowPlaces(const ops::PoolDims& d) {
  HostTensor table = HostTensor::full({DType::I64, Shape{d.outSize() * d.kernelSize()}}, -1.0);
  const auto places = table.data<std::int64_t>();
  ops::forEachTap(d, [&](std::int64_t x, std::int64_t k, std::int64_t y) {
    places[static_cast<std::size_t>(y * d.kernelSize() + k)] = x;
  });
  return table;
}

std::vector<Value> maxPoolGradParts(const Whole& whole) {
  ir::GraphBuilder& b = whole.b;
  const TensorType& type = whole.op.outputs[0];
  const ops::PoolDims d = ops::poolDims(whole.op);
  if (whole.op.inputs[1].shape.elements() == 0) {
    return {ops::full(b, type, 0.0)};
  }
  const Shape flat{d.maps(), d.outSize()};
  HostTensor firsts(DType::I64, Shape{1, d.outSize()});
  for (std::int64_t i = 0; i < d.outSize(); ++i) {
    firsts.set(i, static_cast<double>(i * d.kernelSize()));
  }
  const Value offsets = ops::reshape(b, ops::cast(b, whole.inputs[0], DType::I64), flat);
  const Value places = ops::gather(
      b, b.constant(windowPlaces(d)), ops::add(b, offsets, b.constant(std::move(firsts))));
  const Value zero = b.scalar(DType::I64, 0.0);
  const Value dy = whole.wide(1);
  const Value counted = ops::where(
      b, ops::greaterEqual(b, places, zero), ops::reshape(b, dy, flat), b.scalar(b.dtype(dy), 0.0));
  const Value zeros = ops::full(b, {b.dtype(dy), Shape{d.maps(), d.inSize()}}, 0.0);
  const Value sums =
      ops::scatterElements(b, zeros, ops::maximum(b, places, zero), counted, 1, "add");
  return {whole.rounded(ops::reshape(b, sums, type.shape))};
}

constexpr std::array kWindowForms = {
    StandardForm{"avg_pool", writeAvgPool, fitAvgPool},
    StandardForm{.op = "avg_pool_grad", .parts = avgPoolGradParts},
    StandardForm{"conv", writeConv},
    StandardForm{"conv_grad_input", writeConvTranspose, fitConvTranspose},
    StandardForm{.op = "conv_grad_weight", .parts = convGradWeightParts},
    StandardForm{"max_pool", writeMaxPool, fitMaxPool},
    StandardForm{.op = "max_pool_grad", .parts = maxPoolGradParts},
};

}  // namespace

std::span<const StandardForm> windowForms() {
  return kWindowForms;
}

}  // namespace sluice::onnx
