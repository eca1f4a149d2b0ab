#include "cli/plan_output.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/schedule_svg.h"
#include "cli/terminal.h"
#include "sluice/program/memory_plan.h"

namespace sluice::cli {
namespace {

using program::formatBytes;

constexpr std::size_t kMostRows = 12;

std::string inTime(double seconds) {
  if (seconds >= 1) {
    return fmt::format("{:.3f} s", seconds);
  }
  return seconds >= 1e-3 ? fmt::format("{:.3f} ms", 1e3 * seconds)
                         : fmt::format("{:.3f} us", 1e6 * seconds);
}

std::string heading(std::string_view text) {
  return "\n" + styled(text, Style::Heading, stdout) + "\n";
}

/// Those that fit by their time, then those that do not by theirs, then the impossible.
std::vector<const TriedPlan*> ranked(const PlanReport& report) {
  std::vector<const TriedPlan*> all;
  for (const TriedPlan& tried : report.tried) {
    all.push_back(&tried);
  }
  std::ranges::stable_sort(all, [](const TriedPlan* a, const TriedPlan* b) {
    if (a->outcome != b->outcome) {
      return a->outcome < b->outcome;
    }
    return a->seconds > 0 && (b->seconds <= 0 || a->seconds < b->seconds);
  });
  return all;
}

std::string rowOf(const TriedPlan& tried) {
  const std::string step = tried.seconds > 0 ? inTime(tried.seconds) : "";
  const std::string most = tried.largest > 0 ? formatBytes(tried.largest) : "";
  switch (tried.outcome) {
    case PlanOutcome::Fits:
      return fmt::format("  {:>11}  {:>10}  {}\n", step, most, tried.choice.str());
    case PlanOutcome::TooLarge:
      return fmt::format("  {:>11}  {:>10}  {}: does not fit\n", step, most, tried.choice.str());
    case PlanOutcome::Impossible:
      break;
  }
  return fmt::format("  {:>11}  {:>10}  {}: {}\n", "", "", tried.choice.str(), tried.reason);
}

/// Why there are no plans with phases, if none is possible: they need the least memory.
std::string barredText(const PlanReport& report) {
  const TriedPlan* barred = nullptr;
  for (const TriedPlan& tried : report.tried) {
    if (parallel::isPhased(tried.choice.strategy.kind())) {
      if (tried.outcome != PlanOutcome::Impossible) {
        return "";
      }
      barred = barred == nullptr ? &tried : barred;
    }
  }
  return barred == nullptr ? ""
                           : fmt::format("  no plan with phases is possible, as in {}: {}\n",
                                         barred->choice.str(),
                                         barred->reason);
}

std::string triedText(const PlanReport& report, const PlanContext& context) {
  const auto fit = std::ranges::count(report.tried, PlanOutcome::Fits, &TriedPlan::outcome);
  std::string text = heading("Plans that were tried");
  text += fmt::format("  {:>11}  {:>10}\n", "step", "device");
  const std::vector<const TriedPlan*> rows = ranked(report);
  for (std::size_t i = 0; i < std::min(rows.size(), kMostRows); ++i) {
    text += rowOf(*rows[i]);
  }
  if (rows.size() > kMostRows) {
    text += fmt::format("  ... and {} more; --json has all\n", rows.size() - kMostRows);
  }
  text +=
      fmt::format("  {} plans, {} fit{}\n",
                  report.tried.size(),
                  fit,
                  report.complete       ? ""
                  : context.interrupted ? "; interrupted before all were tried"
                                        : "; the time was up before all were tried (--seconds)");
  return text + barredText(report);
}

std::string_view boundText(BoundedBy bound) {
  return bound == BoundedBy::Work
             ? "all kernels, shared out evenly"
             : "the longest chain of kernels, with its slowest once per micro-batch";
}

std::string bestText(const PlanReport& report, const PlanContext& context) {
  const Plan& best = *report.best;
  std::string text = heading("Best plan");
  text += fmt::format("  {}\n", best.choice.str());
  text += fmt::format("  step {} on {}\n", inTime(best.seconds), report.target);
  if (report.bound > 0) {
    text += fmt::format("  no plan takes less than {} ({:.0f} % of it): {}\n",
                        inTime(report.bound),
                        best.seconds > 0 ? 100 * report.bound / best.seconds : 0,
                        boundText(report.boundedBy));
  }
  if (context.measured) {
    const double work = std::accumulate(best.busy.begin(), best.busy.end(), 0.0) *
                        static_cast<double>(best.choice.replicas);
    text += fmt::format(
        "  step {} on this machine, the fastest of {}; it took {} of processor time, kernels {} "
        "in the plan\n",
        inTime(context.measured->seconds),
        kMeasuredSteps,
        inTime(context.measured->processorSeconds),
        inTime(work));
  }
  text += heading(best.choice.replicas == 1 ? "Memory" : "Memory, of each replica");
  for (std::size_t d = 0; d < best.devices.size(); ++d) {
    const PlannedBytes& bytes = best.devices[d];
    text += fmt::format(
        "  device {:<2} {:>10}{}: {} of state, {} of activations and scratch; "
        "computes {:.0f} % of the step\n",
        d,
        formatBytes(bytes.total()),
        report.memoryPerDevice == 0 ? ""
                                    : fmt::format(" of {}", formatBytes(report.memoryPerDevice)),
        formatBytes(bytes.state),
        formatBytes(bytes.transient),
        best.seconds > 0 ? 100 * best.busy[d] / best.seconds : 0);
  }
  if (best.remoteBytes > 0) {
    text += fmt::format("  remote    {:>10}\n", formatBytes(best.remoteBytes));
  }
  return text;
}

std::string linesText(std::string_view language, const std::vector<std::string>& lines) {
  std::string text = heading(language);
  for (const std::string& line : lines) {
    text += fmt::format("  {}\n", line);
  }
  return text;
}

std::string nothingFits(const PlanReport& report, const PlanContext& context) {
  if (context.interrupted) {
    return heading("Interrupted") + "  nothing that was tried so far fits\n";
  }
  if (report.tried.empty()) {
    return heading("Nothing was tried") + "  the time was up before the first plan (--seconds)\n";
  }
  std::string text = heading("Nothing fits");
  text +=
      fmt::format("  no plan for {} device{}{} was found\n",
                  report.devices,
                  report.devices == 1 ? "" : "s",
                  report.memoryPerDevice == 0 ? "" : " of " + formatBytes(report.memoryPerDevice));
  if (report.smallestBudget) {
    text += fmt::format("  smallest memory per device that works: {} bytes ({}), with {}{}\n",
                        *report.smallestBudget,
                        formatBytes(*report.smallestBudget),
                        report.smallest->str(),
                        report.complete ? "" : "; the time was up before all were tried");
  }
  return text;
}

nlohmann::json jsonOf(const Plan& plan) {
  nlohmann::json json = {{"plan", plan.choice.str()},
                         {"strategy", plan.choice.strategy.str()},
                         {"replicas", plan.choice.replicas},
                         {"recomputation", name(plan.choice.recomputation)},
                         {"optimizerOffChip", plan.choice.optimizerOffChip},
                         {"weightsOffChip", plan.choice.weightsOffChip},
                         {"seconds", plan.seconds},
                         {"remoteBytes", plan.remoteBytes}};
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    json["devices"].push_back({{"bytes", plan.devices[d].total()},
                               {"state", plan.devices[d].state},
                               {"transient", plan.devices[d].transient},
                               {"busySeconds", plan.busy[d]}});
  }
  return json;
}

std::string_view outcomeText(PlanOutcome outcome) {
  return outcome == PlanOutcome::Fits       ? "fits"
         : outcome == PlanOutcome::TooLarge ? "too large"
                                            : "impossible";
}

}  // namespace

