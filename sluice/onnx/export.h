// Writes a forward graph as an ONNX model of opset 17, including weights. Ops that ONNX can express
// exactly become ONNX nodes; all others become nodes of the domain `sluice` with our own names and
// attributes. importModel of the result gives the same graph again, bit for bit, except that ops
// that no output needs and inputs that no op reads are left out.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

struct ExportOptions {
  /// Values of the variables. Variables that are missing here get their start values.
  std::map<std::string, HostTensor, std::less<>> values = {};
  std::uint64_t seed = 0;  ///< seed of random start values
};

/// The model as bytes. Throws Unsupported for ops that write state or have bodies, and
/// InvalidArgument for a value whose type differs from its variable's.
std::string exportModelBytes(const ir::Graph& graph, const ExportOptions& options = {});
/// Writes the model to a file under a temporary name, syncs it and renames it. Also throws
/// FileError.
void exportModel(const ir::Graph& graph,
                 const std::filesystem::path& path,
                 const ExportOptions& options = {});

}  // namespace sluice::onnx
