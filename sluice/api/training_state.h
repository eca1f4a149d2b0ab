// What a training run needs to continue where it stopped: the dictionaries of the model and of its
// optimizer, and the state of the random numbers. Model returns and loads them; checkpoint.h writes
// them to files.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

/// Sections of tensors; numbers are tensors of rank 0. A dictionary from Model has
///   "ipu_state": the optimizer's variables ("fc.weight.exp_avg", "optimizer.step"),
///   "ipu_param": its attributes ("lr", "group1.weight_decay") and "updates";
/// and a PyTorch one (importTorch, exportTorch) has
///   "state": by number of the parameter ("0.exp_avg", "0.step"),
///   "param_groups": by number of the group ("0.lr", "0.betas", "0.params").
using OptimizerStateDict = std::map<std::string, NamedTensors, std::less<>>;

inline constexpr std::string_view kIpuState = "ipu_state";
inline constexpr std::string_view kIpuParam = "ipu_param";

/// Converts the sections to one map with names "section/name", for files, and back. Throws
/// InvalidArgument for a name without a section.
NamedTensors flattened(const OptimizerStateDict& state);
OptimizerStateDict sectioned(const NamedTensors& flat);

/// Random numbers depend only on these, the op and the element.
struct RngState {
  std::uint64_t seed = 0;
  std::int64_t microBatch = 0;  ///< the number of the next one, counted over all replicas

  bool operator==(const RngState&) const = default;
};

/// A name for a training run that begins now, made from the time and random digits. It does not
/// influence any result.
std::string makeRunId();
/// Whether a text can be such a name: letters, digits, '-' and '_', so that it can be part of a
/// file name.
bool isRunId(std::string_view text);

/// The whole state of a training model.
struct TrainingState {
  NamedTensors model;
  OptimizerStateDict optimizer;
  RngState rng;
  /// The buffers of replicas 1, 2, ..., if each has its own.
  std::vector<NamedTensors> replicas = {};
  std::string run = {};   ///< Model::runId; empty: not known
  std::string rule = {};  ///< the optimizer's name; empty: not known
};

}  // namespace sluice

#pragma GCC visibility pop
