// conv and conv_grad_input by oneDNN: activations and weights in, activations out, tiled by images.
// Weights are taken in the format the primitives want, so that packing them can be hoisted; 16-bit
// floats are converted to float32 and packed here.
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/conv_taps.h"
#include "sluice/devices/cpu/kernels/convert.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/tiled.h"

namespace sluice::devices::cpu {
namespace {

using onednn::alignedBytes;
using onednn::Call;

constexpr std::size_t kFloat = sizeof(float);

std::size_t floats(std::int64_t count) {
  return alignedBytes(static_cast<std::size_t>(count) * kFloat);
}

/// The two passes differ in the order of their operands.
struct Roles {
  std::size_t activation;
  std::size_t weights;
  int source;
  int target;
};

Roles rolesOf(ConvPass pass) {
  return pass == ConvPass::Forward ? Roles{0, 1, DNNL_ARG_SRC, DNNL_ARG_DST}
                                   : Roles{1, 0, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
}

/// Where things lie in scratch; the first three are only there for 16-bit floats.
struct ScratchPlan {
  std::size_t weights = 0;  ///< after the activation
  std::size_t packed = 0;
  std::size_t output = 0;
  std::size_t tiles = 0;
  std::size_t total = 0;
};

ScratchPlan scratchOf(const ConvPlan& plan, bool converts) {
  ScratchPlan s;
  if (converts) {
    const bool forward = plan.pass == ConvPass::Forward;
    s.weights = floats(forward ? plan.xElements() : plan.yElements());
    s.packed = s.weights + alignedBytes(plan.plainWeights.get_size());
    s.output = s.packed + alignedBytes(plan.weights.get_size());
    s.tiles = s.output + floats(forward ? plan.yElements() : plan.xElements());
  }
  s.total = s.tiles + plan.perTile * plan.tiles.size();
  return s;
}

class Conv : public TiledKernel {
 public:
  Conv(const ir::OpView& op, const ConvPlan& plan)
      : storage_(op.inputs[0].dtype),
        roles_(rolesOf(plan.pass)),
        scratch_(scratchOf(plan, converts())),
        perTile_(plan.perTile),
        inputCount_(op.inputs[roles_.activation].shape.elements()),
        weightCount_(op.inputs[roles_.weights].shape.elements()),
        outputCount_(op.outputs[0].shape.elements()),
        images_(plan.dims.batch) {
    for (const ConvTile& tile : plan.tiles) {
      const auto desc = [&](int argument) {
        return tile.desc.query_md(dnnl::query::exec_arg_md, argument);
      };
      const std::array<Call::Argument, 4> arguments = {
          {{roles_.source, desc(roles_.source)},
           {DNNL_ARG_WEIGHTS, desc(DNNL_ARG_WEIGHTS)},
           {roles_.target, desc(roles_.target)},
           {DNNL_ARG_SCRATCHPAD, desc(DNNL_ARG_SCRATCHPAD)}}};
      tiles_.push_back({tile.first, tile.count, Call(dnnl::primitive(tile.desc.get()), arguments)});
    }
    if (converts() && plan.weights != plan.plainWeights) {
      pack_.push_back(onednn::reorderCall(plan.plainWeights, plan.weights));
    }
  }

  void runTiles(const device::KernelRun& run,
                FunctionRef<void(const OutputTile&)> epilogue) override {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    const auto* in = run.in<float>(roles_.activation);
    const auto* weights = run.in<float>(roles_.weights);
    auto* out = run.out<float>(0);
    if (converts()) {
      widen(run, in, weights);
      out = reinterpret_cast<float*>(scratch + scratch_.output);
    }
    const std::int64_t perImage = outputCount_ / images_;
    run.workers.parallelFor(static_cast<std::int64_t>(tiles_.size()), [&](std::int64_t i) {
      Tile& tile = tiles_[static_cast<std::size_t>(i)];
      const std::array<const void*, 4> addresses = {
          in + tile.first * (inputCount_ / images_),
          weights,
          out + tile.first * perImage,
          scratch + scratch_.tiles + static_cast<std::size_t>(i) * perTile_};
      tile.call.run(addresses);
      const OutputTile output{tile.first * perImage, (tile.first + tile.count) * perImage};
      if (converts()) {
        fromFloat(storage_,
                  out + output.begin,
                  run.out<std::uint16_t>(0) + output.begin,
                  output.end - output.begin);
      }
      epilogue(output);
    });
  }

 private:
  struct Tile {
    std::int64_t first;
    std::int64_t count;
    Call call;
  };

  bool converts() const { return storage_ != DType::F32; }

  /// The operands in float32, the weights packed.
  void widen(const device::KernelRun& run, const float*& in, const float*& weights) {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    auto* wideIn = reinterpret_cast<float*>(scratch);
    auto* wideWeights = reinterpret_cast<float*>(scratch + scratch_.weights);
    toFloat(storage_, in, wideIn, inputCount_, run.workers);
    toFloat(storage_, weights, wideWeights, weightCount_, run.workers);
    in = wideIn;
    weights = wideWeights;
    if (!pack_.empty()) {
      auto* packed = reinterpret_cast<float*>(scratch + scratch_.packed);
      const std::array<const void*, 2> addresses = {wideWeights, packed};
      pack_[0].run(addresses);
      weights = packed;
    }
  }

  DType storage_;
  Roles roles_;
  ScratchPlan scratch_;
  std::size_t perTile_;
  std::int64_t inputCount_;
  std::int64_t weightCount_;
  std::int64_t outputCount_;
  std::int64_t images_;
  std::vector<Tile> tiles_;
  std::vector<Call> pack_;  ///< one or none
};

}  // namespace

device::Choice chooseConv(const ir::OpView& op, const device::Tuning& tuning) {
  const auto entry = tuning.find(convKey(op));
  if (entry == tuning.end() ? likesTaps(op) : entry->second == kTapsConfig) {
    if (!canMultiplyTaps(op)) {
      raise<ConfigFileError>("{}: '{}' cannot be done", convKey(op), kTapsConfig);
    }
    return chooseTaps(op);
  }
  const ConvConfig config = chooseConvConfig(op, tuning);
  const std::optional<ConvPlan> plan = planConv(op, config);
  if (!plan) {
    raise<ConfigFileError>("{}: this library cannot do '{}'", convKey(op), config.str());
  }
  const Roles roles = rolesOf(plan->pass);
  const bool converts = op.inputs[0].dtype != DType::F32;
  const bool forward = plan->pass == ConvPass::Forward;
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[roles.activation] = activationLayout(
      op.inputs[roles.activation], forward ? config.xChannelsLast : config.yChannelsLast);
  if (!converts) {
    choice.inputs[roles.weights] = onednn::layoutOf(plan->weights);
  }
  choice.outputs[0] =
      activationLayout(op.outputs[0], forward ? config.yChannelsLast : config.xChannelsLast);
  choice.scratchBytes = scratchOf(*plan, converts).total;
  choice.config = config.str();
  return choice;
}

std::unique_ptr<TiledKernel> makeTiledConv(const ir::OpView& op, const device::Choice& choice) {
  if (choice.config == kTapsConfig) {
    return makeTaps(op);
  }
  const onednn::OneThread oneThread;
  std::optional<ConvPlan> plan = planConv(op, parseConvConfig(choice.config));
  const bool converts = op.inputs[0].dtype != DType::F32;
  if (!plan || scratchOf(*plan, converts).total != choice.scratchBytes ||
      (!converts &&
       onednn::layoutOf(plan->weights) != choice.inputs[rolesOf(plan->pass).weights])) {
    raise<Unsupported>("{}: this oneDNN does not do what was planned", op.def.name);
  }
  return std::make_unique<Conv>(op, std::move(*plan));
}

std::unique_ptr<device::Kernel> makeConv(const ir::OpView& op, const device::Choice& choice) {
  return makeTiledConv(op, choice);
}

}  // namespace sluice::devices::cpu
