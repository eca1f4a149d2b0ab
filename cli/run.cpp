// sluice run: a call of a model from an executable.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "sluice/api/executable.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/data/npy.h"
#include "sluice/ops/custom_op.h"

namespace sluice::cli {
namespace {

struct RunSettings {
  std::string file;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::string> customOps;
  std::string save;
  std::string device;
  int steps = 1;
  int threads = 0;
  bool refuse = false;
};

struct NamedPath {
  std::string name;  ///< empty: not given
  std::string path;
};

NamedPath namedPath(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals == std::string::npos ? NamedPath{"", text}
                                     : NamedPath{text.substr(0, equals), text.substr(equals + 1)};
}

NamedTensors readInputs(const std::vector<std::string>& texts) {
  NamedTensors inputs;
  for (const std::string& text : texts) {
    const NamedPath given = namedPath(text);
    if (given.name.empty()) {
      throw CLI::ValidationError("--input", fmt::format("expected NAME=FILE.npy, got '{}'", text));
    }
    inputs.insert_or_assign(given.name, data::readNpy(given.path));
  }
  return inputs;
}

void writeOutputs(const std::vector<std::string>& texts, const NamedTensors& results) {
  for (const std::string& text : texts) {
    const NamedPath wanted = namedPath(text);
    const auto found = wanted.name.empty() ? results.begin() : results.find(wanted.name);
    if (found == results.end() || (wanted.name.empty() && results.size() != 1)) {
      std::vector<std::string> names;
      for (const auto& [name, tensor] : results) {
        names.push_back(name);
      }
      raise<InvalidArgument>("--output '{}': the model returns {}; say which as NAME=FILE.npy",
                             text,
                             fmt::join(names, ", "));
    }
    writeFileAtomically(wanted.path, data::npyBytes(found->second));
  }
}

int runExecutable(const RunSettings& settings) {
  for (const std::string& library : settings.customOps) {
    ops::loadCustomOps(library);
  }
  const NamedTensors inputs = readInputs(settings.inputs);
  const auto edit = [&](Options& options) {
    if (settings.threads > 0) {
      options.threads(settings.threads);
    }
    if (!settings.device.empty()) {
      options.device(settings.device);
    }
  };
  Model model =
      load(settings.file,
           {.editOptions = edit,
            .otherTarget = settings.refuse ? OtherTarget::Refuse : OtherTarget::Recompile});
  NamedTensors results;
  for (int step = 0; step < settings.steps; ++step) {
    results = model.run(inputs);
  }
  writeOutputs(settings.outputs, results);
  for (const auto& [name, tensor] : results) {
    const bool number = tensor.shape().elements() == 1;
    fmt::print("{} {}{}\n",
               name,
               tensor.type().str(),
               number ? fmt::format(" {:.9g}", tensor.at(0)) : std::string());
  }
  if (!settings.save.empty()) {
    model.save(settings.save);
  }
  return 0;
}

}  // namespace

void addRun(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("run", "Run an executable on arrays from .npy files");
  command->footer(
      "sluice run net.slx --input input0=x.npy --output y.npy\n"
      "`sluice inspect net.slx` lists the inputs and outputs. Arrays hold a whole call.");
  auto settings = std::make_shared<RunSettings>();
  command->add_option("file", settings->file, "The executable (*.slx)")->required();
  command->add_option("-i,--input", settings->inputs, "An input as NAME=FILE.npy; may be repeated");
  command->add_option("-o,--output",
                      settings->outputs,
                      "Where an output goes, as NAME=FILE.npy, or FILE.npy if there is only one");
  command->add_option("--steps", settings->steps, "Calls to make, each with the same inputs")
      ->transform(wholeNumber(1))
      ->default_val(1);
  command->add_option("--threads", settings->threads, "Threads per device")
      ->transform(wholeNumber(1));
  command->add_option("--custom-ops", settings->customOps, "A library with custom ops of the file");
  command->add_option("--save", settings->save, "Write the model as it is after the last call");
  command->add_flag("--refuse-other-target",
                    settings->refuse,
                    "Fail instead of compiling again if the file is for other devices");
  addDeviceOption(*command, settings->device);
  command->callback(
      [&action, settings] { action = [settings] { return runExecutable(*settings); }; });
}

}  // namespace sluice::cli
