// sluice diff: where two runs first wrote different values.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cli/wait_line.h"
#include "sluice/base/error.h"
#include "sluice/profile/compare_values.h"
#include "sluice/profile/trace_file.h"

namespace sluice::cli {
namespace {

constexpr const char* kDiffExamples =
    "Examples:\n"
    "  sluice diff one/training/run.slt four/training/run.slt\n"
    "      the first op, micro-batch and tensor whose bits differ\n"
    "  sluice diff cpu.slt cuda.slt --relative 1e-5 --absolute 1e-7\n"
    "      the first that differs by more; needs traces with TraceValues::All\n"
    "\n"
    "Options::enableProfiling(folder) with traceValues(TraceValues::Hashes) records such traces.\n"
    "The exit code is 0 if nothing differs, 1 if something does and 2 if there is trouble.\n";

struct DiffSettings {
  std::string first;
  std::string second;
  profile::CompareOptions options;
  bool json = false;
};

/// Under the name of the file: programs of two runs have the same name.
profile::Trace traceOf(const std::string& file) {
  profile::Trace trace = profile::readTrace(file);
  trace.name = file;
  return trace;
}

int compare(const DiffSettings& settings) {
  const profile::ValueComparison found = [&] {
    const WaitLine line("comparing values");
    const profile::Trace first = traceOf(settings.first);
    const profile::Trace second = traceOf(settings.second);
    return profile::compareValues(first, second, settings.options);
  }();
  fmt::print("{}",
             settings.json ? profile::comparisonJson(found)
                           : profile::comparisonText(found, settings.first, settings.second));
  requireWritten();
  return found.different == 0 ? 0 : 1;
}

int run(const DiffSettings& settings) {
  constexpr int kTrouble = 2;  // as of diff and cmp, which scripts tell from a difference
  try {
    return compare(settings);
  } catch (const std::exception& error) {
    tell(fmt::format("{} {}\n", styled("sluice:", Style::Error, stderr), error.what()));
    return kTrouble;
  }
}

}  // namespace

void addDiff(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("diff", "Find the first value in which two traced runs differ");
  command->footer(kDiffExamples);
  auto settings = std::make_shared<DiffSettings>();
  command->add_option("first", settings->first, "A trace file (*.slt) with values")->required();
  command->add_option("second", settings->second, "Another one")->required();
  command->add_option("--absolute", settings->options.absolute, "Elements may differ by this much")
      ->transform(realNumber(0.0));
  command
      ->add_option(
          "--relative", settings->options.relative, "and by this share of the second's element")
      ->transform(realNumber(0.0));
  command->add_option("--elements", settings->options.elements, "Elements that are shown")
      ->transform(wholeNumber<std::int32_t>(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", settings->json, "As JSON");
  command->callback([&action, settings] { action = [settings] { return run(*settings); }; });
}

}  // namespace sluice::cli
