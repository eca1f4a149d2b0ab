#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "sluice/api/constant_weights.h"
#include "sluice/api/graph_source.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/session.h"

namespace sluice {
namespace {

class BuilderSource : public GraphSource {
 public:
  BuilderSource(Builder& builder, std::optional<TensorId> loss, bool constantWeights)
      : link_(builder.link()),
        graph_(builder.graph()),
        outputs_(graph_.outputs().size()),
        constantWeights_(constantWeights) {
    if (loss) {
      const ir::Value value = builder.value(*loss);
      const auto outputs = graph_.outputs();
      loss_ = static_cast<std::size_t>(std::ranges::find(outputs, value, &ir::Output::value) -
                                       outputs.begin());
      if (loss_ == outputs_) {
        graph_.addOutput(*loss, value);
      }
    } else if (outputs_ == 0) {
      raise<InvalidArgument>("graph '{}' has no output: call addOutputTensor", graph_.name());
    }
    for (const ir::OpId id : graph_.inputs()) {
      ops_.push_back(id);
      inputs_.emplace_back(graph_.op(id).name);
    }
    std::vector<Structure<std::size_t>> positions;
    for (std::size_t i = 0; i < outputs_; ++i) {
      positions.emplace_back(i);
    }
    result_ = Structure<std::size_t>::list(std::move(positions));
    for (const TensorId& id : builder.tensorIds()) {
      tensors_.push_back({id, builder.value(id)});
    }
  }

  TracedGraph trace(const TraceRequest& request) const override {
    requireInputs(request.inputs);
    TracedGraph traced{graph_, outputs_, loss_, tensors_, result_};
    traced.graph.setName(graphName(request));
    if (constantWeights_) {
      requireWeightsOnDevices(request.options);
      fixVariables(
          traced,
          [this](const ir::Variable& variable) { return valueOf(variable); },
          request.options);
    }
    traced.cutIntoStages = true;
    return traced;
  }

  std::shared_ptr<Session> session(const Options& options) override {
    if (!link_->isAlive()) {
      raise<InvalidArgument>("the Builder of graph '{}' is gone", graph_.name());
    }
    return std::dynamic_pointer_cast<Session>(link_->storeOr(
        [&] { return std::make_shared<Session>(options, options.randomSeed().value_or(0)); }));
  }

  void setSession(std::shared_ptr<Session> session) override {
    link_->setStore(std::move(session));
  }

  void release() override {
    // A Builder's weights have no other home than the session, which keeps them on the host.
    if (auto session = std::dynamic_pointer_cast<Session>(link_->store())) {
      session->detach();
    }
    if (!link_->isAlive()) {
      link_->setStore(nullptr);
    }
  }

  void requireBuffers() const override {}

  bool hasConstantWeights() const override { return constantWeights_; }

  std::vector<ir::Variable> variables() const override {
    std::vector<ir::Variable> all;
    for (const ir::VariableRole role : {ir::VariableRole::Weight, ir::VariableRole::Buffer}) {
      for (const ir::Variable& variable : graph_.variables()) {
        if (variable.role == role) {
          all.push_back(variable);
        }
      }
    }
    return all;
  }

  nn::Module* module() override { return nullptr; }
  const std::vector<Input>& inputs() const override { return inputs_; }
  std::string summary() const override {
    return variableTable(fmt::format("graph '{}'", graph_.name()), graph_.variables());
  }

 private:
  void requireInputs(const Structure<TensorType>& given) const {
    for (std::size_t i = 0; i < given.size(); ++i) {
      const ir::Op& input = graph_.op(ops_[i]);
      if (given[i] != Structure(input.outputs[0])) {
        const bool isTensor = given[i].kind() == StructureKind::Tensor;
        raise<InvalidArgument>("input '{}' of graph '{}' is {} per micro-batch, got {}{}",
                               input.name,
                               graph_.name(),
                               input.outputs[0].str(),
                               isTensor ? given[i].tensor().str() : given[i].describe(),
                               isTensor ? hintOn(input.outputs[0], given[i].tensor()) : "");
      }
    }
  }

  /// What to do with several micro-batches in place of one.
  static std::string hintOn(const TensorType& expected, const TensorType& given) {
    const std::span wanted = expected.shape.dims();
    const std::span found = given.shape.dims();
    if (given.dtype != expected.dtype || wanted.empty() || wanted.size() != found.size() ||
        wanted[0] == 0 || found[0] % wanted[0] != 0 ||
        !std::ranges::equal(wanted.subspan(1), found.subspan(1))) {
      return "";
    }
    return fmt::format(
        ", which is {} times as much: deviceIterations or gradientAccumulation say how many "
        "micro-batches a call takes",
        found[0] / wanted[0]);
  }

  /// The values at this time; later ones do not count (loadStateDict and weightsFromHost say so).
  HostTensor valueOf(const ir::Variable& variable) const {
    const std::shared_ptr<nn::StateStore> store = link_->store();
    if (store != nullptr && store->contains(variable.name)) {
      return store->read(variable.name);
    }
    const auto session = std::dynamic_pointer_cast<Session>(store);
    return ir::initialValue(variable, session == nullptr ? 0 : session->seed());
  }

  std::shared_ptr<nn::StateLink> link_;
  ir::Graph graph_;
  std::size_t outputs_;
  bool constantWeights_;
  std::size_t loss_ = 0;
  std::vector<ir::OpId> ops_;  // of the inputs
  std::vector<Input> inputs_;
  Structure<std::size_t> result_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace

std::unique_ptr<GraphSource> builderSource(Builder& builder,
                                           std::optional<TensorId> loss,
                                           bool constantWeights) {
  return std::make_unique<BuilderSource>(builder, std::move(loss), constantWeights);
}

Model trainingModel(Builder& builder,
                    const TensorId& loss,
                    const Options& options,
                    const optim::Optimizer& optimizer) {
  return {builderSource(builder, loss), options, optimizer.clone()};
}

Model inferenceModel(Builder& builder, const Options& options) {
  return {builderSource(builder, std::nullopt), options, nullptr};
}

}  // namespace sluice
