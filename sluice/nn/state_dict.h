// State dictionaries: the weights and buffers of a module by PyTorch's names ("conv1.weight",
// "norm.running_mean"), for saving, loading and exchange. The whole dictionary is checked before
// anything is set: if loading throws, the module is unchanged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sluice/ir/variable.h"
#include "sluice/nn/module.h"
#include "sluice/tensor/named_tensors.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

/// Whether names that only one side has are an error.
enum class Strict : std::uint8_t { No, Yes };

/// Names that only one side has.
struct UnmatchedNames {
  std::vector<std::string> missing;     ///< not in the dictionary
  std::vector<std::string> unexpected;  ///< not in the module
};

/// Throws InvalidArgument for an empty dictionary, for a tensor whose shape or type differs from
/// the variable's and, if strict, for names that only one side has; the message lists them.
UnmatchedNames requireStateDict(std::span<const ir::Variable> variables,
                                const NamedTensors& state,
                                Strict strict = Strict::Yes);

/// All weights and buffers of the module and those below it, by their names relative to the module.
NamedTensors stateDict(const Module& module);
/// Sets the weights and buffers, in the model that holds them or else as their start values.
UnmatchedNames loadStateDict(Module& module,
                             const NamedTensors& state,
                             Strict strict = Strict::Yes);

/// Converts a dictionary from PyTorch for these variables: removes prefixes that wrappers add to
/// all names ("module.", "_orig_mod.") and converts floats to the variables' types.
NamedTensors importTorch(std::span<const ir::Variable> variables, const NamedTensors& torch);
/// Converts a dictionary for PyTorch. Names and layouts are the same; unsigned integers of 16 to 64
/// bits, which PyTorch does not have, become signed ones.
NamedTensors exportTorch(NamedTensors state);

}  // namespace sluice::nn

#pragma GCC visibility pop
