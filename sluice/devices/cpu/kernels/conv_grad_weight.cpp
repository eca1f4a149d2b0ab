// conv_grad_weight by oneDNN: one primitive per grain of the batch, each into its own copy of the
// gradient; the copies are added in the order of the grains and then stored as plain weights. The
// grains depend on the shape only, so the sum does not depend on the number of threads. Gradients
// are float32 until they are stored. Grains of 16-bit floats that the machine does not multiply are
// converted strip by strip, whose gradients are added in their order.
#include <algorithm>
#include <array>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/conv_ways.h"
#include "sluice/devices/cpu/kernels/convert.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

using onednn::alignedBytes;
using onednn::Call;

constexpr std::int64_t kSumGrain = 1 << 14;
/// Weights that are picked up one by one in less time than a call of the library takes.
constexpr std::int64_t kFewWeights = 512;

struct ScratchPlan {
  std::size_t perSum = 0;  ///< the sums come first
  std::size_t plain = 0;   ///< for 16-bit floats: the gradient in float32, plain
  std::size_t tiles = 0;
  // In a tile: after the strip of x those of dy and of the gradient; all only where operands are
  // converted.
  std::size_t dy = 0;
  std::size_t part = 0;
  std::size_t pad = 0;
  std::size_t perTile = 0;
  std::size_t total = 0;
};

/// Whether the first grain can write to the output itself.
bool directOutput(const ConvPlan& plan, DType storage) {
  return storage == DType::F32 && plan.weights == plan.plainWeights;
}

ScratchPlan scratchOf(const ConvPlan& plan, DType storage) {
  const auto floats = [](std::int64_t count) {
    return alignedBytes(static_cast<std::size_t>(count) * sizeof(float));
  };
  ScratchPlan s;
  s.perSum = alignedBytes(plan.weights.get_size());
  s.plain = s.perSum * (plan.tiles.size() - (directOutput(plan, storage) ? 1 : 0));
  s.tiles = s.plain;
  if (storage != DType::F32) {
    s.tiles += alignedBytes(plan.plainWeights.get_size());
  }
  if (storage != plan.compute) {
    s.dy = floats(plan.strip() * plan.xPerImage());
    s.part = s.dy + floats(plan.strip() * plan.yPerImage());
    s.pad = s.part + (plan.tiles[0].hasStrips() ? s.perSum : 0);
  }
  s.perTile = s.pad + plan.perTile;
  s.total = s.tiles + s.perTile * plan.tiles.size();
  return s;
}

class ConvGradWeight : public Kernel {
 public:
  ConvGradWeight(const ir::OpView& op, const ConvPlan& plan)
      : storage_(op.inputs[0].dtype),
        converts_(storage_ != plan.compute),
        elementBytes_(static_cast<std::int64_t>(byteSize(storage_))),
        direct_(directOutput(plan, storage_)),
        scratch_(scratchOf(plan, storage_)),
        perImageX_(plan.xPerImage()),
        perImageY_(plan.yPerImage()),
        sumCount_(static_cast<std::int64_t>(plan.weights.get_size() / sizeof(float))),
        outputCount_(op.outputs[0].shape.elements()) {
    for (const ConvTile& tile : plan.tiles) {
      grains_.push_back({tile.first, tile.count, tile.strip, {}});
      grains_.back().calls.push_back(callOf(tile.desc));
      if (tile.rest) {
        grains_.back().calls.push_back(callOf(tile.rest));
      }
    }
    if (plan.weights != plan.plainWeights) {
      unpack_.push_back(onednn::reorderCall(plan.weights, plan.plainWeights));
      if (outputCount_ <= kFewWeights) {
        findPlaces();
      }
    }
  }

  void run(const KernelRun& run) override {
    run.workers.parallelFor(static_cast<std::int64_t>(grains_.size()),
                            [&](std::int64_t i) { runGrain(run, static_cast<std::size_t>(i)); });
    addGrains(run);
    store(run);
  }

 private:
  struct Grain {
    std::int64_t first;
    std::int64_t count;
    std::int64_t strip;
    std::vector<Call> calls;  ///< for whole strips and for the rest
  };

  bool rounds() const { return storage_ != DType::F32; }

  static Call callOf(const dnnl::primitive_desc_base& primitive) {
    const auto argument = [&](int index) {
      return Call::Argument{index, primitive.query_md(dnnl::query::exec_arg_md, index)};
    };
    const std::array<Call::Argument, 4> arguments = {argument(DNNL_ARG_SRC),
                                                     argument(DNNL_ARG_DIFF_DST),
                                                     argument(DNNL_ARG_DIFF_WEIGHTS),
                                                     argument(DNNL_ARG_SCRATCHPAD)};
    return {dnnl::primitive(primitive.get()), arguments};
  }

