// The compiler: one function from a traced graph to a verified Program. stages.cpp lists all its
// stages, in order. Models, PopART's sessions and the command line use it. It does not know
// Options: compile_plan.h of the api translates them into a CompileRequest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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
#include "sluice/parallel/plan_rules.h"
#include "sluice/parallel/strategy.h"
#include "sluice/program/lower.h"
#include "sluice/program/state_plan.h"

namespace sluice::compiler {

/// Larger programs are proven only on request: the proof would take over 5 % of the compile time.
inline constexpr std::size_t kProvenTasks = 20'000;

/// What turns a forward graph into the graph of a training step.
struct Training {
  const optim::Optimizer* optimizer = nullptr;
  std::size_t loss = 0;  ///< the output of the graph that is minimised
  TrainingGraphOptions options = {};
};

/// Functions that the compiler calls. Any may be empty; if one throws, the compilation ends.
struct CompileHooks {
  std::function<void()> requireGoing = {};  ///< called before every stage
  std::function<void(CompilePhase)> onPhase = {};
  /// Receives the graph of a whole step, before the passes.
  std::function<void(const ir::Graph&)> onStep = {};
};

/// Which dumps are written, and how.
struct DumpSelection {
  std::vector<std::string> points = {};  ///< names of stages, or "program"; empty: all
  bool dot = false;                      ///< graphs are also drawn, for Graphviz

  bool has(std::string_view point) const {
    return points.empty() || std::ranges::find(points, point) != points.end();
  }
};

struct CompileRequest {
  ir::Graph graph;                ///< as it was traced
  std::int32_t microBatches = 1;  ///< per round
  std::int32_t replicas = 1;

  // Trace: additions to the graph.
  std::optional<parallel::AnnotatePhases> phases = {};       ///< if set, cuts the graph into phases
  std::optional<parallel::PartitionOptions> partition = {};  ///< else, if set, into stages
  std::optional<SyntheticInputs> synthetic = {};
  std::optional<Training> training = {};  ///< not set: the graph is already a whole step
  /// If set, only this many of the graph's first outputs stay, and the anchors follow them.
  std::optional<std::size_t> outputs = {};
  std::vector<NamedTensor> tensors = {};  ///< tensors of the forward pass that anchors can name
  std::vector<AnchorName> anchors = {};

  // Passes.
  bool foldBatchNorm = false;  ///< changes results: products of constant weights take their norms
  bool fusion = true;
  bool numbersNames = false;  ///< tells ops of one name apart: their values are traced
  /// Says which composites stay whole because a device has a kernel for them; empty: none.
  std::function<bool(const ir::Op&)> keepComposite = {};

  // Plan.
  parallel::Strategy strategy = parallel::PipelinedExecution();
  bool usesAnnotations = false;      ///< ops of a graph without blocks may choose their place
  bool pipelinesAnnotated = false;   ///< such a graph follows the strategy; otherwise it is sharded
  parallel::PlanOptions plan = {};   ///< the compiler sets microBatches and annotated
  parallel::RuleContext rules = {};  ///< the compiler sets microBatches and replicas
  std::vector<std::string> warnings = {};  ///< about the settings; returned with those of the plan

  // Lower and verify.
  /// The compiler sets microBatchesPerRound. `targets` must name the devices, which all phases
  /// after the passes need.
  program::LowerOptions lower = {};
  program::StatePlan state = {};    ///< from the model's other programs
  std::size_t remoteBytes = 0;      ///< capacity of remote memory; 0: not limited
  bool proposes = true;             ///< an OutOfMemory lists changes that fit
  std::optional<bool> proves = {};  ///< whether to prove; not set: up to kProvenTasks tasks

  /// The last phase to run. If it is Plan, nothing is lowered, so the plan may exceed the budget.
  CompilePhase last = CompilePhase::Verify;
  std::string dumpFolder = {};  ///< empty: no dumps
  DumpSelection dumps = {};
  CompileHooks hooks = {};
};

/// The time of a stage, over all plans that were tried.
struct StageTime {
  std::string_view name;
  CompilePhase phase = CompilePhase::Trace;
  double seconds = 0;
};

struct Compiled {
  ir::Graph graph;  ///< after the last stage: placed
  program::Program program;
  program::StatePlan state;  ///< that of the request, with the graph's variables added
  parallel::ExecutionPlan plan;
  std::vector<std::string> tensorNames;  ///< of the forward pass, then of the backward pass
  /// The output that is the loss, either the graph's own or an anchor; not set: none.
  std::optional<std::size_t> fetchedLoss = {};
  std::vector<std::string> warnings;
  std::int64_t devices = 1;      ///< reserved for all replicas
  bool proven = false;           ///< by program::verify
  std::vector<StageTime> times;  ///< of the stages that ran, in order
};

/// Throws what the stages throw. An OutOfMemory lists changes of strategy, schedule, recomputation
/// and tensor locations; each of them was planned and fits. The graph is verified after each
/// rewrite; a broken invariant is an InternalError whose location names the stage.
Compiled compileGraph(CompileRequest request);

/// One graph, planned in several ways: what comes before planning is done once.
class PassedGraph {
 public:
  /// Runs the passes. Throws what they throw.
  explicit PassedGraph(CompileRequest request);
  ~PassedGraph();
  PassedGraph(const PassedGraph&) = delete;
  PassedGraph& operator=(const PassedGraph&) = delete;

  /// The program that compileGraph would make, not proven, of a request that differs from the first
  /// one in nothing but strategy, plan and memoryPerDevice.
  program::Program planned(const parallel::Strategy& strategy,
                           const parallel::PlanOptions& plan,
                           std::size_t memoryPerDevice);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Returns the graph after all passes, for callers that need no more.
ir::Graph runPasses(ir::Graph graph, bool fusion = true);

}  // namespace sluice::compiler
