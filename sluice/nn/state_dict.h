// State dictionaries: the weights and buffers of a module by PyTorch's names ("conv1.weight",
// "norm.running_mean"), to be saved, loaded and exchanged. A dictionary is checked in full before
// anything is set: when loading throws, the module is as it was.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/variable.h"
#include "sluice/nn/module.h"
#include "sluice/tensor/named_tensors.h"

namespace sluice::nn {

/// Whether names that only one side has are an error.
enum class Strict : std::uint8_t { No, Yes };

/// Names that only one side has.
struct UnmatchedNames {
  std::vector<std::string> missing;     ///< in the dictionary
  std::vector<std::string> unexpected;  ///< by the module
};

/// Throws InvalidArgument for an empty dictionary, a tensor of another shape or type than the
/// variable's and, if strict, for names that only one side has; the message lists them.
UnmatchedNames requireStateDict(std::span<const ir::Variable> variables,
                                const NamedTensors& state,
                                Strict strict = Strict::Yes);

/// All weights and buffers below, by their names as seen from the module.
NamedTensors stateDict(const Module& module);
/// Sets them, in the model that holds them or as what they start from.
UnmatchedNames loadStateDict(Module& module,
                             const NamedTensors& state,
                             Strict strict = Strict::Yes);

/// A dictionary of PyTorch's for these variables: prefixes that wrappers put before all names
/// ("module.", "_orig_mod.") are taken off, floats are converted to the variables' types.
NamedTensors importTorch(std::span<const ir::Variable> variables, const NamedTensors& torch);
/// The other way: names and layouts are PyTorch's already; unsigned integers of 16 to 64 bits,
/// which it does not have, become signed ones.
NamedTensors exportTorch(NamedTensors state);

}  // namespace sluice::nn
