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
#include "cli/inspect_executable.h"
#include "cli/terminal.h"
#include "cli/wait_line.h"
#include "sluice/api/checkpoint.h"
#include "sluice/base/atomic_file.h"
#include "sluice/compile/compile.h"
#include "sluice/devices/cpu/tune.h"
#include "sluice/ir/printer.h"
#include "sluice/ops/custom_op.h"
#include "sluice/tensor/safetensors.h"

namespace sluice::cli {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;

std::string heading(std::string_view text) {
  return styled(text, Style::Heading, stdout);
}

void printInterface(const ir::Graph& graph) {
  for (const ir::OpId id : graph.inputs()) {
    fmt::print("  input    {} {}\n", graph.op(id).name, graph.op(id).outputs[0].str());
  }
  for (const ir::Output& output : graph.outputs()) {
    fmt::print("  output   {} {}\n", output.name, graph.type(output.value).str());
  }
}

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
  std::size_t variableBytes = 0;
  for (const ir::Variable& variable : graph.variables()) {
    variableBytes += variable.type.bytes();
  }
  fmt::print(
      "{}: {} ops, {:.6g} GFLOP, {:.6g} MiB read, {:.6g} MiB written, {:.6g} MiB of variables\n",
      heading(fmt::format("graph \"{}\"", graph.name())),
      graph.numOps(),
      total.flops / 1e9,
      total.bytesRead / kMebi,
      total.bytesWritten / kMebi,
      static_cast<double>(variableBytes) / kMebi);
  printInterface(graph);
  for (const ir::Variable& variable : graph.variables()) {
    fmt::print("  variable {} {} {}\n", variable.name, variable.type.str(), name(variable.role));
  }
  for (const auto& [name, count] : counts) {
    fmt::print("  {:>6}  {}\n", count, name);
  }
}

/// A file of tensors: weights, or a checkpoint, which also says how far its run was.
int inspectTensors(const std::string& path) {
  const SafeTensors content = readSafeTensors(path);
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : content.tensors) {
    bytes += tensor.byteCount();
  }
  const bool checkpoint = sluice::detail::isCheckpoint(content);
  fmt::print("{}: {} tensors, {:.6g} MiB\n",
             heading(checkpoint ? "checkpoint" : "weights"),
             content.tensors.size(),
             static_cast<double>(bytes) / kMebi);
  if (checkpoint) {
    const Checkpoint read = readCheckpoint(path);  // also proves its checksum
    fmt::print("  updates  {}\n  run      {}\n  rule     {}\n",
               read.updates,
               read.state.run.empty() ? "not known" : read.state.run,
               read.state.rule.empty() ? "not known" : read.state.rule);
  } else {
    for (const auto& [key, value] : content.metadata) {
      fmt::print("  {} = {}\n", key, value);
    }
  }
  for (const auto& [name, tensor] : content.tensors) {
    fmt::print("  {} {}\n", name, tensor.type().str());
  }
  return 0;
}

struct InspectSettings {
  GraphFile file;
  bool text = false;
  bool passes = false;
  bool program = false;
  std::string device;
};

int inspect(const InspectSettings& settings) {
  if (isExecutable(settings.file.path)) {
    if (settings.passes || !settings.file.dims.empty() || !settings.device.empty()) {
      throw CLI::ValidationError(
          "--passes, --dim and --device",
          "an executable has its program, shapes and devices; --text and --program print it");
    }
    for (const std::string& library : settings.file.customOps) {
      ops::loadCustomOps(library);
    }
    inspectExecutable(settings.file.path,
                      settings.program ? ExecutableView::Program
                      : settings.text  ? ExecutableView::Graph
                                       : ExecutableView::Summary);
    return 0;
  }
  if (settings.file.path.ends_with(".safetensors")) {
    if (settings.program || settings.passes || settings.text || !settings.file.dims.empty()) {
      throw CLI::ValidationError("--text, --passes, --program and --dim",
                                 "a file of tensors has no graph");
    }
    return inspectTensors(settings.file.path);
  }
  std::string text;
  std::optional<ir::Graph> graph;
  {
    const WaitLine line("reading " + settings.file.path);
    graph = readGraph(settings.file);
    if (settings.program) {
      text = program::print(compiled(std::move(*graph), settings.device));
    } else if (settings.passes) {
      text = ir::print(compiler::runPasses(std::move(*graph)));
    } else if (settings.text) {
      text = ir::print(*graph);
    }
  }
  if (text.empty()) {
    printSummary(*graph);
  }
  fmt::print("{}", text);
  return 0;
}

struct TuneSettings {
  GraphFile file;
  std::string output;
};

int tune(const TuneSettings& settings) {
  requireOutput("--output", settings.output, {settings.file.path});
  std::vector<device::KernelCall> calls;
  for (const program::Segment& segment : compiled(readGraph(settings.file), "cpu").segments) {
    calls.insert(calls.end(), segment.calls.begin(), segment.calls.end());
  }
  std::string table = devices::cpu::tune(
      calls, [](std::string_view key) { tell(fmt::format("measuring {}\n", key)); });
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
  CLI::App* command = app.add_subcommand("inspect",
                                         "Show what is in a file: inputs, outputs, cost, variables "
                                         "and ops of a model or an executable, "
                                         "tensors of a checkpoint or of weights (*.safetensors)");
  auto settings = std::make_shared<InspectSettings>();
  addGraphFile(
      *command, settings->file, "; an executable (*.slx); weights or a checkpoint (*.safetensors)");
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
