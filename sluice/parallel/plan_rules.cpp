#include "sluice/parallel/plan_rules.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::parallel {
namespace {

/// The devices on which forward and backward ops read each weight.
std::map<std::string, std::set<std::int32_t>> readersOfWeights(const ir::Graph& graph) {
  std::map<std::string, std::set<std::int32_t>> devices;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (op.place.pass == ir::Pass::Update) {
      continue;
    }
    for (const ir::Value v : op.inputs) {
      const ir::Op& producer = graph.op(v.op);
      if (producer.is(ir::kVariable)) {
        const ir::Variable* variable = graph.findVariable(producer.attrs.text("var"));
        if (variable->role == ir::VariableRole::Weight) {
          devices[variable->name].insert(op.place.device);
        }
      }
    }
  }
  return devices;
}

/// The weight goes out once per round, and the gradient of every micro-batch comes back.
std::size_t bytesPerRound(const ir::Variable& variable,
                          std::size_t devices,
                          const RuleContext& context,
                          bool training) {
  const std::size_t gradients =
      training && variable.trainable ? static_cast<std::size_t>(context.microBatches) : 0;
  return variable.type.bytes() * (devices - 1) * (1 + gradients);
}

void checkSharedWeights(const ir::Graph& graph,
                        const ExecutionPlan& plan,
                        const RuleContext& context,
                        RuleReport& report) {
  for (const auto& [name, devices] : readersOfWeights(graph)) {
    if (devices.size() < 2) {
      continue;
    }
    if (context.rules == IpuRules::Enforced && plan.pipelined) {
      raise<InvalidArgument>(
          "weight '{}' is used on devices {}: under the IPU's rules the stages of a pipeline that "
          "share a weight are on one device",
          name,
          fmt::join(devices, ", "));
    }
    if (plan.streaming.variables.contains(name)) {
      continue;  // every device loads it from remote memory
    }
    const ir::Variable& variable = *graph.findVariable(name);
    report.warnings.push_back(fmt::format(
        "weight '{}' is used on devices {}: {} bytes of it and its gradients cross between devices "
        "in every round",
        name,
        fmt::join(devices, ", "),
        bytesPerRound(variable, devices.size(), context, plan.training)));
  }
}

void checkMarks(const ExecutionPlan& plan, RuleReport& report) {
  for (const std::string& tensor : plan.ignoredLocations) {
    report.warnings.push_back(fmt::format(
        "the tensor location of '{}' is ignored: the backward pass makes it again", tensor));
  }
}

/// Each replica of an IPU model writes its own copy, so that they could not stay the same.
void checkBuffers(const ir::Graph& graph, const RuleContext& context) {
  if (context.rules == IpuRules::Off || context.replicas == 1 || !context.sharedBuffers) {
    return;
  }
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (!op.is(ir::kAssign)) {
      continue;
    }
    const ir::Variable& variable = *graph.findVariable(op.attrs.text("var"));
    if (variable.role == ir::VariableRole::Buffer) {
      raise<InvalidArgument>(
          "buffer '{}' is written by {} replicas, which under the IPU's rules cannot share it: "
          "give each its own with broadcastBuffers(false)",
          variable.name,
          context.replicas);
    }
  }
}

/// Shapes and factors of exchanges between replicas are fixed when the model is built.
void checkReplicas(const ir::Graph& graph, const RuleContext& context) {
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    if (!ops::crossesReplicas(*op.def) && !op.is(ops::kReplicaScatter)) {
      continue;
    }
    const std::int64_t built = op.attrs.integer("replicas");
    if (built != 0 && built != context.replicas) {
      raise<InvalidArgument>(
          "'{}' was built for {} replicas, but replicationFactor is {}: build it for as many",
          op.name,
          built,
          context.replicas);
    }
  }
}

void checkInterleaved(const ExecutionPlan& plan, const RuleContext& context) {
  if (context.rules == IpuRules::Off || !plan.training ||
      plan.schedule.kind != schedule::PipelineKind::Interleaved) {
    return;
  }
  std::vector<std::int32_t> devices = plan.segments.deviceOfStage;
  std::ranges::sort(devices);
  const auto twice = std::ranges::adjacent_find(devices);
  if (twice != devices.end()) {
    raise<InvalidArgument>(
        "training with the interleaved schedule is not supported with several stages on one device "
        "under the IPU's rules: {} stages, more than one on device {}",
        devices.size(),
        *twice);
  }
}

