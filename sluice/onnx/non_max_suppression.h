// Non-maximum suppression of boxes whose values are known. The number of chosen boxes depends on
// the values, so this is done while a model is imported.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/tensor/host_tensor.h"

namespace sluice::onnx {

struct Suppression {
  std::int64_t maxPerClass = 0;
  double overlap = 0.0;  ///< boxes whose overlap is a larger share of the union are dropped
  std::optional<double> score = {};  ///< boxes must have a higher score
  bool centers = false;              ///< boxes are (x, y, width, height) instead of two corners
};

/// Boxes are [batch, count, 4], scores are [batch, classes, count]. The rows of the result are
/// (batch, class, box) as i64, the best first. Throws InvalidArgument if the shapes do not fit.
HostTensor nonMaxSuppression(const HostTensor& boxes,
                             const HostTensor& scores,
                             const Suppression& options);

}  // namespace sluice::onnx
