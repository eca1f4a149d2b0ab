// The rules of a finished plan: how many devices it takes, whether its micro-batches fill the
// pipeline, which weights several devices share, and which buffers several replicas share. What the
// IPU cannot do is an error if its rules are enforced; otherwise it gives a warning if it costs
// time or bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/parallel/device_rules.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/parallel/strategy.h"

namespace sluice::parallel {

struct RuleContext {
  IpuRules rules = IpuRules::Off;
  RoundUp roundUp = RoundUp::No;
  std::int64_t replicas = 1;
  std::int64_t microBatches = 1;             ///< per round
  bool continuous = false;                   ///< weights are updated without draining the pipeline
  std::vector<std::int32_t> deviceIds = {};  ///< devices of the machine; empty: any
  std::int64_t selectedDevices = 0;          ///< 0: as many as the plan needs
  std::int64_t selectedPerReplica = 1;       ///< of the selected devices
  bool sharedBuffers = false;                ///< replicas share their buffers
};

struct RuleReport {
  std::int64_t devices = 1;  ///< reserved for all replicas
  std::vector<std::string> warnings;
};

/// Throws InvalidArgument for a plan that breaks an enforced rule; the message states what was
/// found and what is allowed. `graph` is the placed graph of the plan.
RuleReport checkPlan(const ir::Graph& graph,
                     const ExecutionPlan& plan,
                     const Strategy& strategy,
                     const RuleContext& context);

}  // namespace sluice::parallel