  void runGrain(const KernelRun& run, std::size_t i) {
    Grain& grain = grains_[i];
    std::byte* scratch =
        static_cast<std::byte*>(run.scratch) + scratch_.tiles + i * scratch_.perTile;
    float* whole = sum(run, i);
    if (!converts_) {
      const std::array<const void*, 4> addresses = {
          run.in<std::byte>(0) + grain.first * perImageX_ * elementBytes_,
          run.in<std::byte>(1) + grain.first * perImageY_ * elementBytes_,
          whole,
          scratch + scratch_.pad};
      grain.calls[0].run(addresses);
      return;
    }
    auto* x = reinterpret_cast<float*>(scratch);
    auto* dy = reinterpret_cast<float*>(scratch + scratch_.dy);
    auto* part = reinterpret_cast<float*>(scratch + scratch_.part);
    for (std::int64_t done = 0; done < grain.count; done += grain.strip) {
      const std::int64_t images = std::min(grain.strip, grain.count - done);
      const std::int64_t first = grain.first + done;
      const auto* from = run.in<std::uint16_t>(0) + first * perImageX_;
      toFloat(storage_, from, x, images * perImageX_);
      const auto* gradient = run.in<std::uint16_t>(1) + first * perImageY_;
      toFloat(storage_, gradient, dy, images * perImageY_);
      const std::array<const void*, 4> addresses = {
          x, dy, done == 0 ? whole : part, scratch + scratch_.pad};
      grain.calls[images == grain.strip ? 0 : 1].run(addresses);
      for (std::int64_t e = 0; done > 0 && e < sumCount_; ++e) {
        whole[e] += part[e];
      }
    }
  }

  /// The copy of grain i; the first one becomes the whole sum.
  float* sum(const KernelRun& run, std::size_t i) const {
    if (direct_ && i == 0) {
      return run.out<float>(0);
    }
    return reinterpret_cast<float*>(static_cast<std::byte*>(run.scratch) +
                                    (i - (direct_ ? 1 : 0)) * scratch_.perSum);
  }

  void addGrains(const KernelRun& run) const {
    if (grains_.size() == 1) {
      return;
    }
    run.workers.parallelFor((sumCount_ + kSumGrain - 1) / kSumGrain, [&](std::int64_t part) {
      const std::int64_t begin = part * kSumGrain;
      const std::int64_t end = std::min(sumCount_, begin + kSumGrain);
      float* to = sum(run, 0);
      for (std::size_t g = 1; g < grains_.size(); ++g) {
        const float* from = sum(run, g);
        for (std::int64_t i = begin; i < end; ++i) {
          to[i] += from[i];
        }
      }
    });
  }

  /// Has the library unpack the numbers of the places, which floats hold exactly.
  void findPlaces() {
    std::vector<float> packed(static_cast<std::size_t>(sumCount_));
    std::iota(packed.begin(), packed.end(), 0.0F);
    std::vector<float> plain(static_cast<std::size_t>(outputCount_));
    const std::array<const void*, 2> addresses = {packed.data(), plain.data()};
    unpack_[0].run(addresses);
    places_.assign(plain.begin(), plain.end());
  }

  void unpack(const float* from, float* to) {
    if (places_.empty()) {
      const std::array<const void*, 2> addresses = {from, to};
      unpack_[0].run(addresses);
      return;
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      to[i] = from[places_[i]];
    }
  }

  /// From the format of the primitives to the output's.
  void store(const KernelRun& run) {
    if (direct_) {
      return;
    }
    const float* from = sum(run, 0);
    auto* plain =
        rounds() ? reinterpret_cast<float*>(static_cast<std::byte*>(run.scratch) + scratch_.plain)
                 : run.out<float>(0);
    if (!unpack_.empty()) {
      unpack(from, plain);
      from = plain;
    }
    if (rounds()) {
      fromFloat(storage_, from, run.out<void>(0), outputCount_);
    }
  }

  DType storage_;
  bool converts_;
  std::int64_t elementBytes_;
  bool direct_;
  ScratchPlan scratch_;
  std::int64_t perImageX_;
  std::int64_t perImageY_;
  std::int64_t sumCount_;
  std::int64_t outputCount_;
  std::vector<Grain> grains_;
  std::vector<Call> unpack_;           ///< one or none
  std::vector<std::uint32_t> places_;  ///< of the weights in the packed gradient, if they are few
};

}  // namespace

device::Choice chooseConvGradWeight(const ir::OpView& op, const device::Tuning& tuning) {
  if (const auto* way = wayOf(weightWays(), op, tuning)) {
    return way->choose(op);
  }
  const ConvConfig config = chooseConvConfig(op, tuning);
  const std::optional<ConvPlan> plan = planConv(op, config);
  if (!plan) {
    raise<ConfigFileError>("{}: this library cannot do '{}'", convKey(op), config.str());
  }
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[0] = activationLayout(op.inputs[0], config.xChannelsLast);
  choice.inputs[1] = activationLayout(op.inputs[1], config.yChannelsLast);
  choice.scratchBytes = scratchOf(*plan, op.inputs[0].dtype).total;
  choice.config = config.str();
  return choice;
}

std::unique_ptr<Kernel> makeConvGradWeight(const ir::OpView& op, const device::Choice& choice) {
  if (const auto* way = wayNamed(weightWays(), choice.config)) {
    return way->make(op);
  }
  const onednn::OneThread oneThread;
  const std::optional<ConvPlan> plan = planConv(op, parseConvConfig(choice.config));
  if (!plan || scratchOf(*plan, op.inputs[0].dtype).total != choice.scratchBytes) {
    raise<Unsupported>("{}: this oneDNN does not do what was planned", op.def.name);
  }
  return std::make_unique<ConvGradWeight>(op, *plan);
}

}  // namespace sluice::devices::cpu
