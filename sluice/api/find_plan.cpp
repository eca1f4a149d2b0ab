// Model::findPlan: the trials of a search are plans of the compiler, simulated on the model's
// devices.
#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/model_core.h"
#include "sluice/api/plan_search.h"
#include "sluice/base/error.h"
#include "sluice/compile/compile.h"
#include "sluice/nn/block.h"
#include "sluice/program/memory_plan.h"
#include "sluice/runtime/sim_bound.h"
#include "sluice/runtime/simulator.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostDevices = 64;

/// The kind of work of a segment, if a drawing shows it.
std::optional<schedule::WorkKind> workOf(const program::Segment& segment) {
  switch (segment.kind) {
    case parallel::SegmentKind::Forward:
      return schedule::WorkKind::Forward;
    case parallel::SegmentKind::Backward:
      return schedule::WorkKind::Backward;
    case parallel::SegmentKind::BackwardInput:
      return schedule::WorkKind::BackwardInput;
    case parallel::SegmentKind::BackwardWeight:
      return schedule::WorkKind::BackwardWeight;
    default:
      return std::nullopt;
  }
}

/// What each device computes and when, in nanoseconds.
std::vector<std::vector<schedule::Work>> timelineOf(const program::Program& program,
                                                    const runtime::SimRun& run) {
  std::vector<std::vector<schedule::Work>> timeline(program.devices.size());
  for (const runtime::TaskTime& time : run.nanoseconds()) {
    const program::Lane& lane = program.lanes[static_cast<std::size_t>(time.lane)];
    const program::Task& task = lane.tasks[static_cast<std::size_t>(time.task)];
    if (lane.kind != program::LaneKind::Compute || task.kind != program::TaskKind::Run ||
        time.replica != 0 || time.round != 0) {
      continue;
    }
    const program::Segment& segment = program.segments[static_cast<std::size_t>(task.subject)];
    if (const auto kind = workOf(segment)) {
      timeline[static_cast<std::size_t>(lane.device)].push_back(
          {*kind, segment.stage, task.microBatch, time.start, time.end});
    }
  }
  return timeline;
}

Plan planOf(const PlanChoice& choice,
            const program::Program& program,
            const runtime::SimRun& run,
            std::int32_t replicas) {
  Plan plan{.choice = choice, .seconds = run.seconds(), .remoteBytes = program.remote.totalBytes()};
  plan.busy.resize(program.devices.size());
  for (std::size_t l = 0; l < program.lanes.size(); ++l) {
    if (program.lanes[l].kind == program::LaneKind::Compute) {
      plan.busy[static_cast<std::size_t>(program.lanes[l].device)] +=
          static_cast<double>(run.laneTicks[l]) /
          (static_cast<double>(run.ticksPerSecond) * replicas);
    }
  }
  for (const program::DevicePlan& device : program.devices) {
    plan.devices.push_back({device.stateBytes, device.transientBytes, device.ownBytes});
  }
  plan.timeline = timelineOf(program, run);
  return plan;
}

/// The fastest plan that only memory forbids.
void addMoreMemory(PlanReport& report) {
  const TriedPlan* fastest = nullptr;
  for (const TriedPlan& tried : report.tried) {
    const bool faster = !report.best || tried.seconds < report.best->seconds;
    if (tried.outcome == PlanOutcome::TooLarge && tried.seconds > 0 && faster &&
        (fastest == nullptr || tried.seconds < fastest->seconds)) {
      fastest = &tried;
    }
  }
  if (fastest != nullptr) {
    report.changes.push_back(
        {fmt::format(
             "with {} bytes of memory per device: {}", fastest->largest, fastest->choice.str()),
         fastest->seconds});
  }
}

}  // namespace

/// Plans and simulates a model as choices say. Graphs that are cut alike are prepared once.
class ModelCore::PlanTrials {
 public:
  PlanTrials(const ModelCore& model, const Signature& signature, const BatchLayout& layout)
      : model_(model), signature_(signature), layout_(layout) {}

  /// Within so many bytes per device; 0: any number. Throws what compiling throws.
  Trial plan(const PlanChoice& choice, std::size_t budget) {
    Options tried = model_.options_;
    choice.applyTo(tried);
    tried.memoryPerDevice(budget);
    BatchLayout layout = layout_;
    if (choice.replicas > 1) {
      layout = BatchLayout::of(tried, model_.training() ? RunKind::Training : RunKind::Inference);
      layout.microBatch = layout_.microBatch;
    }
    const std::string cut = cutOf(choice, budget);
    const auto known = passed_.find(cut);
    compiler::PassedGraph& passed =
        known != passed_.end() ? *known->second : pass(cut, tried, layout);
    const compiler::CompileRequest settings = compileRequest(ir::Graph("none"), 1, {}, tried);
    const program::Program program = passed.planned(settings.strategy, settings.plan, budget);
    const auto replicas = static_cast<std::int32_t>(layout.replicationFactor);
    const std::int32_t rounds = model_.rounds(layout);
    const Session& session = model_.alive();
    Trial trial{PlanOutcome::Fits,
                planOf(choice, program, session.simulatedRun(program, rounds, replicas), replicas),
                ""};
    if (choice.recomputation == Recomputation::None) {
      const runtime::SimBound bound = session.simulatedBound(program);
      const auto hertz = static_cast<double>(session.virtualHertz());
      trial.work = static_cast<double>(bound.work) * rounds * replicas / hertz;
      trial.chain = static_cast<double>(bound.chain) / hertz;
    }
    return trial;
  }

