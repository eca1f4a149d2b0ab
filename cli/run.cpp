// sluice run: a model file on input files. A kind of file is a function from the settings to the
// exit code; `runFile` chooses it.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/tensor_files.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/data/npy.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/builder_model.h"

namespace sluice::cli {
namespace {

struct RunSettings {
  GraphFile file;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string device;
  std::int64_t devices = 1;
};

/// Output files by the names of outputs. Throws InvalidArgument for a name that no output has.
std::map<std::string, std::string> filesOf(const RunSettings& settings, const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) {
    names.push_back(output.name);
  }
  std::map<std::string, std::string> files;
  for (const std::string& text : settings.outputs) {
    NamedFile file = namedFile(text);
    if (file.name.empty() && names.size() == 1) {
      file.name = names[0];
    }
    if (std::ranges::find(names, file.name) == names.end()) {
      raise<InvalidArgument>("--output {}: expected NAME=FILE.npy with one of the outputs {}",
                             text,
                             fmt::join(names, ", "));
    }
    static_cast<void>(outputTarget(file.path));  // before the work, not after it
    files.insert_or_assign(file.name, file.path);
  }
  return files;
}

/// For people: how large the numbers are.
std::string described(const HostTensor& tensor) {
  double least = 0;
  double most = 0;
  double sum = 0;
  const std::int64_t count = tensor.shape().elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = tensor.at(i);
    least = i == 0 ? value : std::min(least, value);
    most = i == 0 ? value : std::max(most, value);
    sum += value;
  }
  return fmt::format("{}: from {:.6g} to {:.6g}, mean {:.6g}",
                     tensor.type().str(),
                     least,
                     most,
                     count == 0 ? 0.0 : sum / static_cast<double>(count));
}

int runGraph(const RunSettings& settings) {
  const TensorMap tensors = readTensors("--input", settings.inputs);
  std::map<std::string, Shape, std::less<>> shapes;
  for (const auto& [name, tensor] : tensors) {
    shapes.emplace(name, tensor.shape());
  }
  Builder builder(readModel(settings.file, shapes));
  const ir::Graph& graph = builder.graph();
  const std::map<std::string, std::string> files = filesOf(settings, graph);
  const std::vector<HostTensor> inputs = inOrder(graph, tensors);
  Options options;
  options.device(settings.device);
  if (settings.devices > 1) {
    options.virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(settings.devices);
  }
  Model model = inferenceModel(builder, options);
  const std::vector<HostTensor> results = model.run(inputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = graph.outputs()[i].name;
    const auto file = files.find(name);
    if (file != files.end()) {
      writeFileAtomically(file->second, data::npyBytes(results[i]));
    }
    fmt::print("{} {}{}\n",
               name,
               described(results[i]),
               file != files.end() ? fmt::format(", in {}", file->second) : "");
  }
  return 0;
}

int runFile(const RunSettings& settings) {
  return runGraph(settings);
}

}  // namespace

void addRun(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Run a model on inputs from files");
  command->footer(
      "Symbolic dimensions take their values from the inputs. Example:\n"
      "  sluice run model.onnx --input x=x.npy --output y.npy");
  auto settings = std::make_shared<RunSettings>();
  addGraphFile(*command, settings->file);
  command->add_option("--input",
                      settings->inputs,
                      "NAME=FILE.npy, or FILE.npz with an array for each input; may be repeated");
  command->add_option("-o,--output",
                      settings->outputs,
                      "NAME=FILE.npy, or a file if there is one output; may be repeated");
  command->add_option("--devices", settings->devices, "Devices to cut the model over")
      ->transform(wholeNumber<std::int64_t>(1, 64))
      ->capture_default_str();
  addDeviceOption(*command, settings->device);
  command->callback([&action, settings] { action = [settings] { return runFile(*settings); }; });
}

}  // namespace sluice::cli
