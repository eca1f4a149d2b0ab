// How many devices a model needs and how many micro-batches keep a pipeline busy. The IPU's own
// limits are errors where its rules are enforced; elsewhere any count works and a count that leaves
// devices idle gives a warning text. Pure functions: numbers in, numbers and texts out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sluice/parallel/strategy.h"

namespace sluice::parallel {

enum class IpuRules : std::uint8_t { Off, Enforced };
enum class RoundUp : std::uint8_t { No, Yes };

/// Most devices of one process under the IPU's rules.
inline constexpr std::int64_t kMaxIpuDevices = 64;

/// Devices of all replicas: the ids in use leave no gaps. Throws InvalidArgument for a negative id
/// or a replication factor below 1.
std::int64_t neededDevices(std::span<const std::int32_t> usedIds, std::int64_t replicationFactor);

struct DeviceReservation {
  std::int64_t devices = 0;
  std::string warning;  ///< empty: nothing to say
};
/// Under the IPU's rules a count that is no power of two is rounded up with a warning, or refused
/// with InvalidArgument, as is one above kMaxIpuDevices. Without them it is the count itself.
DeviceReservation reserveDevices(std::int64_t needed, IpuRules rules, RoundUp roundUp);

/// Replicas that `devices` hold if each takes `devicesPerReplica`. Throws InvalidArgument unless
/// the first is a multiple of the second.
std::int64_t replicasFor(std::int64_t devices, std::int64_t devicesPerReplica);

struct PipelineLoad {
  std::int64_t stages = 1;        ///< forward stages
  std::int64_t microBatches = 1;  ///< that pass before the pipeline is drained
  bool training = false;
  bool continuous = false;  ///< training without accumulation: deviceIterations are counted
  PipelineKind schedule = PipelineKind::Popart;
};
/// Stages of forward and backward together as PopART counts them; the last forward stage and its
/// backward are one.
std::int64_t totalStages(const PipelineLoad& load);
/// The share of time in which a device of a balanced pipeline computes, if forward and backward
/// stages all take equally long.
double utilisation(const PipelineLoad& load);
/// The smallest count of micro-batches, and the number it must be a multiple of, that the IPU
/// versions of the schedule accept.
struct PipelineMinimum {
  std::int64_t atLeast = 1;
  std::int64_t multipleOf = 1;
};
PipelineMinimum pipelineMinimum(const PipelineLoad& load);
/// A warning that states the utilisation if the count is not one that fills the pipeline, else "".
/// Throws InvalidArgument instead if the IPU's rules are enforced.
std::string checkPipelineLoad(const PipelineLoad& load, IpuRules rules);

}  // namespace sluice::parallel
