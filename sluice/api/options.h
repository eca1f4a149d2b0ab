// Options: how a model is run. Setters return the object, so they chain:
//   Options().deviceIterations(10).threads(2)
// Every setter checks its argument and throws InvalidArgument, leaving the object as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/parallel/strategy.h"

namespace sluice {

/// Which micro-batches of a step come back to the host.
enum class OutputMode : std::uint8_t { All, EveryN, Final, Sum, Default };
/// How gradients of several micro-batches become one.
enum class Reduction : std::uint8_t { Mean, Sum };

/// Settings that matter only when training.
class TrainingOptions {
 public:
  /// Micro-batches per weight update.
  TrainingOptions& gradientAccumulation(std::int64_t count);
  TrainingOptions& accumulationReduction(Reduction reduction);

  std::int32_t gradientAccumulation() const { return gradientAccumulation_; }
  Reduction accumulationReduction() const { return reduction_; }

 private:
  std::int32_t gradientAccumulation_ = 1;
  Reduction reduction_ = Reduction::Mean;
};

class Options {
 public:
  /// Rounds per call: weight updates when training, micro-batches for inference.
  Options& deviceIterations(std::int64_t count);
  /// How the blocks of the model are spread over devices; pipelined by default.
  Options& setExecutionStrategy(parallel::Strategy strategy);
  /// EveryN needs a positive period; other modes ignore it.
  Options& outputMode(OutputMode mode, std::int64_t period = 1);
  /// Seed of initial values and of every random op; the module's own seed when not set.
  Options& randomSeed(std::uint64_t seed);
  /// Threads of a device. Results do not depend on it.
  Options& threads(std::int64_t count);
  /// Byte budget of a device: a number of bytes or text such as "256MiB", "1.5GB"; 0: no limit.
  Options& memoryPerDevice(std::string_view size);
  Options& memoryPerDevice(std::size_t bytes);
  /// Value-preserving fusion of element-wise chains; on by default. Changes no result.
  Options& fusion(bool enabled);
  /// Prove the program before its first step (order, races, every read); on by default.
  Options& verifyPrograms(bool enabled);
  /// Entries of this file replace those of the shipped tuning table (see `sluice tune`).
  Options& tuningTable(std::string path);
  /// Writes the graph after every pass and the program into this folder; empty: no.
  Options& dumpDirectory(std::string path);

  std::int32_t deviceIterations() const { return deviceIterations_; }
  const parallel::Strategy& executionStrategy() const { return strategy_; }
  OutputMode outputMode() const { return outputMode_; }
  std::int32_t outputPeriod() const { return outputPeriod_; }
  std::optional<std::uint64_t> randomSeed() const { return randomSeed_; }
  std::int32_t threads() const { return threads_; }
  std::size_t memoryPerDevice() const { return memoryPerDevice_; }
  bool fusion() const { return fusion_; }
  bool verifyPrograms() const { return verifyPrograms_; }
  const std::string& tuningTable() const { return tuningTable_; }
  const std::string& dumpDirectory() const { return dumpDirectory_; }

  TrainingOptions training;

  /// Every value, a line each.
  std::string str() const;

 private:
  std::int32_t deviceIterations_ = 1;
  parallel::Strategy strategy_ = parallel::PipelinedExecution();
  OutputMode outputMode_ = OutputMode::Default;
  std::int32_t outputPeriod_ = 1;
  std::optional<std::uint64_t> randomSeed_;
  std::int32_t threads_ = 1;
  std::size_t memoryPerDevice_ = 0;
  bool fusion_ = true;
  bool verifyPrograms_ = true;
  std::string tuningTable_;
  std::string dumpDirectory_;
};

/// "256MiB", "1.5GB", "4096", "64 KiB" in bytes; throws InvalidArgument.
std::size_t parseBytes(std::string_view text);

}  // namespace sluice
