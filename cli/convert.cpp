// sluice convert: a graph as an ONNX model.
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/graph_file.h"
#include "sluice/onnx/export.h"

namespace sluice::cli {
namespace {

struct ConvertSettings {
  GraphFile file;
  std::string output;
  bool exact = false;
};

int convert(const ConvertSettings& settings) {
  onnx::exportModel(readGraph(settings.file),
                    settings.output,
                    {.exact = settings.exact ? onnx::Exact::Yes : onnx::Exact::No});
  fmt::print("wrote {}\n", settings.output);
  return 0;
}

}  // namespace

void addConvert(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("convert", "Write a graph file as an ONNX model");
  command->footer(
      "Ops are written in the standard's form, alone or in parts, so that other tools can read the "
      "model; only what opset 17 cannot say is in the domain `sluice`.");
  auto settings = std::make_shared<ConvertSettings>();
  addGraphFile(*command, settings->file);
  command->add_option("output", settings->output, "The ONNX file to write")->required();
  command->add_flag("--exact",
                    settings->exact,
                    "Use the standard's ops only where they are read back as the same op, bit for "
                    "bit; all others are in the domain `sluice`");
  command->callback([&action, settings] { action = [settings] { return convert(*settings); }; });
}

}  // namespace sluice::cli
