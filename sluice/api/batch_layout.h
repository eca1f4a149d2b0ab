// BatchLayout: how the rows of one call are shared out among micro-batches, weight updates and
// replicas, and which rows come back. Pure arithmetic; the model, loaders and messages use it.
//
//   row of an input = ((iteration x GA + accumulation) x replicas + replica) x B + row
//
// where B is the micro-batch (what one op sees) and replicas counts those with data of their own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sluice/api/option_types.h"
#include "sluice/tensor/shape.h"

namespace sluice {

class Options;

enum class RunKind : std::uint8_t { Inference, Training };

/// How often a call does what, where it differs from the options.
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
  std::int64_t outputPeriod = 1;            ///< of EveryN

  /// The layout that the options ask for, with a micro-batch of 1. Throws InvalidArgument for a
  /// period that does not divide the micro-batches, for groups that do not divide the replicas, for
  /// an inference model that accumulates, and for counts whose product is no 64-bit number.
  static BatchLayout of(const Options& options, RunKind kind);

  /// The same with other micro-batches coming back. Throws InvalidArgument for a period that does
  /// not divide them.
  BatchLayout withOutput(OutputMode mode, std::int64_t period) const;

  /// The same for a call of other counts: the rest of an epoch, say. Throws InvalidArgument for a
  /// period that does not divide the micro-batches, or counts below 1.
  BatchLayout withCounts(const CallShape& shape) const;

  /// Of one replica in one call.
  std::int64_t microBatches() const { return deviceIterations * gradientAccumulation; }
  /// Replicas with inputs of their own.
  std::int64_t inputReplicas() const { return replicationFactor / inputGroupSize; }
  /// The first dimension of every input is a multiple of this.
  std::int64_t inputFactor() const { return microBatches() * inputReplicas(); }
  std::int64_t rowsPerCall() const { return microBatch * inputFactor(); }
  /// Weight updates see this many rows each.
  std::int64_t rowsPerUpdate() const { return microBatch * gradientAccumulation * inputReplicas(); }
  /// Which of the inputReplicas() inputs a replica gets.
  std::int64_t inputOf(std::int64_t replica) const;
  /// Row of the call's input. Throws InvalidArgument if one of them is out of range.
  std::int64_t index(std::int64_t iteration,
                     std::int64_t accumulation,
                     std::int64_t replica,
                     std::int64_t row) const;

  /// Micro-batches of a replica per one that comes back: 1, the period, or all.
  std::int64_t outputDivisor() const;
  /// Micro-batches that come back, of all replicas.
  std::int64_t outputMicroBatches() const;
  /// The shape that comes back for an output of this shape per micro-batch. A scalar gets a
  /// dimension only when there are several.
  Shape outputShape(const Shape& perMicroBatch) const;

  /// B of an input of a whole call. Throws InvalidArgument, naming the factors, for a first
  /// dimension that is no multiple of inputFactor(). A scalar is the same for all micro-batches.
  std::int64_t microBatchOf(std::string_view input, const Shape& shape) const;
  /// Throws InvalidArgument unless a buffer holds exactly the elements of a call.
  void requireInputElements(std::string_view input,
                            std::int64_t perMicroBatch,
                            std::int64_t found) const;
  void requireOutputElements(std::string_view output,
                             std::int64_t perMicroBatch,
                             std::int64_t found) const;

  /// "deviceIterations 10 x gradientAccumulation 10 x replicationFactor 2", for messages.
  std::string factors() const;
  /// The layout with its numbers, for people.
  std::string explain() const;

  bool operator==(const BatchLayout&) const = default;
};

}  // namespace sluice