/// What the IPU asks of phases: explicit ones of equal width, parallel ones on devices of their own
/// parity, and only serial ones that leave the devices in between.
void checkPhases(const ExecutionPlan& plan, const Strategy& strategy, const RuleContext& context) {
  if (!isPhased(strategy.kind()) || context.rules == IpuRules::Off) {
    return;
  }
  const bool parallel = strategy.kind() == StrategyKind::ParallelPhased;
  if (strategy.automaticPhases() > 0) {
    raise<InvalidArgument>("{}: under the IPU's rules phases are explicit; got {}",
                           name(strategy.kind()),
                           strategy.str());
  }
  if (parallel && (strategy.liveness() == Liveness::OffChipAfterFwdNoOverlap ||
                   strategy.liveness() == Liveness::OffChipAfterEachPhase)) {
    raise<InvalidArgument>("Liveness.{} is for SerialPhasedExecution only under the IPU's rules",
                           name(strategy.liveness()));
  }
  std::map<std::int32_t, std::size_t> stages;  // by phase
  for (std::size_t s = 0; s < plan.phaseOfStage.size(); ++s) {
    const std::int32_t phase = plan.phaseOfStage[s];
    const std::int32_t device = plan.segments.deviceOfStage[s];
    ++stages[phase];
    if (parallel && device % 2 != phase % 2) {
      raise<InvalidArgument>(
          "phase {} is on device {}: under the IPU's rules even phases run on even devices and odd "
          "phases on odd ones (parity)",
          phase,
          device);
    }
  }
  for (const auto& [phase, count] : stages) {
    if (count != stages.begin()->second) {
      raise<InvalidArgument>(
          "phase 0 has {} stages and phase {} has {}: under the IPU's rules all phases have as "
          "many "
          "stages as a group has devices",
          stages.begin()->second,
          phase,
          count);
    }
  }
}

/// Of the devices that were named or counted out, all that are needed must be there.
void checkSelection(const ExecutionPlan& plan, const RuleContext& context, RuleReport& report) {
  const std::int64_t perReplica = neededDevices(plan.segments.deviceOfStage, 1);
  if (context.selectedDevices > 0 && perReplica > context.selectedPerReplica) {
    raise<InvalidArgument>(
        "the devices were selected for replicas of {}, and a replica of the model takes {}",
        context.selectedPerReplica,
        perReplica);
  }
  const bool named = !context.deviceIds.empty();
  const std::int64_t available = named ? std::ssize(context.deviceIds) : context.selectedDevices;
  if (available == 0) {
    return;
  }
  const std::string_view how = named ? "useDeviceIds names" : "autoSelectDevices selects";
  if (available < report.devices) {
    raise<InvalidArgument>("{} {} devices, the model needs {} for {} replicas",
                           how,
                           available,
                           report.devices,
                           context.replicas);
  }
  if (available > report.devices) {
    report.warnings.push_back(fmt::format("{} {} devices, the model needs {}: {} stay idle",
                                          how,
                                          available,
                                          report.devices,
                                          available - report.devices));
  }
}

void checkIpuIds(const RuleContext& context) {
  for (const std::int32_t id : context.deviceIds) {
    if (context.rules == IpuRules::Enforced && id >= kMaxIpuDevices) {
      raise<InvalidArgument>("useDeviceIds names device {}; there are {}, from 0 to {}",
                             id,
                             kMaxIpuDevices,
                             kMaxIpuDevices - 1);
    }
  }
}

}  // namespace

RuleReport checkPlan(const ir::Graph& graph,
                     const ExecutionPlan& plan,
                     const Strategy& strategy,
                     const RuleContext& context) {
  RuleReport report;
  const auto keep = [&](std::string warning) {
    if (!warning.empty()) {
      report.warnings.push_back(std::move(warning));
    }
  };
  DeviceReservation reserved = reserveDevices(
      neededDevices(plan.segments.deviceOfStage, context.replicas), context.rules, context.roundUp);
  report.devices = reserved.devices;
  keep(std::move(reserved.warning));
  checkIpuIds(context);
  checkSelection(plan, context, report);
  checkInterleaved(plan, context);
  checkBuffers(graph, context);
  checkReplicas(graph, context);
  checkPhases(plan, strategy, context);
  if (plan.pipelined) {
    // Concurrent stages count once.
    keep(checkPipelineLoad({.stages = std::int64_t{plan.slotOfStage.back()} + 1,
                            .microBatches = context.microBatches,
                            .training = plan.training,
                            .continuous = context.continuous,
                            .schedule = strategy.schedule()},
                           context.rules));
  }
  checkSharedWeights(graph, plan, context, report);
  checkMarks(plan, report);
  return report;
}

}  // namespace sluice::parallel