 private:
  compiler::CompileRequest requestOf(const Options& tried, const BatchLayout& layout) const {
    TracedGraph traced = model_.graphFor(signature_);
    nn::requireLiveBlocks(traced.graph);
    return model_.requestOf(traced, layout, tried);
  }

  compiler::PassedGraph& pass(const std::string& cut,
                              const Options& tried,
                              const BatchLayout& layout) {
    constexpr std::size_t kMostKept = 6;  // trials with one cut follow each other
    if (passed_.size() >= kMostKept) {
      passed_.clear();
    }
    return *passed_.emplace(cut, model_.alive().passed(requestOf(tried, layout))).first->second;
  }

  /// What of a choice decides how the graph is cut, before anything is planned.
  static std::string cutOf(const PlanChoice& choice, std::size_t budget) {
    const Strategy& strategy = choice.strategy;
    const bool severalStages = strategy.stagesPerDevice() > 1;  // the schedule says where they are
    return fmt::format("{} {} {} {} {} [{}] {} {}",
                       name(strategy.kind()),
                       strategy.automaticPhases(),
                       strategy.automaticDevices(),
                       strategy.stagesPerDevice(),
                       severalStages ? schedule::name(strategy.schedule()) : "",
                       fmt::join(strategy.shares(), ","),
                       budget,
                       choice.replicas);
  }

  const ModelCore& model_;
  const Signature& signature_;
  const BatchLayout& layout_;
  std::map<std::string, std::unique_ptr<compiler::PassedGraph>, std::less<>> passed_;  // by cut
};

PlanReport ModelCore::findPlan(std::span<const TensorType> inputs, const PlanSettings& settings) {
  using Clock = std::chrono::steady_clock;
  const runtime::Turn::Hold turn = enter();
  requireSimulatedDevices();
  if (settings.devices < 1 || settings.devices > kMostDevices) {
    raise<InvalidArgument>(
        "findPlan: expected 1 to {} devices, got {}", kMostDevices, settings.devices);
  }
  const Signature signature = arranged(inputs);
  requireSameKind(signature);
  requireRows(signature);
  BatchLayout layout = layout_;
  layout.microBatch = rowsOf(signature);
  const bool sharesOut = settings.replicas && layout.replicationFactor == 1;
  const PlanSpace space{.devices = settings.devices,
                        .training = training(),
                        .budget = alive().memoryBudget(),
                        .shared = !sharesOut   ? 1
                                  : training() ? layout.gradientAccumulation
                                               : layout.deviceIterations,
                        .constantWeights = hasConstantWeights()};
  PlanReport report{.target = alive().simulatedOn(),
                    .devices = space.devices,
                    .memoryPerDevice = space.budget,
                    .microBatches = layout.microBatches(),
                    .training = space.training};
  static_cast<void>(graphFor(signature));  // a wrong model is an error
  PlanTrials trials(*this, signature, layout);
  const auto tryPlan = [&](const PlanChoice& choice, std::size_t budget) {
    alive().requireGoing();
    try {
      return trials.plan(choice, budget);
    } catch (const OutOfMemory&) {
      return Trial{.outcome = PlanOutcome::TooLarge};
    } catch (const Cancelled&) {
      throw;
    } catch (const InternalError&) {
      throw;
    } catch (const Error& error) {
      return Trial{.outcome = PlanOutcome::Impossible, .reason = error.message()};
    }
  };
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(std::clamp(settings.seconds, 0.0, 1e6)));
  const auto used = [&] {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    return settings.seconds > 0 ? 1 - left / settings.seconds : 1.0;
  };
  const auto stopped = [&] { return settings.stop && settings.stop(); };
  searchPlans(space,
              tryPlan,
              static_cast<double>(alive().simulatedParallel(space.devices)),
              {.exhaustive = settings.exhaustive,
               .usedTime = used,
               .progress = settings.progress,
               .stop = stopped},
              report);
  addMoreMemory(report);
  if (report.best && space.devices < kMostDevices) {
    const auto tryMore = [&](const PlanChoice& choice) {
      return used() < 1 && !stopped() ? tryPlan(choice, space.budget) : Trial{};
    };
    addOneMoreDevice(space, tryMore, report);
  }
  return report;
}

}  // namespace sluice
