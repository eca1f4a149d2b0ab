// What makes a training run go on where it stopped: the dictionaries of the model and of its
// optimizer, the state of the random numbers. Model gives and takes them; checkpoint.h writes them
// to files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/named_tensors.h"

namespace sluice {

/// Sections of tensors; numbers are tensors of rank 0. One of Model's own has
///   "ipu_state": the optimizer's variables ("fc.weight.exp_avg", "optimizer.step"),
///   "ipu_param": its attributes ("lr", "group1.weight_decay") and "updates";
/// one of PyTorch's (importTorch, exportTorch) has
///   "state": by number of the parameter ("0.exp_avg", "0.step"),
///   "param_groups": by number of the group ("0.lr", "0.betas", "0.params").
using OptimizerStateDict = std::map<std::string, NamedTensors, std::less<>>;

inline constexpr std::string_view kIpuState = "ipu_state";
inline constexpr std::string_view kIpuParam = "ipu_param";

/// The sections as one map, "section/name", and back: for files. Throws InvalidArgument for a name
/// without a section.
NamedTensors flattened(const OptimizerStateDict& state);
OptimizerStateDict sectioned(const NamedTensors& flat);

/// Random numbers depend on these, the op and the element alone.
struct RngState {
  std::uint64_t seed = 0;
  std::int64_t microBatch = 0;  ///< the next one's number, counted over all replicas

  bool operator==(const RngState&) const = default;
};

/// A name for a training run that begins now: its time and random digits. It has no influence on
/// what is computed.
std::string makeRunId();
/// Whether a text may be one: letters, digits, '-' and '_', so that it can be part of a file name.
bool isRunId(std::string_view text);

/// All of a model that trains.
struct TrainingState {
  NamedTensors model;
  OptimizerStateDict optimizer;
  RngState rng;
  /// Buffers of replicas 1, 2 ..., where each has its own.
  std::vector<NamedTensors> replicas = {};
  std::string run = {};   ///< Model::runId; empty: not known
  std::string rule = {};  ///< the optimizer's name; empty: not known
};

}  // namespace sluice
