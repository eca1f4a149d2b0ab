// Translations of convolutions. The transposed one is the gradient of conv.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/onnx/translations.h"
#include "sluice/onnx/window_attrs.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

Value addBias(Node& node, Value y) {
  if (!node.has(2)) {
    return y;
  }
  Ints perChannel(static_cast<std::size_t>(node.b.shape(y).rank() - 1), 1);
  perChannel[0] = node.b.shape(y)[1];
  if (node.shape(2) != Shape{perChannel[0]}) {
    raise<InvalidArgument>(
        "the bias must be {}, got {}", Shape{perChannel[0]}.str(), node.shape(2).str());
  }
  return ops::add(node.b, y, ops::reshape(node.b, node.input(2), Shape(std::move(perChannel))));
}

/// Lists that the node leaves out stay so.
std::vector<Value> conv(Node& node) {
  Window w = convWindow(node, Shape(node.shape(1)));
  w.padSame();
  const Value y = ops::conv(node.b,
                            node.input(0),
                            node.input(1),
                            {.strides = node.integers("strides"),
                             .pads = w.padList(node),
                             .dilations = node.integers("dilations"),
                             .groups = node.integer("group", 1)});
  return {addBias(node, y)};
}

/// Cuts or fills with zeros so that the spatial axes begin `before` earlier and end `after` later.
Value grow(ir::GraphBuilder& b, Value y, const Ints& before, const Ints& after) {
  const Shape shape = b.shape(y);
  Ints starts = {0, 0};
  Ints ends = {shape[0], shape[1]};
  Ints padBefore = {0, 0};
  Ints padAfter = {0, 0};
  for (std::size_t i = 0; i < before.size(); ++i) {
    starts.push_back(std::max<std::int64_t>(-before[i], 0));
    ends.push_back(shape.dims()[i + 2] + std::min<std::int64_t>(after[i], 0));
    padBefore.push_back(std::max<std::int64_t>(before[i], 0));
    padAfter.push_back(std::max<std::int64_t>(after[i], 0));
  }
  return ops::pad(b,
                  ops::slice(b, y, std::move(starts), std::move(ends)),
                  std::move(padBefore),
                  std::move(padAfter));
}

/// The extents of a transposed convolution's result; pads are set where the result's shape or
/// auto_pad asks for some.
Ints transposedExtents(const Node& node, Window& w, const Ints& outputPadding) {
  Ints wanted = node.integers("output_shape");
  if (wanted.size() == w.rank() + 2) {
    wanted.erase(wanted.begin(), wanted.begin() + 2);  // some writers give the whole shape
  }
  if (!wanted.empty() && wanted.size() != w.rank()) {
    raise<InvalidArgument>("output_shape needs {} numbers, got {}", w.rank(), wanted.size());
  }
  Ints out;
  for (std::size_t i = 0; i < w.rank(); ++i) {
    const std::int64_t whole = w.strides[i] * (w.in[i] - 1) + outputPadding[i] + w.span(i);
    if (!wanted.empty() || w.same()) {
      const std::int64_t extent = wanted.empty() ? w.in[i] * w.strides[i] : wanted[i];
      // The two versions of the op put an odd pad to different ends. What is missing is added
      // behind, as output_padding does.
      const bool upper = w.autoPad == "SAME_UPPER";
      w.padAxis(i, std::max<std::int64_t>(whole - extent, 0), upper == (node.version() >= 11));
      w.pads[i + w.rank()] += std::min<std::int64_t>(whole - extent, 0);
    }
    out.push_back(whole - w.pads[i] - w.pads[i + w.rank()]);
    if (out.back() < 0) {
      raise<InvalidArgument>("the padding leaves nothing of spatial axis {}", i);
    }
  }
  return out;
}

/// The transposed convolution is the gradient of conv's input.
std::vector<Value> convTranspose(Node& node) {
  const Shape x = node.shape(0);
  const Shape weight = node.shape(1);
  Window w = convWindow(node, weight);
  if (weight[0] != x[1]) {
    raise<InvalidArgument>(
        "weight {} is for {} channels, the input has {}", weight.str(), weight[0], x[1]);
  }
  const Ints outputPadding = listOf(node, "output_padding", w.rank(), 0);
  const Ints out = transposedExtents(node, w, outputPadding);
  bool direct = std::ranges::all_of(w.pads, [](std::int64_t pad) { return pad >= 0; });
  for (std::size_t i = 0; i < w.rank(); ++i) {
    direct = direct && outputPadding[i] >= 0 && outputPadding[i] < w.strides[i];
  }
  const Ints pads = w.pads;
  Ints dims = {x[0], weight[1] * node.integer("group", 1)};
  if (direct) {
    dims.insert(dims.end(), out.begin(), out.end());
  } else {
    std::ranges::fill(w.pads, 0);
    for (std::size_t i = 0; i < w.rank(); ++i) {
      dims.push_back(w.strides[i] * (w.in[i] - 1) + w.span(i));
    }
  }
  Value y = ops::convGradInput(node.b,
                               node.input(1),
                               node.input(0),
                               Shape(std::move(dims)),
                               {.strides = w.strides,
                                .pads = w.pads,
                                .dilations = w.dilations,
                                .groups = node.integer("group", 1)});
  if (!direct) {
    Ints before;
    Ints after;
    for (std::size_t i = 0; i < w.rank(); ++i) {
      before.push_back(-pads[i]);
      after.push_back(outputPadding[i] - pads[i + w.rank()]);
    }
    y = grow(node.b, y, before, after);
  }
  return {addBias(node, y)};
}

/// Part i of a list that several convolutions share, `count` numbers each.
Ints partOf(const Node& node, std::string_view attr, std::size_t offset, std::size_t count) {
  const Ints list = node.integers(attr);
  if (list.empty()) {
    return {};
  }
  if (offset + count > list.size()) {
    raise<InvalidArgument>("{} has {} numbers, too few for all convolutions", attr, list.size());
  }
  const auto first = list.begin() + static_cast<std::ptrdiff_t>(offset);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// Convolutions side by side: operands in pairs of input and weight, lists one after the other. The
/// groups follow from the channels.
std::vector<Value> multiConv(Node& node) {
  if (node.numInputs() == 0 || node.numInputs() % 2 != 0) {
    raise<InvalidArgument>("expected pairs of input and weight, got {} operands", node.numInputs());
  }
  std::vector<Value> results;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < node.numInputs(); i += 2) {
    const Value x = node.input(i);
    const Value w = node.input(i + 1);
    const Shape in = node.b.shape(x);
    const Shape weight = node.b.shape(w);
    if (in.rank() < 3 || weight.rank() != in.rank() || weight[1] == 0) {
      raise<InvalidArgument>("weight {} does not fit input {}", weight.str(), in.str());
    }
    const auto rank = static_cast<std::size_t>(in.rank() - 2);
    results.push_back(ops::conv(node.b,
                                x,
                                w,
                                {.strides = partOf(node, "strides", offset, rank),
                                 .pads = partOf(node, "pads", 2 * offset, 2 * rank),
                                 .dilations = partOf(node, "dilations", offset, rank),
                                 .groups = in[1] / weight[1]}));
    offset += rank;
  }
  return results;
}

constexpr std::array kNnTranslations = {
    Translation{"Conv", conv},
    Translation{"ConvTranspose", convTranspose},
    Translation{"MultiConv", multiConv, "ai.graphcore"},
};

}  // namespace

std::span<const Translation> nnTranslations() {
  return kNnTranslations;
}

}  // namespace sluice::onnx
