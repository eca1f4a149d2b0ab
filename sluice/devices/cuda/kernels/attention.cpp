// Attention without the matrix of scores, for 16-bit floats on the tensor cores. A block has 64
// rows (or, for dk and dv, 64 keys) and looks at tiles of 64 keys (rows), which travel to shared
// memory while the tile before is worked on. The gradient computes the scores once more from the
// logarithms of the rows' sums: one kernel makes dk and dv, another dq, so that no sum is shared
// between blocks and every sum has one order.
#include "sluice/ops/attention.h"

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/attention_text.h"
#include "sluice/devices/cuda/kernels/kernels.h"

namespace sluice::devices::cuda {
namespace {

constexpr std::int64_t kTile = 64;
constexpr int kAttentionThreads = 128;
constexpr std::size_t kForwardMask = 3;
constexpr std::size_t kBackwardMask = 6;

bool suits(const ir::OpView& op, std::size_t maskAt) {
  constexpr std::int64_t kWidest = 128;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  const DType dtype = op.inputs[0].dtype;
  if ((dtype != DType::BF16 && dtype != DType::F16) || op.inputs.size() > maskAt) {
    return false;
  }
  const ops::AttentionDims d = ops::attentionDims(op, maskAt);
  const Shape q = d.with({d.rows, d.width});
  const Shape k = d.with({d.keys, d.width});
  return op.inputs[0].shape == q && op.inputs[1].shape == k && op.inputs[2].shape == k &&
         d.width % 16 == 0 && d.width >= 16 && d.width <= kWidest && d.rows > 0 && d.keys > 0 &&
         d.scale > 0 && d.batch.elements() > 0 && q.elements() < kMost && k.elements() < kMost;
}

std::int64_t tiles(std::int64_t extent) {
  return (extent + kTile - 1) / kTile;
}

/// The constants of the op, and what both kernels use.
Source sourceFor(const ir::OpView& op, const ops::AttentionDims& d) {
  constexpr double kLog2E = 1.4426950408889634;
  const bool bf16 = op.inputs[0].dtype == DType::BF16;
  Source source;
  source.text = fmt::format(
      "typedef {} T;\n#define MMA \"{}\"\n#define PACK \"{}\"\n"
      "#define DIM {}\n#define ROWS {}\n#define KEYS {}\n#define CAUSAL {}\n"
      "#define ROW_TILES {}\n#define KEY_TILES {}\n#define STAGES {}\n"
      "#define SCALE ((float){})\n#define SCALE2 ((float){})\n",
      typeText(op.inputs[0].dtype),
      bf16 ? "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
           : "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
      bf16 ? "cvt.rn.bf16x2.f32" : "cvt.rn.f16x2.f32",
      d.width,
      d.rows,
      d.keys,
      d.causal ? 1 : 0,
      tiles(d.rows),
      tiles(d.keys),
      d.width <= kTile ? 2 : 1,
      literal(d.scale),
      literal(d.scale * kLog2E));
  source.text += kAttentionTools;
  return source;
}

}  // namespace

bool supportsAttention(const ir::OpView& op) {
  return suits(op, kForwardMask);
}

Source attentionSource(const ir::OpView& op) {
  const ops::AttentionDims d = ops::attentionDims(op, kForwardMask);
  Source source = sourceFor(op, d);
  addEntry(source,
           op,
           {"attention", d.batch.elements() * tiles(d.rows), kAttentionThreads},
           kAttentionForward);
  return source;
}

bool supportsAttentionGrad(const ir::OpView& op) {
  return suits(op, kBackwardMask);
}

/// Room for sum(dy * y) of every row.
device::Choice chooseAttentionGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const ops::AttentionDims d = ops::attentionDims(op, kBackwardMask);
  choice.scratchBytes = static_cast<std::size_t>(d.batch.elements() * d.rows) * sizeof(float);
  return choice;
}

Source attentionGradSource(const ir::OpView& op) {
  const ops::AttentionDims d = ops::attentionDims(op, kBackwardMask);
  const std::int64_t matrices = d.batch.elements();
  constexpr std::int64_t kWarps = kAttentionThreads / 32;
  Source source = sourceFor(op, d);
  source.text += fmt::format("#define ALL_ROWS {}ll\n", matrices * d.rows);
  addEntry(source,
           op,
           {"row_sums", (matrices * d.rows + kWarps - 1) / kWarps, kAttentionThreads},
           kAttentionRowSums);
  addEntry(source,
           op,
           {"attention_dkv", matrices * tiles(d.keys), kAttentionThreads},
           kAttentionKeysGrad);
  addEntry(source,
           op,
           {"attention_dq", matrices * tiles(d.rows), kAttentionThreads},
           kAttentionRowsGrad);
  return source;
}

}  // namespace sluice::devices::cuda
