// `fused` with an anchor: the anchor's own kernel computes tiles of its result, the element-wise
// engine carries each one on while it is in cache. The anchor's choice is the one it has alone, so
// its bits are the same (rules R2 and R5). Its result lies in the memory of one of the outputs, or
// in scratch where none has elements of that size.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/block_run.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/tiled.h"
#include "sluice/ops/fused.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;

constexpr std::size_t kAlign = 64;

/// The anchor as an op of its own.
struct Anchor {
  const ir::Op& op;
  std::vector<TensorType> types;
  std::vector<std::size_t> sources;  ///< which operand of the fused op each of its operands is

  ir::OpView view() const { return ir::view(op, types); }
};

/// The anchor, if its operands are distinct operands of the fused op that nothing else reads: their
/// layouts are the anchor's alone.
std::optional<Anchor> findAnchor(const ir::OpView& fused) {
  const ir::Graph& body = fused.attrs.subgraph("body");
  const ir::Op* op = ops::anchorOf(body);
  if (op == nullptr || !ops::ownsItsOperands(body, *op)) {
    return std::nullopt;
  }
  Anchor anchor{*op, body.inputTypes(*op), {}};
  const std::vector<ir::OpId> inputs = body.inputs();
  for (const ir::Value value : op->inputs) {
    const auto at = std::ranges::find(inputs, value.op);
    anchor.sources.push_back(static_cast<std::size_t>(at - inputs.begin()));
  }
  return anchor;
}

/// nullptr: the op's plain loops serve.
const KernelEntry* entryOf(const ir::OpView& op) {
  for (const KernelEntry& entry : kernelEntries()) {
    if (entry.op == op.def.name && (entry.supports == nullptr || entry.supports(op))) {
      return &entry;
    }
  }
  return nullptr;
}

Choice chooseAnchor(const ir::OpView& op, const device::Tuning& tuning) {
  const KernelEntry* entry = entryOf(op);
  Choice choice = entry != nullptr && entry->choose != nullptr ? entry->choose(op, tuning)
                                                               : device::plainChoice(op, "");
  choice.implementation = entry != nullptr ? entry->implementation : "";
  return choice;
}

/// The anchor's choice out of that of the fused op.
Choice anchorPart(const Anchor& anchor, const Choice& choice, std::size_t scratchBytes) {
  const KernelEntry* entry = entryOf(anchor.view());
  Choice part{.implementation = std::string(entry != nullptr ? entry->implementation : ""),
              .inputs = {},
              .outputs = {choice.outputs[0]},
              .scratchBytes = scratchBytes,
              .config = choice.config};
  for (const std::size_t source : anchor.sources) {
    part.inputs.push_back(choice.inputs[source]);
  }
  return part;
}

/// The output whose memory the anchor's result takes first.
std::optional<std::size_t> homeOf(const ir::OpView& fused,
                                  const Anchor& anchor,
                                  const Epilogue& epilogue) {
  if (epilogue.kept) {
    return epilogue.kept;
  }
  const std::size_t bytes = byteSize(anchor.op.outputs[0].dtype);
  for (std::size_t i = 0; i < fused.outputs.size(); ++i) {
    if (byteSize(fused.outputs[i].dtype) == bytes) {
      return i;
    }
  }
  return std::nullopt;
}

std::size_t resultBytes(const Anchor& anchor) {
  return (anchor.op.outputs[0].bytes() + kAlign - 1) / kAlign * kAlign;
}

std::optional<BlockProgram> compileEpilogue(const Epilogue& epilogue,
                                            const Anchor& anchor,
                                            const Choice& choice) {
  std::vector<Layout> layouts;
  for (const std::size_t source : epilogue.body.sources) {
    layouts.push_back(source == BlockBody::kAnchor ? choice.outputs[0] : choice.inputs[source]);
  }
  return compileBlocks(epilogue.body, layouts, {anchor.op.outputs[0].shape, choice.outputs[0]});
}

