// From the inputs of a call to the program for it: structures, signatures, and compiling what is
// missing.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/api/compile_plan.h"
#include "sluice/api/compile_progress.h"
#include "sluice/api/executable_cache.h"
#include "sluice/api/model_core.h"
#include "sluice/base/error.h"
#include "sluice/data/queues.h"
#include "sluice/nn/block.h"

namespace sluice {
namespace {

std::vector<BatchLayout> layoutsOfAnchors(const BatchLayout& outputs, const Options& options) {
  std::vector<BatchLayout> layouts;
  for (const Anchor& anchor : options.batch().anchors) {
    try {
      layouts.push_back(anchor.mode == OutputMode::Default
                            ? outputs
                            : outputs.withOutput(anchor.mode, anchor.period));
    } catch (Error& error) {
      error.at(fmt::format("anchorTensor '{}'", anchor.shortName));
      throw;
    }
  }
  return layouts;
}

/// Sets the flag while it lives. Throws InvalidArgument if the flag is already set.
class CompilingScope {
 public:
  explicit CompilingScope(bool& flag) : flag_(flag) {
    if (flag_) {
      raise<InvalidArgument>("the model is called by its own module while that is traced");
    }
    flag_ = true;
  }
  ~CompilingScope() { flag_ = false; }
  CompilingScope(const CompilingScope&) = delete;
  CompilingScope& operator=(const CompilingScope&) = delete;

 private:
  bool& flag_;
};

/// The mean over no samples is no loss, and an update from it would still change the weights.
void requireRowsOf(const Structure<TensorType>& signature, const std::vector<Input>& declared) {
  for (std::size_t i = 0; i < signature.size(); ++i) {
    signature[i].map(
        [](const TensorType& type, const std::string& path) {
          if (type.shape.rank() > 0 && type.shape[0] == 0) {
            raise<InvalidArgument>(
                "input '{}' has no rows, {} per micro-batch: a training step needs at least one",
                path,
                type.str());
          }
          return true;
        },
        declared[i].name);
  }
}

}  // namespace

std::int32_t ModelCore::microBatchesPerRound(const BatchLayout& layout) const {
  return static_cast<std::int32_t>(training() && !continuous() ? layout.gradientAccumulation
                                                               : layout.deviceIterations);
}

template <class L>
Structure<L> ModelCore::arrangedLeaves(std::span<const L> leaves) const {
  const std::vector<Input>& declared = source_->inputs();
  std::vector<L> all(leaves.begin(), leaves.end());
  if (!programs_.empty()) {
    const std::size_t taken = programs_.back()->signature.leaves().size();
    if (taken != all.size()) {
      raise<InvalidArgument>("the model takes {} inputs, got {}", taken, all.size());
    }
    return programs_.back()->signature.with(all);
  }
  const auto required = [](const Input& input) { return !input.byDefault; };
  if (all.size() > declared.size() ||
      std::ranges::any_of(std::span(declared).subspan(all.size()), required)) {
    raise<InvalidArgument>("the model takes {} inputs, got {}", declared.size(), all.size());
  }
  std::vector<Structure<L>> inputs(all.begin(), all.end());
  inputs.resize(declared.size());
  return Structure<L>::list(std::move(inputs));
}

HostStructure ModelCore::arranged(std::span<const HostTensor> inputs) const {
  const bool sameAgain = synthetic() && hasPrograms() && inputs.empty();
  return sameAgain ? HostStructure() : arrangedLeaves(inputs);
}

ModelCore::Signature ModelCore::arranged(std::span<const TensorType> inputs) const {
  return arrangedLeaves(inputs);
}

ModelCore::Signature ModelCore::signatureOf(const HostStructure& inputs,
                                            const BatchLayout& layout) const {
  std::vector<Signature> types;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto typeOf = [&](const HostTensor& tensor, const std::string& path) {
      const std::int64_t rows =
          layout.microBatchOf(fmt::format("input '{}'", path), tensor.shape());
      std::vector<std::int64_t> dims = tensor.shape().dims();
      if (!dims.empty()) {
        dims[0] = rows;
      }
      return TensorType{tensor.dtype(), Shape(std::move(dims))};
    };
    types.push_back(inputs[i].map(typeOf, source_->inputs()[i].name));
  }
  Signature signature = Signature::list(std::move(types));
  requireSameKind(signature);
  return signature;
}

std::int64_t ModelCore::rowsOf(const Signature& signature) {
  const std::vector<TensorType> types = signature.leaves();
  const auto batch =
      std::ranges::find_if(types, [](const TensorType& t) { return t.shape.rank() > 0; });
  return batch == types.end() ? 1 : batch->shape[0];
}

void ModelCore::requireSameKind(const Signature& signature) const {
  if (programs_.empty()) {
    return;
  }
  const Signature& first = programs_.front()->signature;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const std::string& input = source_->inputs()[i].name;
    if (const std::string other = difference(first[i], signature[i], input); !other.empty()) {
      raise<InvalidArgument>("the model was compiled for inputs of another structure: {}", other);
    }
    const std::vector<TensorType> now = signature[i].leaves();
    std::size_t leaf = 0;
    first[i].map(
        [&](const TensorType& was, const std::string& path) {
          const TensorType& is = now[leaf++];
          if (was.dtype != is.dtype || was.shape.rank() != is.shape.rank()) {
            raise<InvalidArgument>(
                "input '{}' was {} per micro-batch when the model was compiled and is {} now: "
                "another extent compiles a second program, another type or rank does not fit",
                path,
                was.str(),
                is.str());
          }
          return true;
        },
        input);
  }
}

