// conv and conv_grad_input by oneDNN: activations and weights in, activations out, tiled by images.
// Weights are taken in the format the primitives want, so that packing them can be hoisted. 16-bit
// floats that the machine does not multiply are converted to float32 here, weights as a whole and
// activations strip by strip.
#include <algorithm>
#include <array>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/conv_ways.h"
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

/// Where things lie in scratch. For 16-bit floats: the weights in float32 come first, and each tile
/// has a strip of the activation and of the output.
struct ScratchPlan {
  std::size_t packed = 0;  ///< weights
  std::size_t tiles = 0;
  std::size_t output = 0;  ///< in a tile, behind the activation
  std::size_t pad = 0;     ///< in a tile
  std::size_t perTile = 0;
  std::size_t total = 0;
};

ScratchPlan scratchOf(const ConvPlan& plan, DType storage) {
  ScratchPlan s;
  if (storage != plan.compute) {
    const bool forward = plan.pass == ConvPass::Forward;
    s.packed = alignedBytes(plan.plainWeights.get_size());
    s.tiles = s.packed + alignedBytes(plan.weights.get_size());
    s.output = floats(plan.strip() * (forward ? plan.xPerImage() : plan.yPerImage()));
    s.pad = s.output + floats(plan.strip() * (forward ? plan.yPerImage() : plan.xPerImage()));
  }
  s.perTile = s.pad + plan.perTile;
  s.total = s.tiles + s.perTile * plan.tiles.size();
  return s;
}

class Conv : public TiledKernel {
 public:
  Conv(const ir::OpView& op, const ConvPlan& plan)
      : storage_(op.inputs[0].dtype),
        converts_(storage_ != plan.compute),
        elementBytes_(static_cast<std::int64_t>(byteSize(storage_))),
        roles_(rolesOf(plan.pass)),
        scratch_(scratchOf(plan, storage_)),
        weightCount_(op.inputs[roles_.weights].shape.elements()),
        inputPerImage_(op.inputs[roles_.activation].shape.elements() / plan.dims.batch),
        outputPerImage_(op.outputs[0].shape.elements() / plan.dims.batch) {
    for (const ConvTile& tile : plan.tiles) {
      tiles_.push_back({tile.first, tile.count, tile.strip, {}});
      tiles_.back().calls.push_back(callOf(tile.desc));
      if (tile.rest) {
        tiles_.back().calls.push_back(callOf(tile.rest));
      }
    }
    if (converts_ && plan.weights != plan.plainWeights) {
      pack_.push_back(onednn::reorderCall(plan.plainWeights, plan.weights));
    }
  }

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    const void* weights = converts_ ? widenWeights(run) : run.in<void>(roles_.weights);
    run.workers.parallelFor(static_cast<std::int64_t>(tiles_.size()), [&](std::int64_t i) {
      Tile& tile = tiles_[static_cast<std::size_t>(i)];
      std::byte* scratch = static_cast<std::byte*>(run.scratch) + scratch_.tiles +
                           static_cast<std::size_t>(i) * scratch_.perTile;
      for (std::int64_t done = 0; done < tile.count; done += tile.strip) {
        const std::int64_t images = std::min(tile.strip, tile.count - done);
        const Strip strip{tile.first + done, images, scratch};
        runStrip(run, tile.calls[images == tile.strip ? 0 : 1], weights, strip);
      }
      epilogue({tile.first * outputPerImage_, (tile.first + tile.count) * outputPerImage_});
    });
  }

 private:
  struct Tile {
    std::int64_t first;
    std::int64_t count;
    std::int64_t strip;
    std::vector<Call> calls;  ///< for whole strips and for the rest
  };
  struct Strip {
    std::int64_t first;
    std::int64_t images;
    std::byte* scratch;  ///< of its tile
  };

  Call callOf(const dnnl::primitive_desc_base& primitive) const {
    const auto desc = [&](int argument) {
      return primitive.query_md(dnnl::query::exec_arg_md, argument);
    };
    const std::array<Call::Argument, 4> arguments = {
        {{roles_.source, desc(roles_.source)},
         {DNNL_ARG_WEIGHTS, desc(DNNL_ARG_WEIGHTS)},
         {roles_.target, desc(roles_.target)},
         {DNNL_ARG_SCRATCHPAD, desc(DNNL_ARG_SCRATCHPAD)}}};
    return {dnnl::primitive(primitive.get()), arguments};
  }

  /// The weights in float32, packed.
  const float* widenWeights(const KernelRun& run) {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    auto* wide = reinterpret_cast<float*>(scratch);
    toFloat(storage_, run.in<void>(roles_.weights), wide, weightCount_, run.workers);
    if (pack_.empty()) {
      return wide;
    }
    auto* packed = reinterpret_cast<float*>(scratch + scratch_.packed);
    const std::array<const void*, 2> addresses = {wide, packed};
    pack_[0].run(addresses);
    return packed;
  }

  void runStrip(const KernelRun& run, Call& call, const void* weights, const Strip& strip) const {
    const std::int64_t from = strip.first * inputPerImage_;
    const std::int64_t to = strip.first * outputPerImage_;
    void* pad = strip.scratch + scratch_.pad;
    if (!converts_) {
      const std::array<const void*, 4> addresses = {
          run.in<std::byte>(roles_.activation) + from * elementBytes_,
          weights,
          run.out<std::byte>(0) + to * elementBytes_,
          pad};
      call.run(addresses);
      return;
    }
    auto* in = reinterpret_cast<float*>(strip.scratch);
    auto* out = reinterpret_cast<float*>(strip.scratch + scratch_.output);
    toFloat(storage_,
            run.in<std::uint16_t>(roles_.activation) + from,
            in,
            strip.images * inputPerImage_);
    const std::array<const void*, 4> addresses = {in, weights, out, pad};
    call.run(addresses);
    fromFloat(storage_, out, run.out<std::uint16_t>(0) + to, strip.images * outputPerImage_);
  }

  DType storage_;
  bool converts_;
  std::int64_t elementBytes_;
  Roles roles_;
  ScratchPlan scratch_;
  std::int64_t weightCount_;
  std::int64_t inputPerImage_;
  std::int64_t outputPerImage_;
  std::vector<Tile> tiles_;
  std::vector<Call> pack_;  ///< one or none
};

}  // namespace

