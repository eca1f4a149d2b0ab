// sluice run: a model file on input files. A kind of file is a function from the settings to the
// exit code; `runFile` chooses it.
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/inspect_executable.h"
#include "cli/tensor_files.h"
#include "cli/wait_line.h"
#include "sluice/api/executable.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/data/files.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"
#include "sluice/ops/custom_op.h"

namespace sluice::cli {
namespace {

struct RunSettings {
  GraphFile file;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string device;
  std::string save;
  std::int64_t devices = 1;
  std::int64_t steps = 1;
  int threads = 0;
  bool refuse = false;
};

/// The files of tensors that a run reads. An executable may be saved over itself.
std::vector<std::string> inputFilesOf(const RunSettings& settings) {
  std::vector<std::string> files;
  for (const std::string& input : settings.inputs) {
    files.push_back(namedFile(input).path);
  }
  return files;
}

/// Output files by the names of outputs. Throws InvalidArgument for a name that no output has.
std::map<std::string, std::string> filesOf(const RunSettings& settings,
                                           const std::vector<std::string>& names) {
  std::map<std::string, std::string> files;
  std::set<std::filesystem::path> paths;
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
    if (!file.path.ends_with(".npy")) {
      throw CLI::ValidationError("--output", fmt::format("expected FILE.npy, got '{}'", file.path));
    }
    requireOutput("--output", file.path, {settings.file.path});
    requireOutput("--output", file.path, inputFilesOf(settings));
    if (!files.emplace(file.name, file.path).second) {
      throw CLI::ValidationError("--output", fmt::format("'{}' is given twice", file.name));
    }
    if (!paths.insert(std::filesystem::weakly_canonical(file.path)).second) {
      throw CLI::ValidationError("--output", fmt::format("'{}' is given twice", file.path));
    }
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

/// Writes an output to its file, if it has one, and says so.
void deliver(const std::string& name,
             const HostTensor& tensor,
             const std::map<std::string, std::string>& files) {
  const auto file = files.find(name);
  if (file != files.end()) {
    writeFileAtomically(file->second, data::npyBytes(tensor));
  }
  fmt::print("{} {}{}\n",
             name,
             described(tensor),
             file != files.end() ? fmt::format(", in {}", file->second) : "");
}

void edit(Options& options, const RunSettings& settings) {
  if (settings.threads > 0) {
    options.threads(settings.threads);
  }
  if (!settings.device.empty()) {
    options.device(settings.device);
  }
}

int runGraph(const RunSettings& settings) {
  if (!settings.save.empty() || settings.refuse) {
    throw CLI::ValidationError("--save and --refuse-other-target", "are for executables (*.slx)");
  }
  const TensorMap tensors = readTensors("--input", settings.inputs);
  std::map<std::string, Shape, std::less<>> shapes;
  for (const auto& [name, tensor] : tensors) {
    shapes.emplace(name, tensor.shape());
  }
  Builder builder = [&] {
    const WaitLine line("reading " + settings.file.path);
    return Builder(readModel(settings.file, shapes));
  }();
  const ir::Graph& graph = builder.graph();
  std::vector<std::string> names;
  for (const ir::Output& output : graph.outputs()) {
    names.push_back(output.name);
  }
  const std::map<std::string, std::string> files = filesOf(settings, names);
  const std::vector<HostTensor> inputs = inOrder(graph, tensors);
  Options options;
  edit(options, settings);
  if (settings.devices > 1) {
    options.virtualGraphMode(VirtualGraphMode::Auto).devicesPerReplica(settings.devices);
  }
  Model model = inferenceModel(builder, options);
  model.compile(std::span<const HostTensor>(inputs));
  std::vector<HostTensor> results;
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const WaitLine line(fmt::format("step {} of {}", step + 1, settings.steps));
    results = model.run(inputs);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    deliver(names[i], results[i], files);
  }
  return 0;
}

int runExecutable(const RunSettings& settings) {
  if (settings.devices > 1 || !settings.file.dims.empty()) {
    throw CLI::ValidationError("--devices and --dim", "an executable has its devices and shapes");
  }
  for (const std::string& library : settings.file.customOps) {
    ops::loadCustomOps(library);
  }
  const TensorMap tensors = readTensors("--input", settings.inputs);
  const NamedTensors inputs(tensors.begin(), tensors.end());
  std::map<std::string, std::string> files;
  if (!settings.outputs.empty()) {
    files = filesOf(settings, outputsOfExecutable(settings.file.path));
  }
  if (!std::filesystem::is_directory(settings.save)) {  // which gets a file of the model's name
    requireOutput("--save", settings.save, inputFilesOf(settings));
  }
  Model model =
      load(settings.file.path,
           {.editOptions = [&](Options& options) { edit(options, settings); },
            .otherTarget = settings.refuse ? OtherTarget::Refuse : OtherTarget::Recompile});
  NamedTensors results;
  for (std::int64_t step = 0; step < settings.steps; ++step) {
    const WaitLine line(fmt::format("step {} of {}", step + 1, settings.steps));
    results = model.run(inputs);
  }
  for (const auto& [name, tensor] : results) {
    deliver(name, tensor, files);
  }
  if (!settings.save.empty()) {
    model.save(settings.save);
  }
  return 0;
}

int runFile(const RunSettings& settings) {
  return isExecutable(settings.file.path) ? runExecutable(settings) : runGraph(settings);
}

}  // namespace

void addRun(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("run", "Run a model or an executable on inputs from files");
  command->footer(
      "Symbolic dimensions take their values from the inputs; `sluice inspect` lists inputs and\n"
      "outputs. Arrays hold a whole call. Examples:\n"
      "  sluice run model.onnx --input x=x.npy --output y.npy\n"
      "  sluice run net.slx --input input0=x.npy --output y.npy");
  auto settings = std::make_shared<RunSettings>();
  addGraphFile(*command, settings->file, "; an executable (*.slx)");
  command->add_option("-i,--input",
                      settings->inputs,
                      "NAME=FILE.npy, or FILE.npz with an array for each input; may be repeated");
  command->add_option("-o,--output",
                      settings->outputs,
                      "NAME=FILE.npy, or a file if there is one output; may be repeated");
  command->add_option("--devices", settings->devices, "Devices to cut the model over")
      ->transform(wholeNumber<std::int64_t>(1, 64))
      ->capture_default_str();
  command->add_option("--steps", settings->steps, "Calls to make, each with the same inputs")
      ->transform(wholeNumber<std::int64_t>(1))
      ->capture_default_str();
  command->add_option("--threads", settings->threads, "Threads per device")
      ->transform(wholeNumber(1));
  command->add_option("--save", settings->save, "Write an executable as it is after the last call");
  command->add_flag("--refuse-other-target",
                    settings->refuse,
                    "Fail instead of compiling again if an executable is for other devices");
  addDeviceOption(*command, settings->device);
  command->callback([&action, settings] { action = [settings] { return runFile(*settings); }; });
}

}  // namespace sluice::cli
