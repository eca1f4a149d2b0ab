#include "sluice/parallel/device_rules.h"

#include <algorithm>
#include <bit>
#include <limits>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::parallel {
namespace {

std::string_view countName(const PipelineLoad& load) {
  return load.training && !load.continuous ? "gradientAccumulation" : "deviceIterations";
}

std::string refusal(const PipelineLoad& load, const PipelineMinimum& minimum) {
  if (minimum.multipleOf > 1) {
    return fmt::format("schedule {} over {} stages needs {} to be a multiple of {}, got {}",
                       name(load.schedule),
                       load.stages,
                       countName(load),
                       minimum.multipleOf,
                       load.microBatches);
  }
  std::string text = fmt::format("a pipeline of {} stages needs {} of at least {}, got {}",
                                 load.stages,
                                 countName(load),
                                 minimum.atLeast,
                                 load.microBatches);
  if (load.training) {
    text += fmt::format(" (with their backward passes the {} stages become {}, {} extra)",
                        load.stages,
                        totalStages(load),
                        totalStages(load) - load.stages);
  }
  return text;
}

}  // namespace

std::int64_t neededDevices(std::span<const std::int32_t> usedIds, std::int64_t replicationFactor) {
  std::int64_t perReplica = 0;
  for (const std::int32_t id : usedIds) {
    if (id < 0) {
      raise<InvalidArgument>("a device has a number from 0 on, got {}", id);
    }
    // Ids are from 0 on, so there are at most as many distinct ones.
    perReplica = std::max(perReplica, std::int64_t{id} + 1);
  }
  if (replicationFactor < 1 || replicationFactor > std::numeric_limits<std::int32_t>::max()) {
    raise<InvalidArgument>("replicationFactor must be a positive 32-bit count, got {}",
                           replicationFactor);
  }
  return perReplica * replicationFactor;
}

DeviceReservation reserveDevices(std::int64_t needed, IpuRules rules, RoundUp roundUp) {
  DeviceReservation result{.devices = needed};
  if (rules == IpuRules::Off) {
    return result;
  }
  if (needed > kMaxIpuDevices) {
    raise<InvalidArgument>(
        "too many devices for one process: the model needs {}, the limit is {}; use several "
        "processes (Options.distributed)",
        needed,
        kMaxIpuDevices);
  }
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(needed)));
  if (power == needed) {
    return result;
  }
  if (roundUp == RoundUp::No) {
    raise<InvalidArgument>(
        "the model needs {} devices, which is no power of two; use {} devices, or reserve {} with "
        "autoRoundNumDevices(true)",
        needed,
        power,
        power);
  }
  result.devices = power;
  result.warning = fmt::format(
      "the model needs {} devices, {} are reserved: {} stay idle", needed, power, power - needed);
  return result;
}

std::int64_t replicasFor(std::int64_t devices, std::int64_t devicesPerReplica) {
  if (devices < 1 || devicesPerReplica < 1 || devices % devicesPerReplica != 0) {
    raise<InvalidArgument>(
        "{} devices are no multiple of the {} that a replica takes", devices, devicesPerReplica);
  }
  return devices / devicesPerReplica;
}

std::int64_t totalStages(const PipelineLoad& load) {
  return load.training ? 2 * load.stages - 1 : load.stages;
}

double utilisation(const PipelineLoad& load) {
  const auto stages = static_cast<double>(load.stages);
  const auto count = static_cast<double>(load.microBatches);
  switch (load.schedule) {
    case PipelineKind::Sequential:
      return 1 / stages;
    case PipelineKind::Popart:
      return count / (count + static_cast<double>(totalStages(load)) - 1);
    case PipelineKind::Grouped:
      return count / (count + (load.training ? 2 * stages : stages) - 1);
    default:
      // Filling and draining cost the time of one micro-batch for each stage but one.
      return count / (count + stages - 1);
  }
}

PipelineMinimum pipelineMinimum(const PipelineLoad& load) {
  if (load.schedule == PipelineKind::Sequential) {
    return {};
  }
  if (!load.training) {
    return {.atLeast = load.stages};
  }
  switch (load.schedule) {
    case PipelineKind::Popart:
      return {.atLeast = totalStages(load)};
    case PipelineKind::Grouped:
      return {.atLeast = 2 * load.stages, .multipleOf = 2 * load.stages};
    case PipelineKind::Interleaved:
      return {.atLeast = load.stages, .multipleOf = load.stages};
    default:
      return {.atLeast = totalStages(load)};
  }
}

std::string checkPipelineLoad(const PipelineLoad& load, IpuRules rules) {
  if (load.stages < 1 || load.microBatches < 1) {
    raise<InvalidArgument>("a pipeline has at least one stage and one micro-batch, got {} and {}",
                           load.stages,
                           load.microBatches);
  }
  const PipelineMinimum minimum = pipelineMinimum(load);
  const bool fits =
      load.microBatches >= minimum.atLeast && load.microBatches % minimum.multipleOf == 0;
  if (load.stages == 1 || fits) {
    return {};
  }
  if (rules == IpuRules::Enforced) {
    raise<InvalidArgument>("{}", refusal(load, minimum));
  }
  // A count between two multiples costs nothing here: the last round is shorter.
  if (load.microBatches >= minimum.atLeast) {
    return {};
  }
  return fmt::format(
      "{} {} does not fill a pipeline of {} stages: a device computes at most {:.0f} % of the "
      "time; {} gives {:.0f} %",
      countName(load),
      load.microBatches,
      load.stages,
      100 * utilisation(load),
      minimum.atLeast,
      100 * utilisation({.stages = load.stages,
                         .microBatches = minimum.atLeast,
                         .training = load.training,
                         .schedule = load.schedule}));
}

}  // namespace sluice::parallel
