// Graphs that commands are given: text files, and ONNX models with values for their dimensions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/ir/graph.h"
#include "sluice/onnx/files.h"
#include "sluice/program/program.h"

namespace CLI {  // NOLINT(readability-identifier-naming): another library
class App;
}

namespace sluice::cli {

struct GraphFile {
  std::string path;
  std::vector<std::string> dims;       ///< "N=4", for ONNX models
  std::vector<std::string> customOps;  ///< libraries
};

/// Adds the arguments that fill it. `others` are further kinds of files that the command takes.
void addGraphFile(CLI::App& command, GraphFile& file, const std::string& others = {});

/// Throws FileError for a file that cannot be read, InvalidArgument for a dimension that is not
/// NAME=NUMBER, and what the parser or the importer throws.
ir::Graph readGraph(const GraphFile& file);

/// The same as a model that a Builder takes. `shapes` are those of inputs, in place of the file's;
/// a name that no input has is ignored. `training`: see onnx::ImportOptions.
onnx::ImportedModel readModel(const GraphFile& file,
                              const std::map<std::string, Shape, std::less<>>& shapes = {},
                              bool training = false);

/// Throws ValidationError of the option if the output would replace what it is made from, also
/// under another name, and FileError if it could not be written: before the work, not after it. An
/// empty text is no file.
void requireOutput(std::string_view option,
                   const std::string& output,
                   const std::vector<std::string>& inputs);

/// The proven program of a graph on these devices; an empty list: those of the environment.
program::Program compiled(ir::Graph graph, std::string_view deviceNames);

}  // namespace sluice::cli
