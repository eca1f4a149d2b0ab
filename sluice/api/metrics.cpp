#include "sluice/api/fit.h"
#include "sluice/base/error.h"

namespace sluice {

double accuracy(const HostTensor& predictions, const HostTensor& labels) {
  const bool fits = predictions.shape().rank() == 2 && labels.shape().rank() == 1 &&
                    predictions.shape()[0] <= labels.shape()[0] && predictions.shape()[1] > 0;
  if (!fits) {
    raise<InvalidArgument>(
        "accuracy wants predictions [n, classes] and at least n labels, got {} "
        "and {}",
        predictions.type().str(),
        labels.type().str());
  }
  const std::int64_t rows = predictions.shape()[0];
  const std::int64_t classes = predictions.shape()[1];
  const std::int64_t skipped = labels.shape()[0] - rows;
  std::int64_t right = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c) {
      if (predictions.at(r * classes + c) > predictions.at(r * classes + best)) {
        best = c;
      }
    }
    right += static_cast<double>(best) == labels.at(skipped + r) ? 1 : 0;
  }
  return rows == 0 ? 0.0 : 100.0 * static_cast<double>(right) / static_cast<double>(rows);
}

double meanOf(const HostTensor& tensor) {
  double sum = 0;
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    sum += tensor.at(i);
  }
  return tensor.shape().elements() == 0 ? 0.0
                                        : sum / static_cast<double>(tensor.shape().elements());
}

}  // namespace sluice
