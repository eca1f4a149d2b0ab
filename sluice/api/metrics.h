// Small measures of a model's outputs.
#pragma once

#include "sluice/tensor/host_tensor.h"

namespace sluice {

/// Percentage of rows of `predictions` [n, classes] whose largest entry is the label. An output
/// mode that returns fewer predictions than there are labels returns the last ones, so the last n
/// labels count. Throws InvalidArgument for shapes that do not fit.
double accuracy(const HostTensor& predictions, const HostTensor& labels);

/// The mean of all elements.
double meanOf(const HostTensor& tensor);

}  // namespace sluice
