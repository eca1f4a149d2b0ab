#include "sluice/devices/cpu/kernels/attention_plan.h"

#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/pack_matrix.h"

namespace sluice::devices::cpu {
namespace {

/// Causal attention of so many rows leaves out a third of its scores or more.
constexpr std::int64_t kManyRows = 3 * kAttentionRows;
/// So many scores do not stay in cache until they are used again.
constexpr double kManyScores = 1 << 24;
/// Rows that fill the lanes of vectors.
constexpr std::int64_t kLeastRows = 16;

/// The extent of an axis counted from the end; 1 if there is no such axis.
std::int64_t extentFromEnd(const Shape& shape, std::int64_t i) {
  return shape.rank() < i ? 1 : shape[shape.rank() - i];
}

Shape leading(const Shape& shape) {
  const auto count = std::max<std::int64_t>(shape.rank() - 2, 0);
  return Shape(std::vector<std::int64_t>(shape.dims().begin(), shape.dims().begin() + count));
}

}  // namespace

AttentionPlan::AttentionPlan(const ir::OpView& op, std::size_t maskAt)
    : d_(ops::attentionDims(op, maskAt)), matrices_(d_.batch.elements()) {
  if (d_.mask == 0) {
    return;
  }
  const TensorType& mask = op.inputs[maskAt];
  const std::int64_t keys = extentFromEnd(mask.shape, 1);
  const std::int64_t rows = extentFromEnd(mask.shape, 2);
  kind_ = mask.dtype == DType::Bool ? MaskKind::Keep : MaskKind::Add;
  maskKey_ = keys == 1 ? 0 : 1;
  maskRow_ = rows == 1 ? 0 : keys;
  maskElements_ = rows * keys;
  maskOf_.emplace(leading(mask.shape), d_.batch);
}

bool AttentionPlan::suits(const ir::OpView& op, std::size_t maskAt) {
  if (op.inputs[0].dtype != DType::F32 || !hasVectorProduct()) {
    return false;
  }
  const ops::AttentionDims d = ops::attentionDims(op, maskAt);
  const bool oneBatch = leading(op.inputs[0].shape) == d.batch &&
                        leading(op.inputs[1].shape) == d.batch &&
                        leading(op.inputs[2].shape) == d.batch;
  if (!oneBatch || d.width < 1 || d.width > kMaxAttentionWidth || d.valueWidth < 1 ||
      d.valueWidth > kMaxAttentionWidth) {
    return false;
  }
  const bool leavesOut = d.causal && d.mask == 0 && d.rows >= kManyRows && d.keys >= kManyRows;
  return d.scores() > 0 && d.rows >= kLeastRows && (leavesOut || d.scores() >= kManyScores);
}

std::int64_t AttentionPlan::rowBlocks() const {
  return ceilDiv(d_.rows, kAttentionRows);
}

Span AttentionPlan::rowBlock(std::int64_t i) const {
  const std::int64_t first = i * kAttentionRows;
  return {first, std::min(kAttentionRows, d_.rows - first)};
}

std::int64_t AttentionPlan::visibleKeys(const Span& rows) const {
  return d_.causal && kind_ == MaskKind::None ? std::min(d_.keys, rows.end()) : d_.keys;
}

ScoreBlock AttentionPlan::multiply(const KernelRun& run,
                                   std::int64_t matrix,
                                   const float* queries,
                                   const Span& rows,
                                   const Span& keys,
                                   float* scores) const {
  multiplyRows({run.in<float>(1) + (matrix * d_.keys + keys.first) * d_.width, d_.width, 1},
               {queries, kAttentionRows, kAttentionRows, 0},
               {scores, kAttentionRows},
               {keys.count, rows.count, d_.width});
  ScoreBlock block{.scores = scores,
                   .rows = rows.count,
                   .keys = keys.count,
                   .scale = static_cast<float>(d_.scale),
                   .crossesDiagonal = d_.causal && keys.end() > rows.first + 1,
                   .diagonal = rows.first - keys.first,
                   .kind = kind_,
                   .maskRow = maskRow_,
                   .maskKey = maskKey_};
  if (kind_ != MaskKind::None) {
    const std::int64_t first =
        (*maskOf_)(matrix)*maskElements_ + rows.first * maskRow_ + keys.first * maskKey_;
    block.mask = kind_ == MaskKind::Keep ? static_cast<const void*>(run.in<bool>(d_.mask) + first)
                                         : static_cast<const void*>(run.in<float>(d_.mask) + first);
  }
  return block;
}

void AttentionPlan::transpose(const float* matrix,
                              std::int64_t width,
                              const Span& rows,
                              float* to) const {
  transposeMatrix({rows.count, width, width}, matrix + rows.first * width, to, kAttentionRows);
}

}  // namespace sluice::devices::cpu
