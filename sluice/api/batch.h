// Batch: what a DataLoader returns for one call of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sluice/api/option_types.h"
#include "sluice/data/dataset.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice {

// BatchLayout: how the rows of one call are shared out among micro-batches, weight updates and
// replicas, and which rows are returned. It is pure arithmetic; the model, loaders and messages use
// it.
//
//   row of an input = ((iteration x GA + accumulation) x replicas + replica) x B + row
//
// Here B is the size of a micro-batch (the rows that one op sees), GA is gradientAccumulation, and
// replicas counts the replicas that have inputs of their own.

class Options;

enum class RunKind : std::uint8_t { Inference, Training };

/// The counts of a call whose size differs from that in the options.
struct CallShape {
  std::int64_t deviceIterations = 1;
  std::int64_t gradientAccumulation = 1;
};

struct BatchLayout {
  std::int64_t microBatch = 1;
  std::int64_t deviceIterations = 1;
  std::int64_t gradientAccumulation = 1;  ///< 1 for inference
  std::int64_t replicationFactor = 1;
  std::int64_t inputGroupSize = 1;  ///< replicas that get the same input
  CommGroupType inputGroupType = CommGroupType::Consecutive;
  OutputMode outputMode = OutputMode::All;  ///< not Default
  std::int64_t outputPeriod = 1;            ///< for EveryN only

  /// The layout that the options ask for, with a micro-batch of 1. Throws InvalidArgument for a
  /// period that does not divide the micro-batches, for groups that do not divide the replicas, for
  /// an inference model that accumulates, and for counts whose product does not fit in 64 bits.
  static BatchLayout of(const Options& options, RunKind kind);

  /// The same layout with another choice of micro-batches to return. Throws InvalidArgument for a
  /// period that does not divide the micro-batches.
  BatchLayout withOutput(OutputMode mode, std::int64_t period) const;

  /// The same layout for a call with other counts, such as the rest of an epoch. Throws
  /// InvalidArgument for a period that does not divide the micro-batches, and for counts below 1.
  BatchLayout withCounts(const CallShape& shape) const;

  /// Micro-batches of one replica in one call.
  std::int64_t microBatches() const { return deviceIterations * gradientAccumulation; }
  /// Replicas with inputs of their own.
  std::int64_t inputReplicas() const { return replicationFactor / inputGroupSize; }
  /// The first dimension of every input is a multiple of this.
  std::int64_t inputFactor() const { return microBatches() * inputReplicas(); }
  std::int64_t rowsPerCall() const { return microBatch * inputFactor(); }
  /// Rows that each weight update sees.
  std::int64_t rowsPerUpdate() const { return microBatch * gradientAccumulation * inputReplicas(); }
  /// Which of the inputReplicas() inputs a replica gets.
  std::int64_t inputOf(std::int64_t replica) const;
  /// The row in the call's input. Throws InvalidArgument if an argument is out of range.
  std::int64_t index(std::int64_t iteration,
                     std::int64_t accumulation,
                     std::int64_t replica,
                     std::int64_t row) const;

  /// Micro-batches that a replica runs for each one that it returns: 1, the period, or all.
  std::int64_t outputDivisor() const;
  /// Micro-batches that all replicas together return.
  std::int64_t outputMicroBatches() const;
  /// The shape that a call returns for an output with this shape per micro-batch. A scalar gets a
  /// dimension only if several micro-batches are returned.
  Shape outputShape(const Shape& perMicroBatch) const;

  /// The micro-batch size of an input that holds a whole call; 1 for a scalar, which is the same
  /// for all micro-batches. Throws InvalidArgument, naming the factors, if the first dimension is
  /// not a multiple of inputFactor().
  std::int64_t microBatchOf(std::string_view input, const Shape& shape) const;
  /// Throws InvalidArgument unless `found` is exactly the number of elements of a call.
  void requireInputElements(std::string_view input,
                            std::int64_t perMicroBatch,
                            std::int64_t found) const;
  void requireOutputElements(std::string_view output,
                             std::int64_t perMicroBatch,
                             std::int64_t found) const;

  /// "deviceIterations 10 x gradientAccumulation 10 x replicationFactor 2", for messages.
  std::string factors() const;
  /// Describes the layout and its numbers, for people.
  std::string explain() const;

  bool operator==(const BatchLayout&) const = default;
};

struct Batch : data::Batch {
  std::optional<CallShape> shape = {};  ///< set: the call's counts differ from the options
};

}  // namespace sluice

#pragma GCC visibility pop
