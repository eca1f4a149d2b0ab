#include "sluice/devices/cpu/kernels/conv_grad_columns.h"

#include <algorithm>
#include <array>

#include "sluice/devices/cpu/kernels/conv_plan.h"
#include "sluice/devices/cpu/kernels/copy_runs.h"
#include "sluice/ops/conv.h"

namespace sluice::devices::cpu {
namespace {

using dnnl::memory;
using onednn::alignedBytes;
using onednn::Call;

constexpr std::int64_t kMaxGrains = 4;  // each has a gradient of its own to be added
constexpr double kFlopsPerGrain = 1.2e7;
constexpr std::int64_t kWindowFloats = 98304;  // copied out at a time: they stay in cache
constexpr std::int64_t kVector = 16;
/// Lanes of padding per vector of outputs below which the copies cost more than they save.
constexpr std::int64_t kMinWaste = 8;
constexpr std::int64_t kMinColumns = 128;

/// Floats of one window.
std::int64_t columnsOf(const ops::ConvDims& d) {
  return d.kernelSize() * d.inChannels;
}

/// Images [first, first + count) of a grain, multiplied by one call.
struct Chunk {
  std::int64_t first;
  std::int64_t count;
};

std::vector<std::vector<Chunk>> grainsOf(const ops::ConvDims& d) {
  const std::int64_t most = std::max<std::int64_t>(kWindowFloats / (d.outSize() * columnsOf(d)), 1);
  const double flops = 2.0 * static_cast<double>(d.batch * d.outSize() * d.outChannels) *
                       static_cast<double>(columnsOf(d));
  const auto wanted =
      static_cast<std::int64_t>(std::clamp(flops / kFlopsPerGrain, 1.0, double{kMaxGrains}));
  const std::int64_t step = (d.batch + wanted - 1) / wanted;
  std::vector<std::vector<Chunk>> grains;
  for (std::int64_t first = 0; first < d.batch; first += step) {
    const std::int64_t end = std::min(d.batch, first + step);
    const std::int64_t chunks = (end - first + most - 1) / most;
    const std::int64_t size = (end - first + chunks - 1) / chunks;
    grains.emplace_back();
    for (std::int64_t at = first; at < end; at += size) {
      grains.back().push_back({at, std::min(size, end - at)});
    }
  }
  return grains;
}

/// sum [outChannels, columns] += dy^T of so many images * their windows.
dnnl::matmul::primitive_desc productOf(const ops::ConvDims& d, std::int64_t images) {
  const std::int64_t windows = images * d.outSize();
  const std::int64_t columns = columnsOf(d);
  const dnnl::matmul::desc desc(
      onednn::strided(DType::F32, {d.outChannels, windows}, {1, d.outChannels}),
      onednn::strided(DType::F32, {windows, columns}, {columns, 1}),
      onednn::strided(DType::F32, {d.outChannels, columns}, {columns, 1}));
  dnnl::primitive_attr attr = onednn::userScratchpad();
  dnnl::post_ops accumulate;
  accumulate.append_sum();
  attr.set_post_ops(accumulate);
  return {desc, attr, onednn::engine(), true};
}

/// Per grain: the windows of a chunk, the sum, the library's own.
struct ScratchPlan {
  std::size_t sum = 0;
  std::size_t pad = 0;
  std::size_t perGrain = 0;
};

ScratchPlan scratchOf(const ops::ConvDims& d) {
  const auto floats = [](std::int64_t count) {
    return alignedBytes(static_cast<std::size_t>(count) * sizeof(float));
  };
  ScratchPlan s;
  std::size_t pad = 0;
  for (const auto& grain : grainsOf(d)) {
    for (const Chunk& chunk : grain) {
      s.sum = std::max(s.sum, floats(chunk.count * d.outSize() * columnsOf(d)));
      pad = std::max(pad, productOf(d, chunk.count).scratchpad_desc().get_size());
    }
  }
  s.pad = s.sum + floats(d.outChannels * columnsOf(d));
  s.perGrain = s.pad + alignedBytes(pad);
  return s;
}

class ConvGradColumns : public Kernel {
 public:
  explicit ConvGradColumns(const ops::ConvDims& d) : d_(d), scratch_(scratchOf(d)) {
    for (const auto& chunks : grainsOf(d)) {
      grains_.emplace_back();
      for (const Chunk& chunk : chunks) {
        const auto desc = productOf(d, chunk.count);
        const std::array<Call::Argument, 4> arguments = {
            {{DNNL_ARG_SRC, desc.src_desc()},
             {DNNL_ARG_WEIGHTS, desc.weights_desc()},
             {DNNL_ARG_DST, desc.dst_desc()},
             {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}};
        grains_.back().push_back({chunk, Call(dnnl::matmul(desc), arguments)});
      }
    }
  }

  void run(const KernelRun& run) override {
    run.workers.parallelFor(static_cast<std::int64_t>(grains_.size()),
                            [&](std::int64_t i) { grain(run, static_cast<std::size_t>(i)); });
    store(run);
  }

 private:
  struct Product {
    Chunk chunk;
    Call call;
  };

  std::byte* scratchOfGrain(const KernelRun& run, std::size_t grain) const {
    return static_cast<std::byte*>(run.scratch) + grain * scratch_.perGrain;
  }
  float* sumOfGrain(const KernelRun& run, std::size_t grain) const {
    return reinterpret_cast<float*>(scratchOfGrain(run, grain) + scratch_.sum);
  }

  void grain(const KernelRun& run, std::size_t index) {
    std::byte* scratch = scratchOfGrain(run, index);
    float* sum = sumOfGrain(run, index);
    std::fill_n(sum, d_.outChannels * columnsOf(d_), 0.0F);
    for (Product& product : grains_[index]) {
      const Chunk& chunk = product.chunk;
      auto* windows = reinterpret_cast<float*>(scratch);
      for (std::int64_t i = 0; i < chunk.count; ++i) {
        copyWindows(run.in<float>(0) + (chunk.first + i) * d_.inSize() * d_.inChannels,
                    windows + i * d_.outSize() * columnsOf(d_));
      }
      const std::array<const void*, 4> addresses = {
          run.in<float>(1) + chunk.first * d_.outSize() * d_.outChannels,
          windows,
          sum,
          scratch + scratch_.pad};
      product.call.run(addresses);
    }
  }

  /// Of one image, taps in row-major order with the channels of each side by side.
  void copyWindows(const float* image, float* to) const {
    const std::int64_t length = d_.kernel[2] * d_.inChannels;
    const std::int64_t columns = columnsOf(d_);
    const RunSteps steps{.from = d_.strides[2] * d_.inChannels, .to = columns};
    for (std::int64_t o0 = 0; o0 < d_.out[0]; ++o0) {
      for (std::int64_t o1 = 0; o1 < d_.out[1]; ++o1, to += d_.out[2] * columns) {
        for (std::int64_t k = 0; k < d_.kernel[0] * d_.kernel[1]; ++k) {
          const std::int64_t i0 = d_.position(0, o0, k / d_.kernel[1]);
          const std::int64_t i1 = d_.position(1, o1, k % d_.kernel[1]);
          copyRuns(image + (i0 * d_.in[1] + i1) * d_.in[2] * d_.inChannels,
                   to + k * length,
                   {length, d_.out[2]},
                   steps);
        }
      }
    }
  }

  /// Adds the grains in their order and puts the channels before the taps.
  void store(const KernelRun& run) const {
    auto* out = run.out<float>(0);
    const std::int64_t taps = d_.kernelSize();
    const std::int64_t columns = columnsOf(d_);
    float* total = sumOfGrain(run, 0);
    for (std::size_t g = 1; g < grains_.size(); ++g) {
      const float* from = sumOfGrain(run, g);
      for (std::int64_t i = 0; i < d_.outChannels * columns; ++i) {
        total[i] += from[i];
      }
    }
    for (std::int64_t o = 0; o < d_.outChannels; ++o, total += columns, out += columns) {
      for (std::int64_t t = 0; t < taps; ++t) {
        for (std::int64_t c = 0; c < d_.inChannels; ++c) {
          out[c * taps + t] = total[t * d_.inChannels + c];
        }
      }
    }
  }

  ops::ConvDims d_;
  ScratchPlan scratch_;
  std::vector<std::vector<Product>> grains_;
};

/// Every run of taps along the last axis lies in the input side by side.
bool canCopyRuns(const ops::ConvDims& d) {
  const ops::Extents none = {0, 0, 0};
  return d.groups == 1 && d.padsBefore == none && d.padsAfter == none &&
         (d.dilations[2] == 1 || d.kernel[2] == 1) && d.kernel[2] * d.inChannels >= 2 * kVector &&
         columnsOf(d) >= kMinColumns;
}

}  // namespace

bool canUseColumns(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  const ops::ConvDims d = ops::convDims(op);
  return op.inputs[0].dtype == DType::F32 && canCopyRuns(d) && productOf(d, 1);
}

bool likesColumns(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  const ops::ConvDims d = ops::convDims(op);
  const std::int64_t waste = (kVector - d.outChannels % kVector) % kVector;
  if (op.inputs[0].dtype != DType::F32 || d.outChannels < kVector || d.outChannels > 2 * kVector ||
      waste < kMinWaste || !canCopyRuns(d)) {
    return false;
  }
  // Shorter vectors are filled better.
  const auto plan = planConv(op, {.xChannelsLast = true, .yChannelsLast = true, .tiles = 1});
  const auto product = productOf(d, 1);
  const auto isWide = [](const char* name) {
    return std::string_view(name).find("avx512") != std::string_view::npos;
  };
  return plan && isWide(plan->tiles[0].desc.impl_info_str()) && product &&
         isWide(product.impl_info_str());
}

device::Choice chooseColumns(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  const ops::ConvDims d = ops::convDims(op);
  device::Choice choice = device::plainChoice(op, "");
  choice.inputs[0] = activationLayout(op.inputs[0], true);
  choice.inputs[1] = activationLayout(op.inputs[1], true);
  choice.scratchBytes = scratchOf(d).perGrain * grainsOf(d).size();
  choice.config = kColumnsConfig;
  return choice;
}

std::unique_ptr<Kernel> makeColumns(const ir::OpView& op) {
  const onednn::OneThread oneThread;
  return std::make_unique<ConvGradColumns>(ops::convDims(op));
}

}  // namespace sluice::devices::cpu
