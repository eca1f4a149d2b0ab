// Writes a forward graph as an ONNX model of opset 17, weights included. Ops that ONNX can say
// exactly become its nodes; all others become nodes of the domain `sluice` with our own names and
// attributes. importModel of the result gives the graph again, bit for bit; ops that no output
// needs and inputs that nobody reads are left out.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "sluice/ir/graph.h"

namespace sluice::onnx {

struct ExportOptions {
  /// Values of the variables; those that are missing get the ones they start from.
  std::map<std::string, HostTensor, std::less<>> values = {};
  std::uint64_t seed = 0;  ///< of random first values
};

/// The model as bytes. Throws Unsupported for ops that write state or have bodies, InvalidArgument
/// for a value of another type than its variable.
std::string exportModelBytes(const ir::Graph& graph, const ExportOptions& options = {});
/// Written under a temporary name, synced and renamed; throws FileError.
void exportModel(const ir::Graph& graph,
                 const std::filesystem::path& path,
                 const ExportOptions& options = {});

}  // namespace sluice::onnx
