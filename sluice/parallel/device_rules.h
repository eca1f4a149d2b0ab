// How many devices a model needs and how many micro-batches keep a pipeline busy. If the IPU's
// rules are enforced, breaking its limits is an error. Otherwise any count works, and a count that
// leaves devices idle gives the text of a warning. Pure functions: numbers in, numbers and texts
// out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sluice/parallel/strategy.h"

namespace sluice::parallel {

enum class IpuRules : std::uint8_t { Off, Enforced };
enum class RoundUp : std::uint8_t { No, Yes };

/// Maximum number of devices of one process under the IPU's rules.
inline constexpr std::int64_t kMaxIpuDevices = 64;

/// The number of devices of all replicas; ids from 0 to the largest one in use count. Throws
/// InvalidArgument for a negative id or a replication factor below 1.
std::int64_t neededDevices(std::span<const std::int32_t> usedIds, std::int64_t replicationFactor);

struct DeviceReservation {
  std::int64_t devices = 0;
  std::string warning;  ///< empty: no warning
};
/// Under the IPU's rules a count that is not a power of two is rounded up with a warning or refused
/// with InvalidArgument; a count above kMaxIpuDevices is refused. Without the rules any count is
/// kept.
DeviceReservation reserveDevices(std::int64_t needed, IpuRules rules, RoundUp roundUp);

/// The number of replicas on `devices` if each takes `devicesPerReplica`. Throws InvalidArgument
/// unless the first is a multiple of the second.
std::int64_t replicasFor(std::int64_t devices, std::int64_t devicesPerReplica);

struct PipelineLoad {
  std::int64_t stages = 1;        ///< forward stages
  std::int64_t microBatches = 1;  ///< micro-batches that pass before the pipeline drains
  bool training = false;
  bool continuous = false;  ///< training without accumulation; deviceIterations are counted
  PipelineKind schedule = PipelineKind::Popart;
};
/// The number of forward and backward stages together, counted as in PopART: the last forward stage
/// and its backward stage are one.
std::int64_t totalStages(const PipelineLoad& load);
/// The share of time in which a device of a balanced pipeline computes, if all forward and backward
/// stages take equally long.
double utilisation(const PipelineLoad& load);
/// The smallest number of micro-batches that the IPU versions of the schedule accept, and the
/// number that it must be a multiple of.
struct PipelineMinimum {
  std::int64_t atLeast = 1;
  std::int64_t multipleOf = 1;
};
PipelineMinimum pipelineMinimum(const PipelineLoad& load);
/// Returns a warning that states the utilisation if the micro-batches do not fill the pipeline,
/// else "". Throws InvalidArgument instead if the IPU's rules are enforced.
std::string checkPipelineLoad(const PipelineLoad& load, IpuRules rules);

}  // namespace sluice::parallel