std::vector<BatchLayout> ModelCore::outputLayouts(std::size_t outputs,
                                                  const BatchLayout& layout) const {
  std::vector<BatchLayout> layouts(outputs, layout);
  const std::vector<BatchLayout> anchors = layoutsOfAnchors(layout, options_);
  layouts.insert(layouts.end(), anchors.begin(), anchors.end());
  return layouts;
}

ModelCore::Entry ModelCore::makeEntry(const Signature& signature,
                                      const BatchLayout& layout,
                                      const Options& options,
                                      CompileProgress& progress,
                                      const Entry* before) {
  progress.begin(CompilePhase::Trace);
  FixedValues fixed;
  TracedGraph traced = graphFor(signature, &fixed);
  nn::requireLiveBlocks(traced.graph);
  // Programs with weights of a moment would push others out of the cache.
  std::optional<std::string> key =
      before == nullptr ? cacheKeyOf(traced, layout, options) : std::nullopt;
  compiler::CompileRequest request = requestOf(traced, layout, options);
  const auto onStep = [&](const std::function<bool(const std::string&)>& has) {
    requireLoadedState(has);
    alive().warn(traced.warnings, options);
  };
  request.hooks.onStep = [&](const ir::Graph& step) {
    onStep([&](const std::string& name) { return step.findVariable(name) != nullptr; });
  };
  std::optional<CacheUse> cache;
  if (key) {
    cache.emplace(CacheUse{*cache_, *std::move(key), [&](const program::StatePlan& plan) {
                             onStep([&](const std::string& n) { return plan.find(n) != nullptr; });
                           }});
  }
  CompiledProgram compiled =
      alive().compile(std::move(request), options, &progress, cache ? &*cache : nullptr);
  const std::optional<std::size_t> fetchedLoss = compiled.fetchedLoss;
  return {signature,
          layout,
          traced.outputs,
          std::move(traced.result),
          std::move(compiled),
          fetchedLoss,
          std::move(fixed)};
}

void ModelCore::requireRows(const Signature& signature) const {
  if (training()) {
    requireRowsOf(signature, source_->inputs());
  }
}

ModelCore::Entry& ModelCore::entryFor(const Signature& signature, BatchLayout layout) {
  requireRows(signature);
  layout.microBatch = rowsOf(signature);
  const auto known = std::ranges::find_if(programs_, [&](const auto& entry) {
    return entry->signature == signature && entry->layout == layout;
  });
  if (known != programs_.end() && !isOutdated(**known)) {
    return **known;
  }
  const CompilingScope scope(compiling_);
  CompileProgress progress(options_.compile().showProgressBar);
  const Entry* before = known == programs_.end() ? nullptr : known->get();
  Entry made = makeEntry(signature, layout, options_, progress, before);
  made.fixed.writes = writesOfOthers(made);
  progress.finish();
  compilationSeconds_ += progress.seconds();
  if (known != programs_.end()) {
    return **known = std::move(made);
  }
  return *programs_.emplace_back(std::make_unique<Entry>(std::move(made)));
}

ModelCore::Entry& ModelCore::entryOf(const HostStructure& inputs, const BatchLayout& layout) {
  source_->requireBuffers();
  if (synthetic() && inputs.isAbsent() && !programs_.empty()) {
    const Entry& last = *programs_.back();
    return entryFor(Signature(last.signature), last.layout);
  }
  return entryFor(signatureOf(inputs, layout), layout);
}

ModelCore::Entry& ModelCore::entryOf(data::InfeedQueue& infeed, const data::OutfeedQueue& outfeed) {
  if (synthetic() || !options_.batch().anchors.empty()) {
    raise<InvalidArgument>(
        "a model that runs on queues has neither synthetic data nor anchored tensors");
  }
  const bool last = outfeed.mode() == data::OutfeedMode::Last;
  const Signature signature = arranged(alive().typesOf(infeed));
  requireSameKind(signature);
  return entryFor(signature, layout_.withOutput(last ? OutputMode::Final : OutputMode::All, 1));
}

ModelCore::Entry& ModelCore::entryOf(const Signature& signature) {
  source_->requireBuffers();
  requireSameKind(signature);
  return entryFor(signature, layout_);
}

void ModelCore::compile(std::span<const HostTensor> inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(arranged(inputs), layout_);
}

void ModelCore::compile(const Inputs& inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(bound(inputs), layout_);
}

void ModelCore::compile(std::span<const TensorType> inputs) {
  const runtime::Turn::Hold turn = enter();
  entryOf(arranged(inputs));
}

void ModelCore::compileAgain(std::span<const HostTensor> inputs) {
  const runtime::Turn::Hold turn = enter();
  const HostStructure given = arranged(inputs);
  const Signature signature = signatureOf(given, layout_);
  for (const auto& entry : programs_) {
    entry->compilesAgain = entry->compilesAgain || entry->signature == signature;
  }
  entryOf(given, layout_);
}

void ModelCore::check(std::span<const TensorType> inputs) {
  const runtime::Turn::Hold turn = enter();
  const Signature signature = arranged(inputs);
  requireRows(signature);
  const CompilingScope scope(compiling_);
  BatchLayout layout = layout_;
  layout.microBatch = rowsOf(signature);
  TracedGraph traced = graphFor(signature);
  nn::requireLiveBlocks(traced.graph);
  alive().check(requestOf(traced, layout, options_));
}

bool ModelCore::isCompiled() const {
  const runtime::Turn::Hold turn(turn_);
  return hasPrograms();
}

double ModelCore::compilationTime() const {
  const runtime::Turn::Hold turn = enter();
  return compilationSeconds_;
}

const CompiledProgram& ModelCore::compiled() const {
  const runtime::Turn::Hold turn = enter();
  if (programs_.empty()) {
    raise<InvalidArgument>("the model is not compiled yet: call it or compile() first");
  }
  return programs_.back()->compiled;
}

}  // namespace sluice