std::vector<std::string> cppLines(const PlanReport& report, const PlanContext& context) {
  std::vector<std::string> lines = {"Options options;"};
  if (context.isMemoryGiven) {
    lines.push_back(
        fmt::format("options.memoryPerDevice(std::size_t{{{}}});", report.memoryPerDevice));
  }
  if (report.microBatches > 1 && report.best->choice.replicas == 1) {
    lines.push_back(
        report.training
            ? fmt::format("options.training.gradientAccumulation({});", report.microBatches)
            : fmt::format("options.deviceIterations({});", report.microBatches));
  }
  for (std::string& line : report.best->choice.cppLines()) {
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> pythonLines(const PlanReport& report, const PlanContext& context) {
  std::vector<std::string> lines = {"options = sluice.Options()"};
  if (context.isMemoryGiven) {
    lines.push_back(fmt::format("options.memoryPerDevice({})", report.memoryPerDevice));
  }
  if (report.microBatches > 1 && report.best->choice.replicas == 1) {
    lines.push_back(
        report.training
            ? fmt::format("options.Training.gradientAccumulation({})", report.microBatches)
            : fmt::format("options.deviceIterations({})", report.microBatches));
  }
  for (std::string& line : report.best->choice.pythonLines()) {
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string planText(const PlanReport& report, const PlanContext& context) {
  std::string text =
      fmt::format("{}: {} in {} micro-batch{} per step, on {} device{}{}\n",
                  context.model,
                  report.training ? "training" : "inference",
                  report.microBatches,
                  report.microBatches == 1 ? "" : "es",
                  report.devices,
                  report.devices == 1 ? "" : "s",
                  report.memoryPerDevice == 0 ? "" : " of " + formatBytes(report.memoryPerDevice));
  text += report.best ? bestText(report, context) : nothingFits(report, context);
  text += triedText(report, context);
  if (!report.changes.empty()) {
    text += heading("What to change");
    for (const PlanChange& change : report.changes) {
      text += fmt::format("  {}: {}\n", change.text, inTime(change.seconds));
    }
  }
  if (report.best) {
    text += linesText("C++", cppLines(report, context));
    text += linesText("Python", pythonLines(report, context));
  }
  return text;
}

std::string planJson(const PlanReport& report, const PlanContext& context) {
  nlohmann::json json = {{"model", context.model},
                         {"target", report.target},
                         {"training", report.training},
                         {"microBatches", report.microBatches},
                         {"devices", report.devices},
                         {"memoryPerDevice", report.memoryPerDevice},
                         {"complete", report.complete},
                         {"boundSeconds", report.bound},
                         {"boundedBy", report.boundedBy == BoundedBy::Work ? "work" : "chain"},
                         {"best", nullptr},
                         {"tried", nlohmann::json::array()},
                         {"changes", nlohmann::json::array()}};
  if (report.best) {
    json["best"] = jsonOf(*report.best);
    if (context.measured) {
      json["best"]["measuredSeconds"] = context.measured->seconds;
      json["best"]["measuredProcessorSeconds"] = context.measured->processorSeconds;
    }
    json["best"]["cpp"] = cppLines(report, context);
    json["best"]["python"] = pythonLines(report, context);
  }
  if (report.smallestBudget) {
    json["smallestBudget"] = {{"bytes", *report.smallestBudget}, {"plan", report.smallest->str()}};
  }
  for (const TriedPlan& tried : report.tried) {
    json["tried"].push_back({{"plan", tried.choice.str()},
                             {"outcome", outcomeText(tried.outcome)},
                             {"seconds", tried.seconds},
                             {"largestDevice", tried.largest},
                             {"reason", tried.reason}});
  }
  for (const PlanChange& change : report.changes) {
    json["changes"].push_back({{"text", change.text}, {"seconds", change.seconds}});
  }
  return json.dump(2) + "\n";
}

std::string planSvg(const PlanReport& report) {
  const Plan& best = *report.best;
  return drawSvg({.title = fmt::format("{}: {} micro-batches in {}, bound {}",
                                       best.choice.str(),
                                       report.microBatches,
                                       inTime(best.seconds),
                                       report.bound > 0 ? inTime(report.bound) : "not known"),
                  .end = inTime(best.seconds),
                  .devices = best.timeline,
                  .makespan = static_cast<std::int64_t>(1e9 * best.seconds)});
}

}  // namespace sluice::cli
