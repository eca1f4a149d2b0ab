#include "cli/graph_file.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/compile/compile.h"
#include "sluice/devices/registry.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/verify.h"
#include "sluice/onnx/files.h"
#include "sluice/ops/custom_op.h"
#include "sluice/ops/op_list.h"

namespace sluice::cli {
namespace {

onnx::ImportOptions importOptions(const std::vector<std::string>& dims) {
  onnx::ImportOptions options;
  options.dims = readDims(dims);
  return options;
}

/// Whether a file begins as the text form does: with the word `graph`, after comments.
bool isGraphText(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  while (text.starts_with("//")) {
    text.remove_prefix(std::min(text.find('\n'), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  }
  return text.starts_with("graph");
}

ir::Graph parseText(const std::string& path) {
  const std::string text = readFile(path);
  if (!isGraphText(text)) {  // the parser would only call its bytes unexpected
    raise<FileError>(
        "'{}' is no model: expected an ONNX file (*.onnx), or a graph in its text form", path);
  }
  try {
    return ir::parse(text, ops::opSet());
  } catch (Error& error) {
    error.at(path);
    throw;
  }
}

}  // namespace

void addGraphFile(CLI::App& command, GraphFile& file, const std::string& others) {
  command
      .add_option(
          "graph", file.path, "An ONNX model (*.onnx), or a graph in its text form" + others)
      ->required();
  command.add_option("--dim", file.dims, "A value for a symbolic dimension of an ONNX model, N=4");
  command.add_option("--custom-ops", file.customOps, "A library with custom ops of the graph");
}

onnx::ImportedModel readModel(const GraphFile& file,
                              const std::map<std::string, Shape, std::less<>>& shapes,
                              bool training) {
  for (const std::string& library : file.customOps) {
    ops::loadCustomOps(library);
  }
  onnx::ImportedModel model;
  if (file.path.ends_with(".onnx")) {
    onnx::ImportOptions options = importOptions(file.dims);
    options.shapes = shapes;
    options.training = training;
    model = onnx::importModel(file.path, options);
  } else {
    if (!file.dims.empty()) {
      throw CLI::ValidationError("--dim", "is for ONNX models; the text form has its shapes");
    }
    model.graph = parseText(file.path);
    for (const ir::Output& output : model.graph.outputs()) {
      model.tensors.push_back({output.name, output.value});
    }
  }
  ir::verify(model.graph);
  return model;
}

ir::Graph readGraph(const GraphFile& file) {
  return readModel(file).graph;
}

void requireOutput(std::string_view option,
                   const std::string& output,
                   const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code missing;
    if (std::filesystem::equivalent(input, output, missing)) {
      throw CLI::ValidationError(
          std::string(option),
          fmt::format("'{}' is the same file as the input '{}', which would be "
                      "lost; give the output another name",
                      output,
                      input));
    }
  }
  if (!output.empty()) {
    requireWritable(output);
  }
}

program::Program compiled(ir::Graph graph, std::string_view deviceNames) {
  compiler::CompileRequest request{.graph = std::move(graph), .usesAnnotations = true};
  request.proves = true;
  const devices::DeviceList list = devices::chosenDevices(deviceNames);
  std::vector<std::unique_ptr<device::Device>> made;  // own the tables of their kernels
  for (const devices::DeviceName& name : list.names) {
    made.push_back(devices::makeDevice({.name = name}));
    request.lower.targets.push_back(program::targetOf(*made.back()));
  }
  program::Program program = compiler::compileGraph(std::move(request)).program;
  static_cast<void>(list.at(program.devices.size() - 1));  // throws if they are too few
  return program;
}

}  // namespace sluice::cli
