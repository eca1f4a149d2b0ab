// sluice convert: models and weights from one form to another, by the ends of the files' names.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/graph_file.h"
#include "cli/wait_line.h"
#include "sluice/api/checkpoint.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "sluice/tensor/safetensors.h"

namespace sluice::cli {
namespace {

struct ConvertSettings {
  GraphFile file;
  std::string output;
  std::string weights;
  bool exact = false;
};

/// The weights and buffers of a checkpoint, or all tensors of another file.
NamedTensors weightsOf(const std::string& path) {
  SafeTensors content = readSafeTensors(path);
  return sluice::detail::isCheckpoint(content) ? readCheckpoint(path).state.model
                                               : std::move(content.tensors);
}

/// The values that a graph's variables start with.
NamedTensors startValues(const ir::Graph& graph) {
  NamedTensors values;
  for (const ir::Variable& variable : graph.variables()) {
    values.emplace(variable.name, ir::initialValue(variable, 0));
  }
  return values;
}

/// Throws InvalidArgument unless every tensor has a variable of its type.
void requireFits(const ir::Graph& graph, const NamedTensors& weights) {
  for (const auto& [name, tensor] : weights) {
    const ir::Variable* variable = graph.findVariable(name);
    if (variable == nullptr || variable->type != tensor.type()) {
      raise<InvalidArgument>("--weights: '{}' {} does not fit the model, which has {}",
                             name,
                             tensor.type().str(),
                             variable == nullptr ? "no such variable" : variable->type.str());
    }
  }
}

void convertGraph(const ConvertSettings& settings) {
  const ir::Graph graph = readGraph(settings.file);
  const NamedTensors weights =
      settings.weights.empty() ? NamedTensors() : weightsOf(settings.weights);
  requireFits(graph, weights);
  if (settings.output.ends_with(".onnx")) {
    onnx::ExportOptions options{.exact = settings.exact ? onnx::Exact::Yes : onnx::Exact::No};
    for (const auto& [name, tensor] : weights) {
      options.values.emplace(name, tensor);
    }
    onnx::exportModel(graph, settings.output, options);
  } else if (settings.output.ends_with(".safetensors")) {
    NamedTensors values = startValues(graph);
    for (const auto& [name, tensor] : weights) {
      values.insert_or_assign(name, tensor);
    }
    writeSafeTensors(settings.output, {std::move(values)});
  } else {
    if (!weights.empty()) {
      throw CLI::ValidationError("--weights", "the text form of a graph holds no weights of files");
    }
    writeFileAtomically(settings.output, ir::print(graph));
  }
}

int convert(const ConvertSettings& settings) {
  const std::string& output = settings.output;
  if (!output.ends_with(".onnx") && !output.ends_with(".txt") &&
      !output.ends_with(".safetensors")) {
    throw CLI::ValidationError(
        "output", fmt::format("expected *.onnx, *.txt or *.safetensors, got '{}'", output));
  }
  if (settings.exact && !output.ends_with(".onnx")) {
    throw CLI::ValidationError("--exact", "it is for ONNX files");
  }
  requireOutput("output", output, {settings.file.path, settings.weights});
  const bool holdsWeights = settings.file.path.ends_with(".safetensors");
  if (holdsWeights && (!output.ends_with(".safetensors") || !settings.weights.empty())) {
    throw CLI::ValidationError(
        "output",
        fmt::format(
            "'{0}' holds weights and no graph: `sluice convert model.onnx {1} --weights {0}` "
            "puts them into a model",
            settings.file.path,
            output));
  }
  {
    const WaitLine line(fmt::format("converting {} to {}", settings.file.path, output));
    if (holdsWeights) {
      writeSafeTensors(output, {weightsOf(settings.file.path)});
    } else {
      convertGraph(settings);
    }
  }
  fmt::print("wrote {}\n", output);
  return 0;
}

}  // namespace

void addConvert(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "convert", "Write a model or weights in another form: *.onnx, *.txt or *.safetensors");
  command->footer(
      "A model becomes an ONNX file, the text form of its graph, or its weights; weights and "
      "checkpoints become weights under PyTorch's names. Ops are written in ONNX's form, alone or "
      "in parts, so that other tools can read the model; only what opset 17 cannot say is in the "
      "domain `sluice`.");
  auto settings = std::make_shared<ConvertSettings>();
  addGraphFile(*command, settings->file, "; weights or a checkpoint (*.safetensors)");
  command->add_option("output", settings->output, "The file to write")->required();
  command->add_option("--weights",
                      settings->weights,
                      "Weights or a checkpoint (*.safetensors) in place of the model's own values");
  command->add_flag("--exact",
                    settings->exact,
                    "Use the standard's ops only where they are read back as the same op, bit for "
                    "bit; all others are in the domain `sluice`");
  command->callback([&action, settings] { action = [settings] { return convert(*settings); }; });
}

}  // namespace sluice::cli
