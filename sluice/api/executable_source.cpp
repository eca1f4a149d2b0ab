#include "sluice/api/executable_source.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

std::string textOf(const Structure<TensorType>& signature) {
  std::vector<std::string> types;
  for (const TensorType& type : signature.leaves()) {
    types.push_back(type.str());
  }
  return fmt::format("({})", fmt::join(types, ", "));
}

class ExecutableSource : public GraphSource {
 public:
  explicit ExecutableSource(std::shared_ptr<const ExecutableFile> file)
      : file_(std::move(file)), variables_(content().variables) {
    for (const StoredProgram& program : content().programs) {
      signatures_.push_back(program.signature);
    }
    for (ir::Variable& variable : variables_) {  // their values are in the file
      variable.initializer = ir::Initializer::constant(0);
    }
  }

  TracedGraph trace(const TraceRequest& request) const override {
    std::vector<std::string> known;
    for (std::size_t p = 0; p < signatures_.size(); ++p) {
      if (signatures_[p] == request.inputs) {
        return graph(p);
      }
      known.push_back(textOf(signatures_[p]));
    }
    raise<InvalidArgument>(
        "executable '{}' has programs for inputs of the types {} per micro-batch, not {}: save it "
        "again from a model that was also compiled for them",
        file_->name(),
        fmt::join(known, " and "),
        textOf(request.inputs));
  }

  std::shared_ptr<Session> session(const Options& options) override {
    const std::scoped_lock lock(mutex_);
    if (session_ == nullptr) {
      session_ = std::make_shared<Session>(options, options.randomSeed().value_or(content().seed));
    }
    return session_;
  }
  void setSession(std::shared_ptr<Session> session) override {
    const std::scoped_lock lock(mutex_);
    session_ = std::move(session);
  }
  void release() override { setSession(nullptr); }
  void requireBuffers() const override {}
  std::vector<ir::Variable> variables() const override { return variables_; }
  bool hasConstantWeights() const override { return content().constantWeights; }
  nn::Module* module() override { return nullptr; }
  bool madeOfModule() override { return content().madeOfModule; }
  const std::vector<Input>& inputs() const override { return content().inputs; }
  std::string summary() const override {
    return variableTable(fmt::format("executable '{}'", file_->name()), content().variables);
  }

 private:
  const ExecutableContent& content() const { return file_->content(); }

  /// The graph of a program, which takes the inputs that its program is called with.
  TracedGraph graph(std::size_t program) const {
    TracedGraph traced = file_->graph(program);
    std::vector<TensorType> inputs;
    for (const ir::OpId id : traced.graph.inputs()) {
      inputs.push_back(traced.graph.op(id).outputs[0]);
    }
    if (inputs != signatures_[program].leaves()) {
      raise<FileError>(
          "executable '{}': graph {} takes other inputs than its program", file_->name(), program);
    }
    return traced;
  }

  std::shared_ptr<const ExecutableFile> file_;
  std::vector<ir::Variable> variables_;
  std::vector<Structure<TensorType>> signatures_;  // of the programs, which are taken out
  std::mutex mutex_;                               // guards the session
  std::shared_ptr<Session> session_;
};

}  // namespace

std::unique_ptr<GraphSource> executableSource(std::shared_ptr<const ExecutableFile> file) {
  return std::make_unique<ExecutableSource>(std::move(file));
}

}  // namespace sluice
