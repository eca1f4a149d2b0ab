// ONNX models: reads and writes files, or their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

#pragma GCC visibility push(default)

namespace sluice::onnx {

// Limits on what a model may ask for while it is imported, because a few bytes of a file can ask
// for any amount of work and memory. Raise them in ImportOptions::limits for a model that you
// trust.

struct ImportLimits {
  std::int64_t runs = 10'000;  ///< runs of a body that is unrolled; each is a copy of its ops
  std::int64_t rolledRuns = 1'000'000;  ///< runs of a body that is one loop
  std::size_t bodies = 100'000;         ///< runs of all bodies and calls of all functions together
  /// Size of their nodes, counted in each run and call; tensors are shared and count nothing.
  std::size_t bodyBytes = std::size_t{256} << 20U;
  std::size_t ops = 300'000;  ///< ops of the graph after bodies are inlined
  std::size_t constantBytes = std::size_t{192}
                              << 20U;  ///< total size of the tensors that are computed meanwhile
  double constantWork = 2e9;  ///< flops and bytes read and written to compute those tensors
  std::size_t sequenceElements = 4'000'000;  ///< elements of all sequences together
};

// Reads ONNX models: converts a file or its bytes to a Graph of Sluice's ops. Initializers of float
// types become weights that can be trained; all others become constants. Shapes are static:
// symbolic dimensions get their values here, and inputs that determine a shape or an axis can be
// given values, too.

struct ImportOptions {
  std::map<std::string, std::int64_t, std::less<>> dims = {};  ///< values of symbolic dimensions
  std::map<std::string, Shape, std::less<>> shapes = {};  ///< input shapes, instead of the file's
  std::map<std::string, HostTensor, std::less<>> constants = {};  ///< inputs with a fixed value
  /// The model will be trained. Dropout of versions 7 to 11, which does not say whether it is
  /// active, is then active.
  bool training = false;
  /// Names of initializers that training does not change; `*` stands for any text.
  std::vector<std::string> frozen = {};
  /// Names of initializers that are state of the model and not weights, such as running statistics:
  /// they have no gradient and are not exported as weights. Statistics that batch norms read need
  /// not be listed.
  std::vector<std::string> buffers = {};
  /// Loops of fewer iterations, and those whose bodies must know the number of the iteration or
  /// have an effect, are unrolled; others run one body. Both forms have the same bits.
  std::int64_t rollFrom = 16;
  /// The number of replicas that the model will run with, if its ops depend on it; 0: not known.
  std::int64_t replicas = 0;
  /// Refuses opsets above 17, in which an op may have another meaning.
  bool strictOpVersions = true;
  std::size_t maxFileBytes = std::size_t{2} << 30U;  ///< external data does not count
  ImportLimits limits = {};
};

/// A tensor of the file, and its value in the graph.
struct ImportedTensor {
  std::string name;
  ir::Value value;
};

struct ImportedModel {
  ir::Graph graph;  ///< inputs and outputs have the file's names
  /// Every tensor of the main graph that still exists, in the order of the file.
  std::vector<ImportedTensor> tensors;
  std::string producer;
  std::int64_t opset = 0;  ///< version of the default domain
};

/// Thrown if a translation needs the value of a tensor that depends on inputs of the model.
class NeedsConstant : public Unsupported {
 public:
  NeedsConstant(std::string message, std::vector<std::string> inputs)
      : Unsupported(std::move(message)), inputs_(std::move(inputs)) {}
  /// The inputs of the model to bind with ImportOptions::constants.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  std::vector<std::string> inputs_;
};

/// Throws FileError for a file that cannot be read or is not a model, InvalidArgument for a model
/// that contradicts the standard or itself, and Unsupported for anything that has no translation.
/// Each message names the node, its op and its version. External data must be in the folder of the
/// model.
ImportedModel importModel(const std::filesystem::path& path, const ImportOptions& options = {});
ImportedModel importModelBytes(std::span<const std::byte> bytes,
                               const ImportOptions& options = {},
                               const std::filesystem::path& folder = {});

/// The ops of a domain that have a translation, sorted; the default domain is "". Ops that the
/// standard defines in terms of simpler ones can also be read.
std::vector<std::string> readableOps(std::string_view domain);
/// The versions of the op's definition that can be read, oldest first; 1 for ops outside the
/// standard.
std::vector<int> readableVersions(const std::string& domain, const std::string& op);

// Writes a forward graph as an ONNX model of opset 17, weights included. By default every op that
// the standard can say, alone or in parts, becomes nodes of the standard, which other tools read;
// only the others become nodes of the domain `sluice` with our own names and attributes. An exact
// file uses the standard only where importModel gives the same op again, so that reading it back
// gives the graph again, bit for bit. Ops that no output needs and inputs that nobody reads are
// left out.

/// Whether a file is to be read back as the same graph rather than by other tools.
enum class Exact : std::uint8_t { No, Yes };

struct ExportOptions {
  /// Values of the variables. Variables that are missing here get their start values.
  std::map<std::string, HostTensor, std::less<>> values = {};
  std::uint64_t seed = 0;  ///< of random first values
  Exact exact = Exact::No;
  /// Names that values have in the file if they are free; other values are named after their ops.
  std::unordered_map<ir::Value, std::string> names = {};
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
