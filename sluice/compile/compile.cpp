#include "sluice/compile/compile.h"

#include <array>
#include <utility>

#include "sluice/compile/fit_plan.h"
#include "sluice/compile/runner.h"
#include "sluice/compile/stages.h"
#include "sluice/program/host_ops.h"
#include "sluice/program/text_form.h"

namespace sluice::compiler {
namespace {

std::vector<std::string> warningsOf(const Compilation& made) {
  std::vector<std::string> all = made.report.warnings;
  all.insert(all.end(), made.request.warnings.begin(), made.request.warnings.end());
  all.insert(all.end(), made.warnings.begin(), made.warnings.end());
  const std::vector<std::string> hostOps = program::hostOpWarnings(made.program);
  all.insert(all.end(), hostOps.begin(), hostOps.end());
  return all;
}

Compiled resultOf(Compilation made, const Runner& runner) {
  std::vector<std::string> warnings = warningsOf(made);
  return {.graph = std::move(made.graph),
          .program = std::move(made.program),
          .state = std::move(made.state),
          .plan = made.draft ? std::move(made.draft->plan) : parallel::ExecutionPlan(),
          .tensorNames = std::move(made.tensorNames),
          .fetchedLoss = made.fetchedLoss,
          .warnings = std::move(warnings),
          .devices = made.report.devices,
          .proven = made.proven,
          .times = runner.times()};
}

}  // namespace

std::string_view name(CompilePhase phase) {
  static constexpr std::array<std::string_view, kCompilePhases> kNames = {
      "trace", "passes", "plan", "lower", "verify", "load"};
  return kNames[static_cast<std::size_t>(phase)];
}

Compiled compileGraph(CompileRequest request) {
  Runner runner(compileStages(), request.hooks, request.dumpFolder);
  runner.select(request.dumps);
  Compilation step(request);
  runner.run(step, CompilePhase::Trace, std::min(request.last, CompilePhase::Passes));
  if (request.last <= CompilePhase::Passes) {
    return resultOf(std::move(step), runner);
  }
  if (request.last == CompilePhase::Plan) {
    return resultOf(planFirst(step, runner), runner);
  }
  Compilation made = fitPlan(step, runner);
  runner.run(made, CompilePhase::Verify, request.last);
  if (!request.dumpFolder.empty() && request.dumps.has("program")) {  // large constants: seconds
    runner.dump("program.txt", program::print(made.program));
    runner.dump("program_records.txt", program::toText(made.program));
  }
  return resultOf(std::move(made), runner);
}

struct PassedGraph::Parts {
  explicit Parts(CompileRequest given)
      : request(std::move(given)),
        runner(compileStages(), request.hooks, request.dumpFolder),
        step(request) {
    runner.run(step, CompilePhase::Trace, CompilePhase::Passes);
  }

  CompileRequest request;
  Runner runner;
  Compilation step;  ///< refers to the request
};

PassedGraph::PassedGraph(CompileRequest request)
    : parts_(std::make_unique<Parts>(std::move(request))) {}
PassedGraph::~PassedGraph() = default;

program::Program PassedGraph::planned(const parallel::Strategy& strategy,
                                      const parallel::PlanOptions& plan,
                                      std::size_t memoryPerDevice) {
  parts_->request.strategy = strategy;
  parts_->request.plan = plan;
  parts_->step.lower.memoryPerDevice = memoryPerDevice;
  return fitPlan(parts_->step, parts_->runner).program;
}

ir::Graph runPasses(ir::Graph graph, bool fusion) {
  CompileRequest request{.graph = std::move(graph), .fusion = fusion, .last = CompilePhase::Passes};
  return compileGraph(std::move(request)).graph;
}

}  // namespace sluice::compiler
