// Writes a forward graph as an ONNX model of opset 17, weights included. By default every op that
// the standard can say, alone or in parts, becomes nodes of the standard, which other tools read;
// only the others become nodes of the domain `sluice` with our own names and attributes. An exact
// file uses the standard only where importModel gives the same op again, so that reading it back
// gives the graph again, bit for bit. Ops that no output needs and inputs that nobody reads are
// left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "sluice/ir/graph.h"

#pragma GCC visibility push(default)

namespace sluice::onnx {

/// Whether a file is to be read back as the same graph rather than by other tools.
enum class Exact : std::uint8_t { No, Yes };

struct ExportOptions {
  /// Values of the variables. Variables that are missing here get their start values.
  std::map<std::string, HostTensor, std::less<>> values = {};
  std::uint64_t seed = 0;  ///< of random first values
  Exact exact = Exact::No;
  /// Writes where ops run (device, stage, phase) as PopART does: as attributes of the nodes, which
  /// importModel reads and other tools may refuse.
  bool placements = false;
};

/// The model as bytes. Throws Unsupported for ops that write state, unless it is the running
/// statistics of a batch norm, and for ops of an exact file that have bodies; InvalidArgument for a
/// value of another type than its variable.
std::string exportModelBytes(const ir::Graph& graph, const ExportOptions& options = {});
/// Writes the model to a file under a temporary name, syncs it and renames it. Also throws
/// FileError.
void exportModel(const ir::Graph& graph,
                 const std::filesystem::path& path,
                 const ExportOptions& options = {});

}  // namespace sluice::onnx

#pragma GCC visibility pop
