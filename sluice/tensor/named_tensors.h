// Tensors by name: the inputs and outputs of a model, a state dictionary, the content of a file.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

using NamedTensors = std::map<std::string, HostTensor, std::less<>>;

}  // namespace sluice

#pragma GCC visibility pop
