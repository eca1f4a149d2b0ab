// All that happens between a traced graph and a verified Program. What a stage does stands in the
// module it calls; here is only what it reads and writes of the Compilation.
#include "sluice/compile/stages.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sluice/base/log.h"
#include "sluice/compile/print_plan.h"
#include "sluice/compile/tracked_gradients.h"
#include "sluice/compile/weight_parts.h"
#include "sluice/ops/control_ops.h"
#include "sluice/parallel/continuous.h"
#include "sluice/parallel/relay.h"
#include "sluice/program/verify.h"
#include "sluice/transforms/bodies.h"
#include "sluice/transforms/decompose.h"
#include "sluice/transforms/eliminate_common.h"
#include "sluice/transforms/eliminate_dead.h"
#include "sluice/transforms/fold_batch_norm.h"
#include "sluice/transforms/fold_constants.h"
#include "sluice/transforms/fuse_elementwise.h"
#include "sluice/transforms/gather_early.h"
#include "sluice/transforms/half_scores.h"
#include "sluice/transforms/number_names.h"
#include "sluice/transforms/shard_updates.h"
#include "sluice/transforms/shard_weights.h"

namespace sluice::compiler {
namespace {

// --- trace: the graph of a whole step ---

bool cutsPhases(const Compilation& c) {
  return c.request.phases.has_value();
}

void annotatePhases(Compilation& c) {
  parallel::annotatePhases(c.graph, *c.request.phases);
}

bool cutsStages(const Compilation& c) {
  return c.request.partition && !cutsPhases(c);
}

void annotateStages(Compilation& c) {
  parallel::PartitionOptions options = *c.request.partition;
  if (c.request.training) {
    options.loss = c.graph.outputs()[c.request.training->loss].value;
  }
  parallel::annotateStages(c.graph, options);
}

bool hasAnchors(const Compilation& c) {
  return c.request.outputs.has_value();
}

void takeAnchors(Compilation& c, std::span<const NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    c.tensorNames.push_back(tensor.name);
  }
  addAnchors(c.graph, tensors, c.request.anchors);
}

bool tracksTensors(const Compilation& c) {
  return c.request.training && c.request.training->options.automaticLossScaling &&
         !c.request.training->options.automaticLossScaling->toTrackTensors.empty();
}

bool namesTensors(const Compilation& c) {
  return hasAnchors(c) || tracksTensors(c);
}

/// Named tensors become outputs, so that they still exist when the graph is differentiated.
void anchorForward(Compilation& c) {
  if (hasAnchors(c)) {
    takeAnchors(c, c.request.tensors);
  }
  if (tracksTensors(c)) {
    const optim::LossScalingOptions& options = *c.request.training->options.automaticLossScaling;
    for (const NamedTensor& tensor : trackedTensors(c.graph, c.request.tensors, options)) {
      c.graph.addOutput(fmt::format("tracked/{}/{}", c.tracked.size(), tensor.name), tensor.value);
      c.tracked.push_back(tensor.name);
    }
  }
}

/// Takes the tensors to track from the outputs.
std::vector<NamedTensor> takeTracked(Compilation& c) {
  std::vector<ir::Output> outputs(c.graph.outputs().begin(), c.graph.outputs().end());
  const std::size_t own = outputs.size() - c.tracked.size();
  std::vector<NamedTensor> tracked;
  for (std::size_t i = 0; i < c.tracked.size(); ++i) {
    tracked.push_back({c.tracked[i], outputs[own + i].value});
  }
  if (!tracked.empty()) {
    outputs.resize(own);
    c.graph.setOutputs(std::move(outputs));
    c.tracked.clear();
  }
  return tracked;
}

bool isSynthetic(const Compilation& c) {
  return c.request.synthetic.has_value();
}

void makeInputsSynthetic(Compilation& c) {
  replaceInputs(c.graph, *c.request.synthetic);
}

bool trains(const Compilation& c) {
  return c.request.training.has_value();
}

/// Loud where another output might have been meant.
void logMinimised(const ir::Graph& graph, std::size_t minimised) {
  const ir::Output& loss = graph.outputs()[minimised];
  const ir::Op& made = graph.op(loss.value.op);
  const bool doubtful = std::ranges::any_of(graph.outputs(), [&](const ir::Output& output) {
    const TensorType& type = graph.type(output.value);
    return output.value != loss.value && isFloat(type.dtype) && type.shape.rank() == 0;
  });
  constexpr std::string_view kText = "'{}' minimises '{}', which {} '{}' makes";
  if (doubtful) {
    log::info("model", kText, graph.name(), loss.name, made.def->name, made.name);
  } else {
    log::debug("model", kText, graph.name(), loss.name, made.def->name, made.name);
  }
}

/// The tables of the model's devices, each once; none where the passes are all that is asked for.
std::vector<const device::KernelTable*> tablesOf(const Compilation& c) {
  std::vector<const device::KernelTable*> tables;
  for (const program::Target& target : c.lower.targets) {
    if (std::ranges::find(tables, target.kernels) == tables.end()) {
      tables.push_back(target.kernels);
    }
  }
  return tables;
}

bool isSupported(const ir::Graph& graph, const ir::Op& op, const device::KernelTable& table) {
  const std::vector<TensorType> types = graph.inputTypes(op);
  return table.supports(ir::view(op, types));
}

/// Composites stay whole that all kinds of devices can run as they are: which device runs an op may
/// not change its bits.
bool staysWhole(const Compilation& c, const ir::Graph& graph, const ir::Op& op) {
  const std::vector<const device::KernelTable*> tables = tablesOf(c);
  return tables.empty() ? op.def->reference != nullptr
                        : std::ranges::all_of(tables, [&](const device::KernelTable* table) {
                            return isSupported(graph, op, *table);
                          });
}

/// Composites are differentiated through their parts, but those that have a gradient of their own
/// and stay whole. The loss keeps its place among the outputs.
void decomposeAll(Compilation& c) {
  if (c.request.last > CompilePhase::Plan) {  // a graph that is only checked is compiled again
    logMinimised(c.graph, c.request.training->loss);
  }
  transforms::readHalfScores(c.graph, [&](const ir::OpView& op) {
    const std::vector<const device::KernelTable*> tables = tablesOf(c);
    return !tables.empty() &&
           std::ranges::all_of(tables, [&](const auto* table) { return table->supports(op); });
  });
  transforms::inAllGraphs(c.graph, [&](ir::Graph& graph) {
    return transforms::decompose(graph, [&](const ir::Op& op) {
      return ops::isControlFlow(*op.def) || (op.def->grad != nullptr && staysWhole(c, graph, op));
    });
  });
}

/// A group that no variable of the graph belongs to is likely a name that is spelt in another way.
void warnOfEmptyGroups(const ir::Graph& graph,
                       const optim::Optimizer& optimizer,
                       std::vector<std::string>& warnings) {
  for (std::size_t group = 1; group < optimizer.numGroups(); ++group) {
    if (std::ranges::none_of(graph.variables(), [&](const ir::Variable& variable) {
          return optimizer.groupOf(variable.name) == group;
        })) {
      warnings.push_back(fmt::format(
          "parameter group {} of {} has no weights: the model has none that its filter accepts and "
          "that no later group takes; Model::variables() lists their names",
          group,
          optimizer.name()));
    }
  }
}

void differentiate(Compilation& c) {
  const Training& training = *c.request.training;
  warnOfEmptyGroups(c.graph, *training.optimizer, c.warnings);
  const std::vector<NamedTensor> tracked = takeTracked(c);
  c.gradients = differentiateLoss(c.graph,
                                  c.graph.outputs()[training.loss].value,
                                  *training.optimizer,
                                  training.options,
                                  tracked);
}

void expandOptimizer(Compilation& c) {
  const Training& training = *c.request.training;
  addUpdate(c.graph, *c.gradients, *training.optimizer, training.options);
}

void gatherEarly(Compilation& c) {
  transforms::gatherEarly(c.graph, c.gradients->end);
}

bool anchorsGradients(const Compilation& c) {
  return trains(c) && hasAnchors(c);
}

void anchorBackward(Compilation& c) {
  std::vector<NamedTensor> tensors = namedTensors(c.graph, ir::Pass::Backward);
  for (const WeightGradient& gradient : c.gradients->perMicroBatch) {
    tensors.push_back({"Gradient___" + gradient.variable, gradient.value});
  }
  takeAnchors(c, tensors);
}

void chooseOutputs(Compilation& c) {
  std::optional<ir::Value> loss;
  if (c.request.training) {
    loss = c.graph.outputs()[c.request.training->loss].value;
  }
  keepOutputs(c.graph, *c.request.outputs, c.request.anchors);
  const auto outputs = c.graph.outputs();
  const auto found = loss ? std::ranges::find(outputs, *loss, &ir::Output::value) : outputs.end();
  if (found != outputs.end()) {
    c.fetchedLoss = static_cast<std::size_t>(found - outputs.begin());
  }
}

void reportStep(Compilation& c) {
  c.gradients.reset();
  if (c.request.hooks.onStep) {
    c.request.hooks.onStep(c.graph);
  }
}

// --- passes: everything that may change a rounding happens before their end ---

void shardWeights(Compilation& c) {
  transforms::shardWeights(c.graph,
                           weightsInParts(c.graph,
                                          c.request.state,
                                          c.request.plan.locations.weight,
                                          c.request.replicas,
                                          c.warnings),
                           c.request.replicas);
}

/// They had parts only to be differentiated through. Names are told apart before, because devices
/// may keep other composites, and after, because a composite may have several parts of one kind.
void decompose(Compilation& c) {
  const auto numberNames = [&] {
    if (c.request.numbersNames) {
      transforms::numberNames(c.graph);
    }
  };
  numberNames();
  transforms::inAllGraphs(c.graph, [&](ir::Graph& graph) {
    return transforms::decompose(graph, [&](const ir::Op& op) {
      return staysWhole(c, graph, op) || (c.request.keepComposite && c.request.keepComposite(op));
    });
  });
  numberNames();
}

/// Groups that some kind of device can run. Where others cannot they are taken apart again, once it
/// is known what runs where; that changes no bit.
template <bool (*kFuse)(ir::Graph&, transforms::Accepts)>
void fuse(Compilation& c) {
  const std::vector<const device::KernelTable*> tables = tablesOf(c);
  const auto accepts = [&](const ir::OpView& op, const ir::Placement&) {
    return tables.empty() || std::ranges::any_of(tables, [&](const device::KernelTable* table) {
             return table->supports(op);
           });
  };
  transforms::inAllGraphs(c.graph, [&](ir::Graph& graph) { return kFuse(graph, accepts); });
}

/// A pass that needs no settings; it also runs inside loops and branches.
template <bool (*kPass)(ir::Graph&)>
void plain(Compilation& c) {
  transforms::inAllGraphs(c.graph, kPass);
}

bool foldsNorms(const Compilation& c) {
  return c.request.foldBatchNorm;
}

bool fuses(const Compilation& c) {
  return c.request.fusion;
}

// --- plan: where and when everything runs; tried again with other settings if it does not fit ---

void place(Compilation& c) {
  for (const program::PlacedVariable& placed : c.state.variables()) {
    if (placed.device != program::kRemote) {
      c.draft->plan.homes.emplace(placed.variable.name, placed.device);
    }
  }
  parallel::placeOps(c.graph, *c.draft);
}

bool isContinuous(const Compilation& c) {
  return c.draft->options.continuous;
}

void updateContinuously(Compilation& c) {
  parallel::updateContinuously(c.graph);
}

bool relaysCopies(const Compilation& c) {
  return c.draft->schedule == parallel::PipelineKind::Popart;
}

void relayCopies(Compilation& c) {
  parallel::relayCopies(c.graph, c.draft->deviceOfStage);
}

bool recomputes(const Compilation& c) {
  return c.draft->plan.recomputed;
}

void recompute(Compilation& c) {
  parallel::recompute(c.graph, *c.draft);
}

bool hasSeveralKinds(const Compilation& c) {
  return tablesOf(c).size() > 1;
}

/// What the device of an op has no kernel for is replaced by its parts.
void fitKernels(Compilation& c) {
  const auto tableOf = [&](const ir::Placement& place) -> const device::KernelTable& {
    return *c.lower.target(std::max(0, place.device)).kernels;
  };
  const bool changed = transforms::decompose(
      c.graph, [&](const ir::Op& op) { return isSupported(c.graph, op, tableOf(op.place)); });
  if (changed && c.request.fusion) {  // without the anchor that was too much for the device
    transforms::fuseElementwiseIf(c.graph, [&](const ir::OpView& op, const ir::Placement& place) {
      return tableOf(place).supports(op);
    });
  }
}

void stream(Compilation& c) {
  parallel::planStreaming(c.graph, *c.draft);
}

void cut(Compilation& c) {
  parallel::cutStages(c.graph, *c.draft);
}

void schedule(Compilation& c) {
  parallel::scheduleRound(*c.draft);
}

bool checksRules(const Compilation& c) {
  return c.checksRules;
}

void checkRules(Compilation& c) {
  const parallel::PlanDraft& draft = *c.draft;
  parallel::RuleContext context = c.request.rules;
  context.replicas = c.request.replicas;
  context.microBatches = c.request.microBatches;
  context.continuous = c.request.plan.continuous && draft.plan.training;
  c.report = parallel::checkPlan(c.graph, draft.plan, draft.strategy, context);
}

// --- lower and verify ---

program::Placed placed(const Compilation& c) {
  const parallel::ExecutionPlan& plan = c.draft->plan;
  return {.graph = c.graph,
          .segments = plan.segments,
          .homes = plan.homes,
          .schedule = plan.schedule,
          .streaming = plan.streaming};
}

void emit(Compilation& c) {
  c.lower.microBatchesPerRound = c.request.microBatches;
  c.lower.sequential = c.draft->plan.sequential;
  c.unplaced = program::emitKernels(placed(c), c.state, c.lower);
}

void planMemory(Compilation& c) {
  c.program = program::planMemory(placed(c), *c.unplaced, c.lower);
  c.state = std::move(c.unplaced->state);
  c.unplaced.reset();
}

bool proves(const Compilation& c) {
  std::size_t tasks = 0;
  for (const program::Lane& lane : c.program.lanes) {
    tasks += lane.tasks.size();
  }
  return c.request.proves.value_or(tasks <= kProvenTasks);
}

void verify(Compilation& c) {
  program::verify(c.program);
  c.proven = true;
}

// --- the list ---

using When = bool (*)(const Compilation&);
using Run = void (*)(Compilation&);
using Show = std::string (*)(const Compilation&);

constexpr CompileStage pass(std::string_view name, Run run, When applies = nullptr) {
  return {name, CompilePhase::Passes, CompileStageKind::Pass, run, applies};
}

constexpr CompileStage rewrite(std::string_view name,
                               CompilePhase phase,
                               Run run,
                               When applies = nullptr) {
  return {name, phase, CompileStageKind::Rewrite, run, applies};
}

constexpr CompileStage step(
    std::string_view name, CompilePhase phase, Run run, When applies, Show show = nullptr) {
  return {name, phase, CompileStageKind::Step, run, applies, show};
}

constexpr When kAlways = nullptr;

constexpr std::array kStages = {
    rewrite("annotate_phases", CompilePhase::Trace, annotatePhases, cutsPhases),
    rewrite("annotate_stages", CompilePhase::Trace, annotateStages, cutsStages),
    rewrite("anchor_forward", CompilePhase::Trace, anchorForward, namesTensors),
    rewrite("synthetic_inputs", CompilePhase::Trace, makeInputsSynthetic, isSynthetic),
    rewrite("decompose_all", CompilePhase::Trace, decomposeAll, trains),
    rewrite("differentiate", CompilePhase::Trace, differentiate, trains),
    rewrite("optimizer", CompilePhase::Trace, expandOptimizer, trains),
    rewrite("gather_early", CompilePhase::Trace, gatherEarly, trains),
    rewrite("anchor_backward", CompilePhase::Trace, anchorBackward, anchorsGradients),
    rewrite("outputs", CompilePhase::Trace, chooseOutputs, hasAnchors),
    step("step", CompilePhase::Trace, reportStep, kAlways),

    rewrite("shard_weights", CompilePhase::Passes, shardWeights),
    pass("fold_batch_norm", plain<transforms::foldBatchNorm>, foldsNorms),
    pass("decompose", decompose),
    pass("shard_updates", plain<transforms::shardUpdates>),
    pass("fold_constants", plain<transforms::foldConstants>),
    pass("eliminate_common", plain<transforms::eliminateCommon>),
    pass("eliminate_dead", plain<transforms::eliminateDead>),
    pass("fuse_elementwise", fuse<transforms::fuseElementwiseIf>, fuses),
    pass("fuse_epilogues", fuse<transforms::fuseEpiloguesIf>, fuses),
    pass("eliminate_dead", plain<transforms::eliminateDead>, fuses),  // moved into bodies

    rewrite("place", CompilePhase::Plan, place),
    rewrite("continuous_updates", CompilePhase::Plan, updateContinuously, isContinuous),
    rewrite("relay_copies", CompilePhase::Plan, relayCopies, relaysCopies),
    rewrite("recompute", CompilePhase::Plan, recompute, recomputes),
    rewrite("fit_kernels", CompilePhase::Plan, fitKernels, hasSeveralKinds),
    step("stream", CompilePhase::Plan, stream, kAlways),
    step("cut", CompilePhase::Plan, cut, kAlways, printSegments),
    step("schedule", CompilePhase::Plan, schedule, kAlways, printSchedule),
    step("check_rules", CompilePhase::Plan, checkRules, checksRules),

    step("emit", CompilePhase::Lower, emit, kAlways),
    step("plan_memory", CompilePhase::Lower, planMemory, kAlways, printMemory),
    step("verify", CompilePhase::Verify, verify, proves),
};

}  // namespace

std::span<const CompileStage> compileStages() {
  return kStages;
}

}  // namespace sluice::compiler
