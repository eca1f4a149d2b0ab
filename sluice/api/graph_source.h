// GraphSource: provides a model's forward graph and keeps its state. It stands for a module, whose
// forward is traced again for every signature, or for a Builder, whose graph is fixed. Model uses
// it without knowing which of the two it is.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/inputs.h"
#include "sluice/api/options.h"
#include "sluice/api/session.h"
#include "sluice/compile/anchors.h"
#include "sluice/ir/graph.h"
#include "sluice/nn/module.h"
#include "sluice/runtime/turn.h"

namespace sluice {

using compiler::NamedTensor;

struct TracedGraph {
  ir::Graph graph;
  std::size_t outputs = 0;  ///< the first outputs of the graph are the model's
  std::size_t loss = 0;     ///< which output of the graph; it may come after the model's
  std::vector<NamedTensor> tensors = {};
  Structure<std::size_t> result = {};  ///< the model's outputs as its function returned them
  std::vector<std::string> warnings = {};
  bool cutIntoStages = false;  ///< according to the annotations of its ops, or to their work
};

struct TraceRequest {
  const Structure<TensorType>& inputs;  ///< the types of one micro-batch: a list of all inputs
  bool training = false;
  const Options& options;
};

/// The name of the graph: Options::modelName, or training, or inference.
std::string graphName(const TraceRequest& request);
/// One line per variable, under a title.
std::string variableTable(std::string_view title, std::span<const ir::Variable> variables);

class GraphSource {
 public:
  GraphSource() = default;
  virtual ~GraphSource() = default;
  GraphSource(const GraphSource&) = delete;
  GraphSource& operator=(const GraphSource&) = delete;

  /// Throws InvalidArgument for inputs that do not fit.
  virtual TracedGraph trace(const TraceRequest& request) const = 0;
  /// The session that all models of this source share; the first of them makes it. Throws
  /// InvalidArgument once the source's module or Builder is gone. Any thread may call it.
  virtual std::shared_ptr<Session> session(const Options& options) = 0;
  /// Replaces the session. No model may be using it.
  virtual void setSession(std::shared_ptr<Session> session) = 0;
  /// Called when the last model is gone. Frees the devices and keeps the values of weights and
  /// buffers.
  virtual void release() = 0;
  /// Throws InvalidArgument if a buffer that a traced graph uses no longer exists.
  virtual void requireBuffers() const = 0;
  /// The weights, then the buffers.
  virtual std::vector<ir::Variable> variables() const = 0;
  /// Whether programs contain the values that the weights had when they were traced.
  virtual bool hasConstantWeights() const { return false; }
  /// Null for a Builder and for an executable. Throws InvalidArgument once the module is gone.
  virtual nn::Module* module() = 0;
  /// Whether there is a module, or there was one when the executable was made.
  virtual bool madeOfModule() { return module() != nullptr; }
  virtual const std::vector<Input>& inputs() const = 0;
  /// The variables as a table.
  virtual std::string summary() const = 0;
};

/// Whether the user said which tensor is minimised (`minimize`). If not, outputs that come from
/// other losses are refused (marked_loss.h).
enum class LossIsSaid : bool { No, Yes };

/// What happens to ops outside all blocks of a model that uses blocks: they join the block before
/// them, and a warning names them, or they are an error. Under the IPU's rules they are an error.
enum class LooseOps : bool { Join, Refuse };

struct ModuleSourceOptions {
  LossIsSaid lossIsSaid = LossIsSaid::No;
  std::shared_ptr<nn::Module> owner =
      nullptr;  ///< keeps the module alive; null: somebody else does
  LooseOps looseOps = LooseOps::Join;
};

/// Traces `forward`, which takes the inputs. After the module is destroyed, graphs that were traced
/// before remain usable, but tracing again throws InvalidArgument.
std::unique_ptr<GraphSource> moduleSource(nn::Module& module,
                                          Forward forward,
                                          std::vector<Input> inputs,
                                          ModuleSourceOptions options = {});
/// A session, and the turn to use it.
struct SessionTurn {
  std::shared_ptr<Session> session;
  runtime::Turn::Hold turn;
};
/// The session that a model of this source with these options joins. It first replaces a session
/// that has other devices and that no model uses. While the turn is held, the session is not
/// replaced.
SessionTurn takeSession(GraphSource& source, const Options& options);

}  // namespace sluice
