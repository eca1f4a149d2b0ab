#include "sluice/devices/cpu/kernels/conv_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/conv_ways.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"

namespace sluice::devices::cpu {
namespace {

using dnnl::memory;

constexpr std::int64_t kMaxTiles = 8;

/// Fewer floating-point operations per tile, some 80 microseconds, are not worth a thread.
struct TileRule {
  double flops;
  std::int64_t most;
};
constexpr TileRule kTiles{.flops = 8e6, .most = kMaxTiles};
constexpr TileRule kGrains{.flops = 16e6, .most = 4};  // each has a gradient of its own to be added

/// Values of dy per image up to which a matrix product per image is mostly its call.
constexpr std::int64_t kSmallGradient = 512;
/// Channels that fill only half of a vector, and sums so long that they are better made by matrix
/// products than by vectors of such.
constexpr std::int64_t kHalfVector = 8;
constexpr std::int64_t kLongSum = 3072;

/// Floats per image and group up to which generated code for convolutions is quicker than that
/// which multiplies small matrices, for few channels and for more.
constexpr std::int64_t kFewSummed = 64;
constexpr std::int64_t kSmallImageOfFew = 28000;
constexpr std::int64_t kSmallImage = 8192;
constexpr std::int64_t kVector = 16;

/// Whether x and y are stored channels last, in the order they are tried.
constexpr std::array<std::array<bool, 2>, 3> kStorages = {
    {{true, true}, {false, true}, {false, false}}};

/// The extents as oneDNN wants them.
struct Descs {
  memory::desc x;
  memory::desc w;
  memory::desc forwardW;  ///< of the forward pass that a gradient belongs to
  memory::desc y;
  memory::dims strides;
  memory::dims dilations;
  memory::dims padsBefore;
  memory::dims padsAfter;
};

std::vector<std::int64_t> lastOf(const ops::Extents& extents, std::size_t rank) {
  return {extents.end() - static_cast<std::ptrdiff_t>(rank), extents.end()};
}

memory::dims weightDims(const ops::ConvDims& d) {
  memory::dims dims;
  if (d.groups > 1) {
    dims.push_back(d.groups);
  }
  dims.push_back(d.outPerGroup());
  dims.push_back(d.inPerGroup());
  const auto kernel = lastOf(d.kernel, d.rank);
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return dims;
}

memory::desc activation(DType dtype,
                        std::int64_t batch,
                        std::int64_t channels,
                        const std::vector<std::int64_t>& spatial,
                        bool channelsLast) {
  std::vector<std::int64_t> dims = {batch, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return onednn::describe({dtype, Shape(std::move(dims))},
                          channelsLast ? device::Layout::channelsLast() : device::Layout::plain());
}

/// `images` of them; plan.weights empty: any format. Gradients of weights are float32 in any case.
Descs descsOf(const ConvPlan& plan, std::int64_t images) {
  const ops::ConvDims& d = plan.dims;
  const ConvConfig& config = plan.config;
  const DType weights = plan.pass == ConvPass::GradWeight ? DType::F32 : plan.compute;
  const auto any = [&](DType dtype) {
    return memory::desc(weightDims(d), onednn::dataType(dtype), memory::format_tag::any);
  };
  Descs descs{.x = activation(
                  plan.compute, images, d.inChannels, lastOf(d.in, d.rank), config.xChannelsLast),
              .w = plan.weights.is_zero() ? any(weights) : plan.weights,
              .forwardW = any(plan.compute),
              .y = activation(
                  plan.compute, images, d.outChannels, lastOf(d.out, d.rank), config.yChannelsLast),
              .strides = lastOf(d.strides, d.rank),
              .dilations = lastOf(d.dilations, d.rank),
              .padsBefore = lastOf(d.padsBefore, d.rank),
              .padsAfter = lastOf(d.padsAfter, d.rank)};
  for (std::int64_t& dilation : descs.dilations) {
    --dilation;  // oneDNN counts the gaps
  }
  return descs;
}

/// 0: a plain loop of the library, 1: by way of matrix products, 2: generated code.
int qualityOf(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  if (name.find("ref") != std::string::npos) {
    return 0;
  }
  return name.find("gemm") != std::string::npos ? 1 : 2;
}

/// The library's first choice; but code that multiplies small matrices ("brg") sums over the
/// channels of one tap at a time, which is slow for few of them: then its next generated code.
dnnl::convolution_forward::primitive_desc forwardOf(const dnnl::convolution_forward::desc& desc,
                                                    bool avoidsSmallMatrices) {
  using PrimitiveDesc = dnnl::convolution_forward::primitive_desc;
  const auto attr = onednn::userScratchpad();
  PrimitiveDesc first(desc, attr, onednn::engine(), true);
  const auto isSlow = [](const PrimitiveDesc& made) {
    return std::string_view(made.impl_info_str()).starts_with("brg");
  };
  if (first && avoidsSmallMatrices && isSlow(first)) {
    PrimitiveDesc next(desc, attr, onednn::engine(), true);
    while (next.next_impl()) {
      if (qualityOf(next) == 2 && !isSlow(next)) {
        return next;
      }
    }
  }
  return first;
}

bool avoidsSmallMatrices(const Descs& s) {
  const memory::dims weights = s.w.dims();
  const std::int64_t channels = weights[weights.size() - s.strides.size() - 1];
  const bool isPixel = std::all_of(weights.end() - static_cast<std::ptrdiff_t>(s.strides.size()),
                                   weights.end(),
                                   [](auto extent) { return extent == 1; });
  if (isPixel) {
    return false;
  }
  const memory::dims x = s.x.dims();
  std::int64_t perImage = channels;
  for (std::size_t i = 2; i < x.size(); ++i) {
    perImage *= x[i];
  }
  return channels % kVector != 0 ||
         perImage <= (channels <= kFewSummed ? kSmallImageOfFew : kSmallImage);
}

dnnl::primitive_desc_base primitiveOf(ConvPass pass, const Descs& s) {
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const auto attr = onednn::userScratchpad();
  const dnnl::engine& engine = onednn::engine();
  const dnnl::convolution_forward::desc forward(pass == ConvPass::Forward
                                                    ? dnnl::prop_kind::forward_inference
                                                    : dnnl::prop_kind::forward_training,
                                                kAlgorithm,
                                                s.x,
                                                pass == ConvPass::Forward ? s.w : s.forwardW,
                                                s.y,
                                                s.strides,
                                                s.dilations,
                                                s.padsBefore,
                                                s.padsAfter);
  // The base class is the handle; what is sliced off are accessors' caches.
  // NOLINTBEGIN(cppcoreguidelines-slicing,performance-no-automatic-move)
  const auto hint = forwardOf(forward, avoidsSmallMatrices(s));
  if (pass == ConvPass::Forward || !hint) {
    return hint;
  }
  if (pass == ConvPass::GradInput) {
    const dnnl::convolution_backward_data::desc desc(
        kAlgorithm, s.x, s.w, s.y, s.strides, s.dilations, s.padsBefore, s.padsAfter);
    return dnnl::convolution_backward_data::primitive_desc(desc, attr, engine, hint, true);
  }
  const dnnl::convolution_backward_weights::desc desc(
      kAlgorithm, s.x, s.w, s.y, s.strides, s.dilations, s.padsBefore, s.padsAfter);
  return dnnl::convolution_backward_weights::primitive_desc(desc, attr, engine, hint, true);
  // NOLINTEND(cppcoreguidelines-slicing,performance-no-automatic-move)
}

memory::desc weightsOf(ConvPass pass, const dnnl::primitive_desc_base& desc) {
  return desc.query_md(dnnl::query::exec_arg_md,
                       pass == ConvPass::GradWeight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS);
}

/// What the generated code computes: it fills whole vectors with the channels of its output.
double paddedFlops(const ir::OpView& op, const ops::ConvDims& d) {
  if (likesPlain(op)) {
    return ops::costConv(op).flops;  // by matrix products
  }
  const std::int64_t channels =
      convPass(op) == ConvPass::GradInput ? d.inPerGroup() : d.outPerGroup();
  const std::int64_t padded = (channels + kVector - 1) / kVector * kVector;
  return ops::costConv(op).flops * static_cast<double>(padded) / static_cast<double>(channels);
}

/// Bytes in float32 that a tile of 16-bit floats has at a time: what caches hold. The gradient of
/// weights adds them up behind each strip, which should be little beside the rest.
constexpr std::int64_t kStripBytes = 1 << 20;

/// Images of the first, the longest tile that are converted at a time.
std::int64_t stripOf(const ir::OpView& op, const ConvPlan& plan, std::int64_t count) {
  if (op.inputs[0].dtype == plan.compute) {
    return count;
  }
  constexpr std::int64_t kFloat = sizeof(float);
  constexpr std::int64_t kTimesWeights = 4;
  const std::int64_t weights =
      plan.pass == ConvPass::GradWeight ? op.outputs[0].shape.elements() : 0;
  const std::int64_t bytes = std::max(kStripBytes, kTimesWeights * weights * kFloat);
  const std::int64_t perImage = (plan.xPerImage() + plan.yPerImage()) * kFloat;
  const std::int64_t most = std::max<std::int64_t>(1, bytes / perImage);
  const std::int64_t strips = (count + most - 1) / most;
  return (count + strips - 1) / strips;
}

/// Whether the machine multiplies bfloat16 itself; on others the library imitates that, which is no
/// gain.
bool multipliesBfloat16(const dnnl::primitive_desc_base& desc) {
  const std::string name = desc.impl_info_str();
  return name.find("core_bf16") != std::string::npos || name.find("amx") != std::string::npos;
}

/// bfloat16 if that is what the op has and the machine multiplies, else float32.
DType computeOf(const ir::OpView& op, const ConvConfig& config) {
  if (op.inputs[0].dtype != DType::BF16) {
    return DType::F32;
  }
  const ConvPlan plan{
      .pass = convPass(op), .dims = ops::convDims(op), .config = config, .compute = DType::BF16};
  const auto desc = primitiveOf(plan.pass, descsOf(plan, plan.dims.batch));
  return desc && qualityOf(desc) == 2 && multipliesBfloat16(desc) ? DType::BF16 : DType::F32;
}

std::optional<ConvConfig> configByRule(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  std::optional<ConvConfig> best;
  int bestQuality = -1;
  const bool plain = likesPlain(op);
  for (const auto& [x, y] : kStorages) {
    if (plain && (x || y)) {
      continue;
    }
    const ConvConfig config{.xChannelsLast = x, .yChannelsLast = y, .tiles = convTiles(op)};
    const ConvPlan plan{.pass = convPass(op),
                        .dims = ops::convDims(op),
                        .config = config,
                        .compute = computeOf(op, config)};
    const auto desc = primitiveOf(plan.pass, descsOf(plan, plan.dims.batch));
    const int bfloat16 = plan.compute == DType::BF16 ? 1 : 0;
    if (desc && qualityOf(desc) + bfloat16 > bestQuality) {
      bestQuality = qualityOf(desc) + bfloat16;
      best = config;
    }
  }
  return best;
}

}  // namespace

ConvPass convPass(const ir::OpView& op) {
  if (op.def.name == "conv") {
    return ConvPass::Forward;
  }
  SLUICE_CHECK(op.def.name == "conv_grad_input" || op.def.name == "conv_grad_weight",
               "{} is no convolution",
               op.def.name);
  return op.def.name == "conv_grad_input" ? ConvPass::GradInput : ConvPass::GradWeight;
}

bool likesPlain(const ir::OpView& op) {
  const ConvPass pass = convPass(op);
  const ops::ConvDims d = ops::convDims(op);
  if (pass == ConvPass::GradWeight) {
    return d.kernelSize() == 1 && d.in == d.out && d.groups == 1 && d.inChannels >= kVector &&
           d.outChannels <= kHalfVector;
  }
  if (pass == ConvPass::Forward) {
    return false;
  }
  if (d.inChannels <= kFewChannels) {
    return d.kernelSize() == 1 || d.outChannels * d.outSize() > kSmallGradient;
  }
  return d.groups == 1 && d.inChannels <= kHalfVector && d.outChannels * d.kernelSize() >= kLongSum;
}

std::string ConvConfig::str() const {
  return fmt::format("{} {} {}", xChannelsLast ? 'c' : 'p', yChannelsLast ? 'c' : 'p', tiles);
}

ConvConfig parseConvConfig(const std::string& text) {
  const auto isStorage = [](char c) { return c == 'c' || c == 'p'; };
  ConvConfig config{.tiles = 0};
  if (text.size() >= 5 && isStorage(text[0]) && text[1] == ' ' && isStorage(text[2]) &&
      text[3] == ' ') {
    config.xChannelsLast = text[0] == 'c';
    config.yChannelsLast = text[2] == 'c';
    std::from_chars(text.data() + 4, text.data() + text.size(), config.tiles);
  }
  if (config.tiles < 1 || config.tiles > kMaxTiles) {
    raise<ConfigFileError>("conv: expected '<c|p> <c|p> <1 to {}>', got '{}'", kMaxTiles, text);
  }
  return config;
}

bool supportsConv(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  if (dtype != DType::F32 && dtype != DType::F16 && dtype != DType::BF16) {
    return false;
  }
  const ops::ConvDims d = ops::convDims(op);
  if (d.batch == 0 || d.inChannels == 0 || d.outChannels == 0 || d.inSize() == 0) {
    return false;
  }
  const std::optional<ConvConfig> config = configByRule(op);
  return config && planConv(op, *config);
}

std::string convKey(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  const auto list = [&](const ops::Extents& extents) {
    return fmt::format("{}", fmt::join(lastOf(extents, d.rank), "x"));
  };
  return fmt::format("{}/n{}g{}c{}o{}i{}k{}s{}d{}p{}q{}",
                     op.def.name,
                     d.batch,
                     d.groups,
                     d.inChannels,
                     d.outChannels,
                     list(d.in),
                     list(d.kernel),
                     list(d.strides),
                     list(d.dilations),
                     list(d.padsBefore),
                     list(d.padsAfter));
}

// Powers of two, so that an even number of threads is kept busy.
std::int64_t convTiles(const ir::OpView& op) {
  const ops::ConvDims d = ops::convDims(op);
  const TileRule& rule = convPass(op) == ConvPass::GradWeight ? kGrains : kTiles;
  const double wanted =
      std::clamp(paddedFlops(op, d) / rule.flops, 1.0, static_cast<double>(rule.most));
  const auto tiles = std::bit_floor(static_cast<std::uint64_t>(wanted));
  return std::min(static_cast<std::int64_t>(tiles), d.batch);
}

ConvConfig chooseConvConfig(const ir::OpView& op, const device::Tuning& tuning) {
  if (const auto entry = tuning.find(convKey(op)); entry != tuning.end()) {
    return parseConvConfig(entry->second);
  }
  const std::optional<ConvConfig> config = configByRule(op);
  SLUICE_CHECK(config, "oneDNN has no {} of this shape", op.def.name);
  return *config;
}

TuningOptions convTuning(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  TuningOptions options{.key = convKey(op), .values = {}};
  for (const auto& [x, y] : kStorages) {
    const ConvConfig config{.xChannelsLast = x, .yChannelsLast = y, .tiles = convTiles(op)};
    const auto plan = planConv(op, config);
    if (plan && qualityOf(plan->tiles[0].desc) > 0) {
      options.values.push_back(config.str());
    }
  }
  const auto addWays = [&](auto ways) {
    for (const auto& way : ways) {
      if (way.can(op)) {
        options.values.emplace_back(way.config);
      }
    }
  };
  if (convPass(op) == ConvPass::GradWeight) {
    addWays(weightWays());
  } else {
    addWays(imageWays());
  }
  return options;
}

std::optional<ConvPlan> planConv(const ir::OpView& op, const ConvConfig& config) {
  const onednn::OneThread oneThread;
  ConvPlan plan{.pass = convPass(op),
                .dims = ops::convDims(op),
                .config = config,
                .compute = computeOf(op, config)};
  const ops::ConvDims& d = plan.dims;
  const std::int64_t step = (d.batch + config.tiles - 1) / config.tiles;
  for (std::int64_t first = 0; first < d.batch; first += step) {
    ConvTile tile{.first = first, .count = std::min(step, d.batch - first)};
    tile.strip = plan.tiles.empty() ? stripOf(op, plan, tile.count)
                                    : std::min(tile.count, plan.tiles[0].strip);
    // The first primitive picks the format of the weights, the others take it as it is.
    const auto primitiveFor = [&](std::int64_t images) {
      auto desc = primitiveOf(plan.pass, descsOf(plan, images));
      if (desc) {
        plan.weights = weightsOf(plan.pass, desc);
        const auto pad = desc.query_md(dnnl::query::exec_arg_md, DNNL_ARG_SCRATCHPAD);
        plan.perTile = std::max(plan.perTile, onednn::alignedBytes(pad.get_size()));
      }
      return desc;
    };
    tile.desc = primitiveFor(tile.strip);
    const std::int64_t rest = tile.count % tile.strip;
    if (tile.desc && rest > 0) {
      tile.rest = primitiveFor(rest);
    }
    if (!tile.desc || (rest > 0 && !tile.rest)) {
      return std::nullopt;
    }
    plan.tiles.push_back(std::move(tile));
  }
  const memory::dims dims = weightDims(d);
  const DType weights = plan.pass == ConvPass::GradWeight ? DType::F32 : plan.compute;
  plan.plainWeights = onednn::describe({weights, Shape(dims)}, device::Layout::plain());
  return plan;
}

device::Layout activationLayout(const TensorType& type, bool channelsLast) {
  const Shape& shape = type.shape;
  const bool same = shape[1] == 1 || shape.elements() == shape[0] * shape[1];
  return channelsLast && !same ? device::Layout::channelsLast() : device::Layout::plain();
}

}  // namespace sluice::devices::cpu