class FusedAnchor : public Kernel {
 public:
  FusedAnchor(const ir::OpView& op,
              const Anchor& anchor,
              const Epilogue& epilogue,
              const Choice& choice)
      : program_(*compileEpilogue(epilogue, anchor, choice)),
        inputSources_(epilogue.body.sources),
        outputTargets_(epilogue.body.targets),
        home_(homeOf(op, anchor, epilogue)),
        resultBytes_(home_ ? 0 : resultBytes(anchor)),
        def_(*anchor.op.def),
        attrs_(anchor.op.attrs),
        types_(anchor.types),
        resultTypes_(anchor.op.outputs),
        sources_(anchor.sources),
        anchorInputs_(sources_.size()),
        inputs_(inputSources_.size()),
        outputs_(outputTargets_.size()) {
    const ir::OpView view = anchor.view();
    const Choice part = anchorPart(anchor, choice, choice.scratchBytes - resultBytes_);
    tiled_ = makeTiled(view, part);
    if (const KernelEntry* entry = entryOf(view); tiled_ == nullptr && entry != nullptr) {
      whole_ = entry->make(view, part);
    }
    if (tiled_ != nullptr) {
      // A tile of the anchor's result has just been written.
      std::erase_if(program_.streams, [&](std::size_t operand) {
        return inputSources_[operand] == BlockBody::kAnchor;
      });
    }
  }

  void run(const KernelRun& run) override {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    void* result = home_ ? run.outputs[*home_] : scratch;
    bind(run, result);
    const std::array<void*, 1> results = {result};
    const KernelRun anchor{anchorInputs_, results, scratch + resultBytes_, run.info, run.workers};
    if (tiled_ != nullptr) {
      tiled_->runTiles(anchor, [&](const OutputTile& tile) {
        runBlocks(program_, {inputs_, outputs_}, tile.begin, tile.end);
      });
      return;
    }
    if (whole_ != nullptr) {
      whole_->run(anchor);
    } else {
      def_.reference({{def_, attrs_, types_, resultTypes_}, anchorInputs_, results, run.info});
    }
    runBlocks(program_, {inputs_, outputs_}, run.workers);
  }

 private:
  void bind(const KernelRun& run, void* result) {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      anchorInputs_[i] = run.inputs[sources_[i]];
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::size_t source = inputSources_[i];
      inputs_[i] = source == BlockBody::kAnchor ? result : run.inputs[source];
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i] = run.outputs[outputTargets_[i]];
    }
  }

  BlockProgram program_;
  std::vector<std::size_t> inputSources_;
  std::vector<std::size_t> outputTargets_;
  std::optional<std::size_t> home_;
  std::size_t resultBytes_;  ///< of scratch, in front of the anchor's own
  const ir::OpDef& def_;
  ir::Attrs attrs_;
  std::vector<TensorType> types_;
  std::vector<TensorType> resultTypes_;
  std::vector<std::size_t> sources_;
  std::vector<const void*> anchorInputs_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
  std::unique_ptr<TiledKernel> tiled_;
  std::unique_ptr<Kernel> whole_;  ///< if the anchor has no tiles
};

}  // namespace

bool supportsFusedAnchor(const ir::OpView& op) {
  const std::optional<Anchor> anchor = findAnchor(op);
  return anchor &&
         compileEpilogue(epilogueOf(op, anchor->op), *anchor, device::plainChoice(op, ""));
}

device::Choice chooseFusedAnchor(const ir::OpView& op, const device::Tuning& tuning) {
  const Anchor anchor = *findAnchor(op);
  const Choice own = chooseAnchor(anchor.view(), tuning);
  Choice choice = device::plainChoice(op, "");
  const Layout& layout = own.outputs[0];
  SLUICE_CHECK(layout.kind != Layout::Kind::Opaque, "an opaque result of {}", anchor.op.def->name);
  const std::int64_t rank = op.outputs[0].shape.rank();
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    choice.inputs[i] = op.inputs[i].shape.rank() == rank ? layout : Layout::plain();
  }
  for (std::size_t i = 0; i < anchor.sources.size(); ++i) {
    choice.inputs[anchor.sources[i]] = own.inputs[i];
  }
  std::ranges::fill(choice.outputs, layout);
  choice.config = own.config;
  const bool inOutput = homeOf(op, anchor, epilogueOf(op, anchor.op)).has_value();
  choice.scratchBytes = own.scratchBytes + (inOutput ? 0 : resultBytes(anchor));
  return choice;
}

std::unique_ptr<Kernel> makeFusedAnchor(const ir::OpView& op, const device::Choice& choice) {
  const std::optional<Anchor> anchor = findAnchor(op);
  SLUICE_CHECK(anchor.has_value(), "fused without an anchor of its own operands");
  return std::make_unique<FusedAnchor>(op, *anchor, epilogueOf(op, anchor->op), choice);
}

}  // namespace sluice::devices::cpu
