// Runs the same model in PyTorch: writes parameters and inputs as raw files, starts peer.py, reads
// back what it computed.
#pragma once

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "sluice/tensor/host_tensor.h"

namespace sluice::testing {

constexpr int kNoTorch = 77;  ///< exit status of the scripts where PyTorch cannot be imported

using Tensors = std::map<std::string, HostTensor>;

/// What to compute; see peer.py for the keys of `model`.
struct PeerJob {
  nlohmann::json model;
  nlohmann::json optimizer;  ///< {"rule": "SGD", "lr": 1.0, ...}
  int steps = 1;
  Tensors state;   ///< parameters and buffers by PyTorch's names
  Tensors inputs;  ///< the same for every step
};

struct PeerResult {
  HostTensor output;  ///< of the first step
  HostTensor losses;  ///< [steps]
  Tensors state;      ///< after the last step
};

/// Nothing where PyTorch cannot be imported; throws std::runtime_error when it fails.
std::optional<PeerResult> runInTorch(const PeerJob& job);

}  // namespace sluice::testing