device::Choice chooseConv(const ir::OpView& op, const device::Tuning& tuning) {
  if (const auto* way = wayOf(imageWays(), op, tuning)) {
    return way->choose(op);
  }
  const ConvConfig config = chooseConvConfig(op, tuning);
  const std::optional<ConvPlan> plan = planConv(op, config);
  if (!plan) {
    raise<ConfigFileError>("{}: this library cannot do '{}'", convKey(op), config.str());
  }
  const Roles roles = rolesOf(plan->pass);
  const bool converts = op.inputs[0].dtype != plan->compute;
  const bool forward = plan->pass == ConvPass::Forward;
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[roles.activation] = activationLayout(
      op.inputs[roles.activation], forward ? config.xChannelsLast : config.yChannelsLast);
  if (!converts) {
    choice.inputs[roles.weights] = onednn::layoutOf(plan->weights);
  }
  choice.outputs[0] =
      activationLayout(op.outputs[0], forward ? config.yChannelsLast : config.xChannelsLast);
  choice.scratchBytes = scratchOf(*plan, op.inputs[0].dtype).total;
  choice.config = config.str();
  return choice;
}

std::unique_ptr<TiledKernel> makeTiledConv(const ir::OpView& op, const device::Choice& choice) {
  if (const auto* way = wayNamed(imageWays(), choice.config)) {
    return way->make(op);
  }
  const onednn::OneThread oneThread;
  std::optional<ConvPlan> plan = planConv(op, parseConvConfig(choice.config));
  const DType storage = op.inputs[0].dtype;
  if (!plan || scratchOf(*plan, storage).total != choice.scratchBytes ||
      (storage == plan->compute &&
       onednn::layoutOf(plan->weights) != choice.inputs[rolesOf(plan->pass).weights])) {
    raise<Unsupported>("{}: this oneDNN does not do what was planned", op.def.name);
  }
  return std::make_unique<Conv>(op, std::move(*plan));
}

std::unique_ptr<Kernel> makeConv(const ir::OpView& op, const device::Choice& choice) {
  return makeTiledConv(op, choice);
}

}  // namespace sluice::devices::cpu
