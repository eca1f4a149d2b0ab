// Reads ONNX models: a file or its bytes in, a Graph of Sluice's ops out. Initializers of float
// types become weights that can be trained, all others constants. Shapes are static: symbolic
// dimensions are bound here, and inputs that fix a shape or an axis can be bound to values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/onnx/import_limits.h"

namespace sluice::onnx {

struct ImportOptions {
  std::map<std::string, std::int64_t, std::less<>> dims = {};  ///< values of symbolic dimensions
  std::map<std::string, Shape, std::less<>> shapes = {};       ///< of inputs, instead of the file's
  std::map<std::string, HostTensor, std::less<>> constants = {};  ///< inputs with a fixed value
  /// The model is to be trained: dropout of versions 7 to 11, which do not say themselves whether
  /// they drop, does.
  bool training = false;
  /// Initializers that training leaves as they are, by name; `*` stands for any text.
  std::vector<std::string> frozen = {};
  /// Initializers that are state of the model and no weights, like running statistics: they take no
  /// gradient and are not exported as weights. Statistics that batch norms read are found without.
  std::vector<std::string> buffers = {};
  /// How many replicas the model is to be run with, where its ops depend on it; 0: not said.
  std::int64_t replicas = 0;
  /// Refuse opsets above 17, which may have given an op another meaning.
  bool strictOpVersions = true;
  std::size_t maxFileBytes = std::size_t{2} << 30U;  ///< of the model; external data is apart
  ImportLimits limits = {};
};

/// A tensor of the file and what became of it.
struct ImportedTensor {
  std::string name;
  ir::Value value;
};

struct ImportedModel {
  ir::Graph graph;  ///< inputs and outputs have the file's names
  /// Every tensor of the main graph that still exists, in the order of the file.
  std::vector<ImportedTensor> tensors;
  std::string producer;
  std::int64_t opset = 0;  ///< of the default domain
};

/// A translation needs to know a tensor that depends on inputs of the model.
class NeedsConstant : public Unsupported {
 public:
  NeedsConstant(std::string message, std::vector<std::string> inputs)
      : Unsupported(std::move(message)), inputs_(std::move(inputs)) {}
  /// The inputs of the model to bind with ImportOptions::constants.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  std::vector<std::string> inputs_;
};

/// Throws FileError for a file that cannot be read or is no model, InvalidArgument for a model that
/// contradicts the standard or itself, Unsupported for what has no translation. Each message names
/// the node, its op and version. External data is looked for beside the model only.
ImportedModel importModel(const std::filesystem::path& path, const ImportOptions& options = {});
ImportedModel importModelBytes(std::span<const std::byte> bytes,
                               const ImportOptions& options = {},
                               const std::filesystem::path& folder = {});

/// The ops of a domain that importing knows, sorted; the default domain is "". Ops that the
/// standard defines by simpler ones are read besides.
std::vector<std::string> readableOps(std::string_view domain);
/// The versions of its definition that are read, oldest first; 1 for ops outside of the standard.
std::vector<int> readableVersions(const std::string& domain, const std::string& op);

}  // namespace sluice::onnx
