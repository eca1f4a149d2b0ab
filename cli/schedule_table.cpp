#include "cli/schedule_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/schedule_output.h"
#include "cli/terminal.h"
#include "sluice/base/error.h"

namespace sluice::cli {
namespace {

using schedule::PipelineSchedule;

constexpr int kDigits = 6;

/// The figures of a schedule in the user's units.
struct Row {
  std::string_view name;
  std::string problem = {};
  double makespan = 0;
  double bound = 0;
  double idle = 0;  ///< share of all devices' time
  double most = 0;  ///< that a device holds
  std::optional<double> simulated = {};
};

double inUnits(std::int64_t value, std::int64_t unit) {
  return static_cast<double>(value) / static_cast<double>(unit);
}

Row rowOf(const ComparedSchedule& each) {
  Row row{.name = name(each.kind), .problem = each.problem};
  if (!row.problem.empty()) {
    return row;
  }
  try {
    const PipelineSchedule made = schedulePipeline(each.kind, each.request.problem);
    row.makespan = inUnits(made.makespan, each.request.timeUnit);
    row.bound = inUnits(made.bound, each.request.timeUnit);
    row.idle = made.rampShare;
    row.most = inUnits(std::ranges::max(made.peakBytes), each.request.byteUnit);
    if (each.request.copies) {
      row.simulated = inUnits(simulatePipeline(each.request, made).makespan, each.request.timeUnit);
    }
  } catch (const InvalidArgument& error) {
    row.problem = error.message();
  }
  return row;
}

void printJson(const std::vector<Row>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Row& row : rows) {
    nlohmann::json entry = {{"schedule", row.name}};
    if (row.problem.empty()) {
      entry.update({{"makespan", row.makespan},
                    {"bound", row.bound},
                    {"idleShare", row.idle},
                    {"peak", row.most}});
    } else {
      entry["problem"] = row.problem;
    }
    if (row.simulated) {
      entry["simulated"] = {{"makespan", *row.simulated}};
    }
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", list.dump());
}

}  // namespace

std::vector<ComparedSchedule> readAllSchedules(ScheduleSettings settings) {
  std::vector<ComparedSchedule> all;
  for (const schedule::PipelineKind kind : schedule::allPipelineKinds()) {
    settings.schedule = name(kind);
    ComparedSchedule& each = all.emplace_back(ComparedSchedule{.kind = kind, .request = {}});
    try {
      each.request = readSchedule(settings);
    } catch (const InvalidArgument& error) {
      each.problem = error.message();
    }
  }
  if (std::ranges::none_of(all, &std::string::empty, &ComparedSchedule::problem)) {
    raise<InvalidArgument>("{}", all.front().problem);
  }
  return all;
}

void printComparison(const std::vector<ComparedSchedule>& all, bool json) {
  std::vector<Row> rows;
  rows.reserve(all.size());
  for (const ComparedSchedule& each : all) {
    rows.push_back(rowOf(each));
  }
  std::ranges::stable_sort(
      rows, {}, [](const Row& row) { return std::pair(!row.problem.empty(), row.makespan); });
  if (json) {
    printJson(rows);
    return;
  }
  const bool simulated =
      std::ranges::any_of(rows, [](const Row& row) { return row.simulated.has_value(); });
  const auto number = [](double value) { return fmt::format("{:.{}g}", value, kDigits); };
  const auto line = [&](std::string_view name, const std::vector<std::string>& figures) {
    std::string text = fmt::format("{:<12}", name);
    for (const std::string& figure : figures) {
      text += fmt::format("{:>12}", figure);
    }
    return text;
  };
  std::vector<std::string> head = {"makespan", "bound", "idle", "most held"};
  if (simulated) {
    head.emplace_back("simulated");
  }
  fmt::print("{}\n", styled(line("schedule", head), Style::Faint, stdout));
  for (const Row& row : rows) {
    if (!row.problem.empty()) {
      fmt::print("{:<12}{}\n", row.name, row.problem);
      continue;
    }
    std::vector<std::string> figures = {number(row.makespan),
                                        number(row.bound),
                                        fmt::format("{:.2f} %", 100 * row.idle),
                                        number(row.most)};
    if (row.simulated) {
      figures.push_back(number(*row.simulated));
    }
    const std::string text = line(row.name, figures);
    const bool best = row.makespan == rows[0].makespan;
    fmt::print("{}\n", best ? styled(text, Style::Heading, stdout) : text);
  }
}

}  // namespace sluice::cli
