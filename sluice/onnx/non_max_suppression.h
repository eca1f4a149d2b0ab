// Non-maximum suppression of known boxes: how many are chosen depends on their values, so it is
// done while a model is imported.
#pragma once

#include <cstdint>
#include <optional>

#include "sluice/tensor/host_tensor.h"

namespace sluice::onnx {

struct Suppression {
  std::int64_t maxPerClass = 0;
  double overlap = 0.0;              ///< boxes that share more of their union are dropped
  std::optional<double> score = {};  ///< boxes must have more
  bool centers = false;              ///< boxes are (x, y, width, height), else two corners
};

/// Boxes [batch, count, 4], scores [batch, classes, count]; the result's rows are (batch, class,
/// box) as i64, best first. Throws InvalidArgument if the shapes do not fit.
HostTensor nonMaxSuppression(const HostTensor& boxes,
                             const HostTensor& scores,
                             const Suppression& options);

}  // namespace sluice::onnx
