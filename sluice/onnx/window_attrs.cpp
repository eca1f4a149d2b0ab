#include "sluice/onnx/window_attrs.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::onnx {
namespace {

using Ints = std::vector<std::int64_t>;

void requirePositive(std::string_view what, const Ints& numbers) {
  for (const std::int64_t number : numbers) {
    if (number < 1 || number > (std::int64_t{1} << 30)) {
      raise<InvalidArgument>("{} cannot be {}", what, number);
    }
  }
}

Shape inputShape(Node& node) {
  Shape shape = node.shape(0);
  if (shape.rank() < 3 || shape.rank() > 5) {
    raise<InvalidArgument>("the input must be [batch, channels, 1 to 3 spatial axes], got {}",
                           shape.str());
  }
  return shape;
}

Window windowOf(Node& node, const Shape& shape, Ints kernel) {
  Window w{.in = Ints(shape.dims().begin() + 2, shape.dims().end()),
           .kernel = std::move(kernel),
           .autoPad = node.text("auto_pad", "NOTSET")};
  const std::size_t rank = w.rank();
  w.strides = listOf(node, "strides", rank, 1);
  w.dilations = listOf(node, "dilations", rank, 1);
  w.pads = Ints(2 * rank, 0);
  requirePositive("an extent of the kernel", w.kernel);
  requirePositive("a stride", w.strides);
  requirePositive("a dilation", w.dilations);
  if (w.autoPad == "NOTSET" || w.autoPad.empty()) {
    w.pads = listOf(node, "pads", 2 * rank, 0);
  } else if (!w.same() && w.autoPad != "VALID") {
    raise<InvalidArgument>("auto_pad must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, got '{}'",
                           w.autoPad);
  }
  return w;
}

}  // namespace

Ints Window::padList(const Node& node) const {
  return same() || node.hasAttr("pads") ? pads : Ints();
}

void Window::padAxis(std::size_t axis, std::int64_t total, bool moreAtEnd) {
  const std::int64_t less = total / 2;
  pads[axis] = moreAtEnd ? less : total - less;
  pads[axis + rank()] = total - pads[axis];
}

void Window::padSame() {
  for (std::size_t i = 0; same() && i < rank(); ++i) {
    const std::int64_t out = (in[i] + strides[i] - 1) / strides[i];
    const std::int64_t total = (out - 1) * strides[i] + span(i) - in[i];
    padAxis(i, std::max<std::int64_t>(total, 0), autoPad == "SAME_UPPER");
  }
}

Ints listOf(const Node& node, std::string_view attr, std::size_t count, std::int64_t otherwise) {
  Ints list = node.integers(attr);
  if (list.empty()) {
    list.assign(count, otherwise);
  }
  if (list.size() != count) {
    raise<InvalidArgument>("{} needs {} numbers, got {}", attr, count, list.size());
  }
  return list;
}

Window poolWindow(Node& node) {
  const Shape input = inputShape(node);
  if (!node.hasAttr("kernel_shape")) {
    raise<InvalidArgument>("kernel_shape is missing");
  }
  return windowOf(
      node, input, listOf(node, "kernel_shape", static_cast<std::size_t>(input.rank() - 2), 0));
}

Window convWindow(Node& node, const Shape& weight) {
  const Shape input = inputShape(node);
  if (weight.rank() != input.rank()) {
    raise<InvalidArgument>("weight {} and input {} must be of one rank", weight.str(), input.str());
  }
  Ints kernel(weight.dims().begin() + 2, weight.dims().end());
  const Ints given = node.integers("kernel_shape");
  if (!given.empty() && given != kernel) {
    raise<InvalidArgument>(
        "kernel_shape {} is not that of the weight {}", Shape(given).str(), weight.str());
  }
  return windowOf(node, input, std::move(kernel));
}

}  // namespace sluice::onnx
