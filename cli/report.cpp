// sluice report: what a trace says, as a page, as text, or for other programs.
#include "sluice/profile/report.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/report_files.h"
#include "cli/terminal.h"
#include "cli/wait_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"

namespace sluice::cli {
namespace {

using profile::TracedRun;

constexpr const char* kReportExamples =
    "Examples:\n"
    "  sluice report profile/training/run.slt\n"
    "      where the time went and why devices were idle, in the terminal\n"
    "  sluice report profile/training/run.slt -o report.html\n"
    "      the same as a page with a timeline, for any browser\n"
    "  sluice report before.slt after.slt -o compared.html\n"
    "      two runs side by side\n"
    "  sluice report run.slt --predicted simulated/run.slt -o report.html\n"
    "      beside each time the one that the simulator predicted for the same program\n"
    "  sluice report rank0.slt rank1.slt -o merged.json --format perfetto\n"
    "      several traces on one absolute time, for ui.perfetto.dev\n"
    "\n"
    "Options::enableProfiling writes run.slt, and so does --profile of the examples.\n";

struct ReportSettings {
  std::vector<std::string> files;
  std::string predicted;
  std::string output;
  std::string format;
  std::int32_t width = 0;  ///< 0: the terminal's
};

constexpr std::int32_t kColumns = 100;

constexpr const char* kFormats[] = {"html", "text", "md", "json", "perfetto", "csv"};

/// The format that was asked for, or that the name of the output stands for; empty: none.
std::string formatOf(const ReportSettings& settings) {
  if (!settings.format.empty()) {
    return settings.format;
  }
  const std::string ending = std::filesystem::path(settings.output).extension().string();
  if (ending == ".html" || ending == ".htm") {
    return "html";
  }
  if (ending == ".md" || ending == ".json" || ending == ".csv") {
    return ending.substr(1);
  }
  return ending.empty() || ending == ".txt" ? "text" : "";
}

using Parts = std::vector<std::string>;

/// Folders and name of a file, without its ending.
Parts partsOf(const std::filesystem::path& path) {
  Parts parts;
  for (const std::filesystem::path& part : path.parent_path()) {
    parts.push_back(part.string());
  }
  parts.push_back(path.stem().string());
  return parts;
}

/// What tells the paths apart: a/training/run.slt and b/training/run.slt are called a and b.
std::vector<std::string> titlesOf(const std::vector<std::string>& files) {
  std::vector<Parts> paths;
  paths.reserve(files.size());
  for (const std::string& file : files) {
    paths.push_back(partsOf(file));
  }
  const auto allHave = [&](const auto& part) {
    return std::ranges::all_of(
        paths, [&](const Parts& p) { return p.size() > 1 && part(p) == part(paths[0]); });
  };
  while (allHave([](const Parts& p) -> const std::string& { return p.front(); })) {
    std::ranges::for_each(paths, [](Parts& p) { p.erase(p.begin()); });
  }
  while (allHave([](const Parts& p) -> const std::string& { return p.back(); })) {
    std::ranges::for_each(paths, [](Parts& p) { p.pop_back(); });
  }
  std::vector<std::string> titles;
  titles.reserve(paths.size());
  for (const Parts& path : paths) {
    titles.push_back(fmt::format("{}", fmt::join(path, "/")));
  }
  return titles;
}

std::vector<TracedRun> readRuns(const std::vector<std::string>& files) {
  const std::vector<std::string> titles = titlesOf(files);
  std::vector<TracedRun> runs;
  for (std::size_t i = 0; i < files.size(); ++i) {
    runs.push_back({titles[i], profile::readTrace(files[i])});
    if (files.size() == 1) {
      runs[0].title = runs[0].trace.name;
    }
  }
  return runs;
}

std::string reportIn(const std::string& format,
                     const std::vector<TracedRun>& runs,
                     std::int32_t width) {
  if (format == "perfetto" || format == "csv") {
    std::vector<profile::Trace> traces;
    traces.reserve(runs.size());
    for (const TracedRun& run : runs) {
      traces.push_back(run.trace);
    }
    return format == "csv" ? profile::traceCsv(traces) : profile::perfettoJson(traces);
  }
  return format == "html"   ? profile::reportPage(runs)
         : format == "md"   ? profile::reportMarkdown(runs)
         : format == "json" ? profile::reportJson(runs)
                            : profile::reportText(runs, static_cast<std::size_t>(width));
}

int run(const ReportSettings& settings) {
  std::vector<std::string> traces = settings.files;
  traces.push_back(settings.predicted);
  requireOutput("--output", settings.output, traces);
  const std::string format = formatOf(settings);
  const std::string text = [&] {
    const WaitLine line("reading traces");
    std::vector<TracedRun> runs = readRuns(settings.files);
    if (!settings.predicted.empty()) {
      runs[0].predicted = profile::readTrace(settings.predicted);
    }
    const std::int32_t columns = settings.output.empty() ? columnsOf(stdout, kColumns) : kColumns;
    return reportIn(format, runs, settings.width > 0 ? settings.width : columns);
  }();
  if (settings.output.empty()) {
    fmt::print("{}", text);
  } else {
    writeFileAtomically(settings.output, text);
    fmt::print("{}\n", settings.output);
  }
  return 0;
}

}  // namespace

std::string reportOfFiles(const std::vector<std::string>& files, const std::string& format) {
  return reportIn(format, readRuns(files), kColumns);
}

void addReport(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("report", "Explain a trace: what ran when, and why devices were idle");
  command->footer(kReportExamples);
  auto settings = std::make_shared<ReportSettings>();
  command->add_option("files", settings->files, "Trace files (*.slt); several are compared")
      ->required();
  command->add_option(
      "--predicted",
      settings->predicted,
      "A trace of the same program on simulated devices, to stand beside the first");
  command->add_option("-o,--output", settings->output, "Write it to this file");
  command
      ->add_option("--format",
                   settings->format,
                   fmt::format("{}  [by the ending of the output; text if it has none]",
                               fmt::join(kFormats, ", ")))
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kFormats), std::end(kFormats))));
  command
      ->add_option("--width",
                   settings->width,
                   fmt::format("Columns of text  [the terminal's, else {}]", kColumns))
      ->transform(wholeNumber<std::int32_t>(40, 10000));
  command->callback([&action, settings] {
    if (settings->output.empty() && settings->format == "html") {
      throw CLI::ValidationError("--format html", "name a file for the page: -o report.html");
    }
    const std::string format = formatOf(*settings);
    if (format.empty()) {
      throw CLI::ValidationError(
          "--output",
          fmt::format("the ending of '{}' names no format (.html, .md, .json, .csv, .txt): add "
                      "--format",
                      settings->output));
    }
    if (!settings->predicted.empty() &&
        (settings->files.size() > 1 || format == "perfetto" || format == "csv")) {
      throw CLI::ValidationError("--predicted",
                                 "stands beside one trace, as html, text, md or json");
    }
    action = [settings] { return run(*settings); };
  });
}

}  // namespace sluice::cli
