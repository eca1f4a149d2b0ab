// Reads the windows of convolutions and pooling from ONNX's attributes kernel_shape, strides,
// dilations, pads and auto_pad, for the translations of these ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/onnx/node.h"

namespace sluice::onnx {

/// Each list has one number per spatial axis. The pads have two: first those at the start of all
/// axes, then those at the end.
struct Window {
  std::vector<std::int64_t> in;
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> pads;  ///< 0 unless given as numbers
  std::string autoPad;

  std::size_t rank() const { return in.size(); }
  std::int64_t span(std::size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
  bool same() const { return autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER"; }

  /// The pads for an op of Sluice; empty if the node does not give any.
  std::vector<std::int64_t> padList(const Node& node) const;
  /// Sets the pads of an axis. If the total is odd, the larger part goes to the end or to the
  /// start.
  void padAxis(std::size_t axis, std::int64_t total, bool moreAtEnd);
  /// Sets the pads if auto_pad is SAME: the number of windows is input / stride, rounded up.
  void padSame();
};

/// An attribute with `count` numbers, all `otherwise` if it is not given. Throws InvalidArgument
/// for another count.
std::vector<std::int64_t> listOf(const Node& node,
                                 std::string_view attr,
                                 std::size_t count,
                                 std::int64_t otherwise);

/// The windows over operand 0 of a pooling op, or of a convolution with this weight.
Window poolWindow(Node& node);
Window convWindow(Node& node, const Shape& weight);

}  // namespace sluice::onnx
