// GraphSource: where a model's forward graph comes from and who keeps its state: a module, whose
// forward is traced anew for every signature, or a Builder, whose graph is what it is. Model uses
// it and knows neither.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sluice/api/builder.h"
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
  std::size_t loss = 0;     ///< which output of the graph it is, possibly one behind them
  std::vector<NamedTensor> tensors = {};
  Structure<std::size_t> result = {};  ///< the model's outputs as its function returned them
  std::vector<std::string> warnings = {};
  bool cutIntoStages = false;  ///< by the annotations of its ops, or by their work
};

struct TraceRequest {
  const Structure<TensorType>& inputs;  ///< of one micro-batch; a list of all inputs
  bool training = false;
  const Options& options;
};

class GraphSource {
 public:
  GraphSource() = default;
  virtual ~GraphSource() = default;
  GraphSource(const GraphSource&) = delete;
  GraphSource& operator=(const GraphSource&) = delete;

  /// Throws InvalidArgument for inputs that do not fit.
  virtual TracedGraph trace(const TraceRequest& request) const = 0;
  /// The session of all models of this source, made by the first of them. Throws InvalidArgument
  /// once the source's module or Builder is gone. Any thread may call it.
  virtual std::shared_ptr<Session> session(const Options& options) = 0;
  /// Another one in its place, while no model uses it.
  virtual void setSession(std::shared_ptr<Session> session) = 0;
  /// The last model is gone: frees the devices and keeps the values of weights and buffers.
  virtual void release() = 0;
  /// Throws InvalidArgument if a buffer that a traced graph has is gone.
  virtual void requireBuffers() const = 0;
  /// Weights, then buffers.
  virtual std::vector<ir::Variable> variables() const = 0;
  /// Whether programs have the weights' values of the time of tracing.
  virtual bool hasConstantWeights() const { return false; }
  /// Null for a Builder. Throws InvalidArgument once the module is gone.
  virtual nn::Module* module() = 0;
  virtual const std::vector<Input>& inputs() const = 0;
  /// The variables as a table.
  virtual std::string summary() const = 0;
};

/// Whether it was said which tensor is minimised (`minimize`); else outputs of other losses are
/// refused (marked_loss.h).
enum class LossIsSaid : bool { No, Yes };

struct ModuleSourceOptions {
  LossIsSaid lossIsSaid = LossIsSaid::No;
  std::shared_ptr<nn::Module> owner =
      nullptr;  ///< keeps the module alive; null: somebody else does
};

/// Traces `forward`, which takes the inputs. If the module ends before the source, what was traced
/// still counts, and tracing anew throws InvalidArgument.
std::unique_ptr<GraphSource> moduleSource(nn::Module& module,
                                          Forward forward,
                                          std::vector<Input> inputs,
                                          ModuleSourceOptions options = {});
/// Of the graph as it is now; what is built later does not count. The builder may end before the
/// source. Throws InvalidArgument for an unknown loss or no output. With
/// constantWeights the graph has the weights' values of the time of tracing in place of the
/// weights.
std::unique_ptr<GraphSource> builderSource(Builder& builder,
                                           std::optional<TensorId> loss,
                                           bool constantWeights = false);

/// A session and its turn.
struct SessionTurn {
  std::shared_ptr<Session> session;
  runtime::Turn::Hold turn;
};
/// The session that a model of this source and these options joins: another one in its place if it
/// has other devices and no model uses it. While the turn is held nobody else puts another one in
/// its place.
SessionTurn takeSession(GraphSource& source, const Options& options);

}  // namespace sluice
