// sluice inspect and tune: both start from a graph in a file.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "sluice/base/atomic_file.h"
#include "sluice/compile/compile.h"
#include "sluice/devices/cpu/tune.h"
#include "sluice/ir/printer.h"

namespace sluice::cli {
namespace {

void printSummary(const ir::Graph& graph) {
  std::map<std::string_view, int> counts;
  ir::Cost total;
  for (const ir::OpId id : graph.order()) {
    const ir::Op& op = graph.op(id);
    ++counts[op.def->name];
    const std::vector<TensorType> types = graph.inputTypes(op);
    const ir::Cost cost = ir::costOf(view(op, types));
    total.flops += cost.flops;
    total.bytesRead += cost.bytesRead;
    total.bytesWritten += cost.bytesWritten;
  }
  fmt::print("graph \"{}\": {} ops, {:.6g} flops, {:.6g} bytes read, {:.6g} written\n",
             graph.name(),
             graph.numOps(),
             total.flops,
             total.bytesRead,
             total.bytesWritten);
  for (const auto& [name, count] : counts) {
    fmt::print("  {:>6}  {}\n", count, name);
  }
  for (const ir::Variable& variable : graph.variables()) {
    fmt::print("  variable {} {} {}\n", variable.name, variable.type.str(), name(variable.role));
  }
}

struct InspectSettings {
  GraphFile file;
  bool text = false;
  bool passes = false;
  bool program = false;
  std::string device;
};

int inspect(const InspectSettings& settings) {
  ir::Graph graph = readGraph(settings.file);
  if (settings.program) {
    fmt::print("{}", program::print(compiled(std::move(graph), settings.device)));
  } else if (settings.passes) {
    fmt::print("{}", ir::print(compiler::runPasses(std::move(graph))));
  } else if (settings.text) {
    fmt::print("{}", ir::print(graph));
  } else {
    printSummary(graph);
  }
  return 0;
}

struct TuneSettings {
  GraphFile file;
  std::string output;
};

int tune(const TuneSettings& settings) {
  std::vector<device::KernelCall> calls;
  for (const program::Segment& segment : compiled(readGraph(settings.file), "cpu").segments) {
    calls.insert(calls.end(), segment.calls.begin(), segment.calls.end());
  }
  std::string table = devices::cpu::tune(
      calls, [](std::string_view key) { fmt::print(stderr, "measuring {}\n", key); });
  if (table.empty()) {  // an empty file would be no table
    table = "# nothing that was measured is quicker than the choices of Sluice itself\n";
  }
  if (settings.output.empty()) {
    fmt::print("{}", table);
    return 0;
  }
  writeFileAtomically(settings.output, table);
  return 0;
}

}  // namespace

void addInspect(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what is in a graph file: ops, cost, variables");
  auto settings = std::make_shared<InspectSettings>();
  addGraphFile(*command, settings->file);
  command->add_flag("--text", settings->text, "Print the graph in its text form");
  command->add_flag("--passes", settings->passes, "Print the graph after all passes");
  command->add_flag(
      "--program", settings->program, "Print the lowered program: memory plan, kernels, tasks");
  addDeviceOption(*command, settings->device);
  command->get_option("--device")->needs(command->get_option("--program"));
  command->callback([&action, settings] { action = [settings] { return inspect(*settings); }; });
}

void addTune(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure the CPU kernels of a graph on this machine and print a tuning table");
  command->footer(
      "Give the table to a model with Options::tuningTable(path). Another table may give "
      "other last bits; it is part of the scope that `sluice version` prints.");
  auto settings = std::make_shared<TuneSettings>();
  addGraphFile(*command, settings->file);
  command->add_option("-o,--output", settings->output, "Write the table to this file");
  command->callback([&action, settings] { action = [settings] { return tune(*settings); }; });
}

}  // namespace sluice::cli
