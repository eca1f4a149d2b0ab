// Small measures of a model's outputs.
#pragma once

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

/// The percentage of rows of `predictions` [n, classes] whose largest entry is at the label. If
/// there are more than n labels, the last n are used, because an output mode that returns fewer
/// predictions returns the last ones. Throws InvalidArgument for shapes that do not fit.
double accuracy(const HostTensor& predictions, const HostTensor& labels);

/// The mean of all elements.
double meanOf(const HostTensor& tensor);

}  // namespace sluice

#pragma GCC visibility pop
