// The compiler: one function from a traced graph to a verified Program. stages.cpp is the list of
// all that it does, in order. Models, PopART's sessions and the command line use it; it knows no
// Options: compile_plan.h of the api translates them into a CompileRequest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/compile/anchors.h"
#include "sluice/compile/compile_phase.h"
#include "sluice/compile/synthetic_inputs.h"
#include "sluice/compile/training_graph.h"
#include "sluice/device/kernel_table.h"
#include "sluice/ir/graph.h"
#include "sluice/parallel/annotate_phases.h"
#include "sluice/parallel/execution_plan.h"
#include "sluice/parallel/partition.h"
#include "sluice/parallel/plan_rules.h"
#include "sluice/program/lower.h"
#include "sluice/program/state_plan.h"

namespace sluice::compiler {

/// Programs of more tasks are proven only on request: the proof would be over 5 % of compiling.
inline constexpr std::size_t kProvenTasks = 20'000;

/// What turns a forward graph into that of a training step.
struct Training {
  const optim::Optimizer* optimizer = nullptr;
  std::size_t loss = 0;  ///< the output of the graph that is minimised
  TrainingGraphOptions options = {};
};

/// Whom the compiler tells. All may throw, which ends the compilation, and may be empty.
struct CompileHooks {
  std::function<void()> requireGoing = {};  ///< before every stage
  std::function<void(CompilePhase)> onPhase = {};
  /// Takes the graph of a whole step, before the passes.
  std::function<void(const ir::Graph&)> onStep = {};
};

struct CompileRequest {
  ir::Graph graph;                ///< as it was traced
  std::int32_t microBatches = 1;  ///< per round
  std::int32_t replicas = 1;

  // Trace: what is added to the graph.
  std::optional<parallel::AnnotatePhases> phases = {};       ///< set: cut the graph into phases
  std::optional<parallel::PartitionOptions> partition = {};  ///< else, if set, into stages
  std::optional<SyntheticInputs> synthetic = {};
  std::optional<Training> training = {};  ///< not set: the graph is a whole step already
  /// Set: of the graph's outputs these first ones stay, and the anchors follow them.
  std::optional<std::size_t> outputs = {};
  std::vector<NamedTensor> tensors = {};  ///< of the forward pass, that anchors can name
  std::vector<AnchorName> anchors = {};

  // Passes.
  bool fusion = true;
  /// Composites that stay whole because a device has a kernel for them; empty: none.
  std::function<bool(const ir::Op&)> keepComposite = {};

  // Plan.
  parallel::Strategy strategy = parallel::PipelinedExecution();
  bool usesAnnotations = false;      ///< ops of a graph without blocks may say where they run
  bool pipelinesAnnotated = false;   ///< and such a graph follows the strategy; else it is sharded
  parallel::PlanOptions plan = {};   ///< microBatches and annotated are found by the compiler
  parallel::RuleContext rules = {};  ///< so are microBatches and replicas here
  std::vector<std::string> warnings = {};  ///< of the settings; they come with those of the plan

  // Lower and verify.
  /// microBatchesPerRound is found by the compiler; with the devices in `targets`, which all phases
  /// after the passes need.
  program::LowerOptions lower = {};
  program::StatePlan state = {};    ///< of the model's other programs
  std::size_t remoteBytes = 0;      ///< what remote memory may hold; 0: anything
  std::optional<bool> proves = {};  ///< not set: programs of up to kProvenTasks

  CompilePhase last = CompilePhase::Verify;  ///< where to stop
  std::string dumpFolder = {};               ///< empty: no dumps
  CompileHooks hooks = {};
};

/// How long a stage took, over all plans that were tried.
struct StageTime {
  std::string_view name;
  CompilePhase phase = CompilePhase::Trace;
  double seconds = 0;
};

struct Compiled {
  ir::Graph graph;  ///< after the last stage: placed
  program::Program program;
  program::StatePlan state;  ///< the request's, grown by the graph's variables
  parallel::ExecutionPlan plan;
  std::vector<std::string> tensorNames;  ///< of the forward pass, then of the backward pass
  /// Which output has the loss, the graph's own or an anchor; not set: none.
  std::optional<std::size_t> fetchedLoss = {};
  std::vector<std::string> warnings;
  std::int64_t devices = 1;      ///< reserved for all replicas
  bool proven = false;           ///< by program::verify
  std::vector<StageTime> times;  ///< of the stages that ran, in their order
};

/// Throws what the stages throw. An OutOfMemory lists changes of strategy, schedule, recomputation
/// and tensor locations, each of which was planned and fits. After each rewrite of the graph its
/// invariants are verified; a broken one is an InternalError with the stage in its location.
Compiled compileGraph(CompileRequest request);

/// The graph after all passes, for who needs no more.
ir::Graph runPasses(ir::Graph graph, bool fusion = true);

}  // namespace sluice::compiler
