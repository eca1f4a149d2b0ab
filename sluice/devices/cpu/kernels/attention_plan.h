// What the attention kernels share: the operands as matrices, and how a block of scores is made.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "sluice/devices/cpu/kernel.h"
#include "sluice/devices/cpu/kernels/attention_blocks.h"
#include "sluice/devices/cpu/kernels/vector_product.h"
#include "sluice/ops/attention.h"
#include "sluice/ops/elementwise.h"

namespace sluice::devices::cpu {

/// Of queries and of values; blocks of them are on the stack.
inline constexpr std::int64_t kMaxAttentionWidth = 256;

/// A transposed block of queries or of gradients, [width, kAttentionRows].
struct TransposedRows {
  alignas(64) std::array<float, kMaxAttentionWidth * kAttentionRows> data;
};
/// A block of scores.
struct ScoreBuffer {
  alignas(64) std::array<float, kAttentionKeys * kAttentionRows> data;
};
/// A value for every row of a block.
struct RowValues {
  alignas(64) std::array<float, kAttentionRows> data;
};

/// Consecutive queries or keys.
struct Span {
  std::int64_t first = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return first + count; }
};

class AttentionPlan {
 public:
  /// `maskAt` is the place of the mask among the operands.
  AttentionPlan(const ir::OpView& op, std::size_t maskAt);

  /// Whether the kernels do this op, and sooner than its parts: the gradient computes the scores
  /// once more, which pays where causality or their number makes up for it. The forward op and its
  /// gradient have the same answer.
  static bool suits(const ir::OpView& op, std::size_t maskAt);

  const ops::AttentionDims& dims() const { return d_; }
  std::int64_t matrices() const { return matrices_; }
  std::int64_t rowBlocks() const;
  Span rowBlock(std::int64_t i) const;
  /// How many keys the rows may see. Rows of which a mask takes all keys are means over all of
  /// them, so that a mask leaves none out.
  std::int64_t visibleKeys(const Span& rows) const;

  /// Products of a block's queries, transposed, with some keys into `scores`; not yet scaled.
  ScoreBlock multiply(const KernelRun& run,
                      std::int64_t matrix,
                      const float* queries,
                      const Span& rows,
                      const Span& keys,
                      float* scores) const;
  /// The rows of an operand with `width` columns, transposed.
  void transpose(const float* matrix, std::int64_t width, const Span& rows, float* to) const;

 private:
  ops::AttentionDims d_;
  std::int64_t matrices_;
  MaskKind kind_ = MaskKind::None;
  std::int64_t maskRow_ = 0;
  std::int64_t maskKey_ = 0;
  std::optional<ops::BroadcastIndex> maskOf_;  ///< which matrix of the mask, times its elements
  std::int64_t maskElements_ = 0;
};

}  // namespace sluice::devices::cpu
