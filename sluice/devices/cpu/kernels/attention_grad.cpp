// scaled_dot_product_attention_grad of float32. The keys of a matrix are cut into parts; a tile
// goes through the rows for the keys of one part, with the weights computed again block by block.
// The gradients of its keys and values are its own; those of queries are sums over the parts, which
// are kept apart in scratch and added in order.
#include <algorithm>
#include <array>
#include <cmath>

#include "sluice/devices/cpu/kernels/attention_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::size_t kMaskAt = 6;
/// There are at least as many tiles as this, if blocks of keys allow.
constexpr std::int64_t kTiles = 64;
/// Beyond this size a logarithm has no digits left for the number of keys in a sum.
constexpr float kCoarse = 16384.0F;

/// How the keys of a matrix are cut.
struct Parts {
  explicit Parts(const AttentionPlan& plan) {
    const std::int64_t blocks = ceilDiv(plan.dims().keys, kAttentionKeys);
    const std::int64_t wanted = std::min(blocks, ceilDiv(kTiles, plan.matrices()));
    keys = ceilDiv(blocks, wanted) * kAttentionKeys;
    count = ceilDiv(plan.dims().keys, keys);
  }

  std::int64_t count = 1;
  std::int64_t keys = 0;  ///< of every part but the last
};

/// The keys of one part, or the blocks of one matrix, while the rows go by.
class GradientPart {
 public:
  /// `dq` has the rows of the matrix.
  GradientPart(const AttentionPlan& plan,
               const KernelRun& run,
               std::int64_t matrix,
               const Span& keys,
               float* dq)
      : plan_(plan), d_(plan.dims()), run_(run), matrix_(matrix), keys_(keys), dq_(dq) {
    std::fill_n(keyGradient(keys.first), keys.count * d_.width, 0.0F);
    std::fill_n(valueGradient(keys.first), keys.count * d_.valueWidth, 0.0F);
  }

  void compute() {
    for (std::int64_t i = 0; i < plan_.rowBlocks(); ++i) {
      const Span rows = plan_.rowBlock(i);
      const std::int64_t end = std::min(keys_.end(), plan_.visibleKeys(rows));
      if (end <= keys_.first) {
        continue;
      }
      prepare(rows);
      for (std::int64_t first = keys_.first; first < end; first += kAttentionKeys) {
        addBlock(rows, {first, std::min(kAttentionKeys, end - first)});
      }
    }
  }

 private:
  const float* rowsOf(std::size_t operand, std::int64_t row, std::int64_t width) const {
    return run_.in<float>(operand) + (matrix_ * d_.rows + row) * width;
  }
  float* keyGradient(std::int64_t key) const {
    return run_.out<float>(1) + (matrix_ * d_.keys + key) * d_.width;
  }
  float* valueGradient(std::int64_t key) const {
    return run_.out<float>(2) + (matrix_ * d_.keys + key) * d_.valueWidth;
  }

  /// What all blocks of keys need of these rows.
  void prepare(const Span& rows) {
    plan_.transpose(rowsOf(0, 0, d_.width), d_.width, rows, queries_.data.data());
    plan_.transpose(rowsOf(5, 0, d_.valueWidth), d_.valueWidth, rows, slopes_.data.data());
    dotRows(rowsOf(3, rows.first, d_.valueWidth),
            rowsOf(5, rows.first, d_.valueWidth),
            {rows.count, d_.valueWidth},
            mean_.data.data());
    logSums_ = run_.in<float>(4) + matrix_ * d_.rows + rows.first;
    hasCoarse_ = false;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const bool coarse = isCoarse(i);
      hasCoarse_ = hasCoarse_ || coarse;
      factor_.data[static_cast<std::size_t>(i)] = coarse ? 1.0F / sumOfRow(rows, i) : 1.0F;
    }
  }

  bool isCoarse(std::int64_t row) const { return std::abs(logSums_[row]) > kCoarse; }

  /// Of the weights of row i relative to its logarithm, which would be 1 if that were exact.
  float sumOfRow(const Span& rows, std::int64_t i) {
    const Span row{rows.first + i, 1};
    const std::int64_t keys = plan_.visibleKeys(rows);
    const float one = 1.0F;
    float sum = 0;
    for (std::int64_t first = 0; first < keys; first += kAttentionKeys) {
      const Span some{first, std::min(kAttentionKeys, keys - first)};
      const ScoreBlock block =
          plan_.multiply(run_, matrix_, queries_.data.data() + i, row, some, weights_.data.data());
      recomputeWeights(block, logSums_ + i, &one);
      for (std::int64_t key = 0; key < some.count; ++key) {
        sum += block.scores[key * kAttentionRows];
      }
    }
    return sum;
  }

  void addBlock(const Span& rows, const Span& keys) {
    const ScoreBlock weights =
        plan_.multiply(run_, matrix_, queries_.data.data(), rows, keys, weights_.data.data());
    recomputeWeights(weights, logSums_, factor_.data.data());
    const LeftMatrix byKeys{weights.scores, kAttentionRows, 1};
    addRows(byKeys,
            {rowsOf(5, rows.first, d_.valueWidth), d_.valueWidth, d_.valueWidth, 0},
            {valueGradient(keys.first), d_.valueWidth},
            {keys.count, d_.valueWidth, rows.count});
    ScoreBlock slopes = weights;
    slopes.scores = scores_.data.data();
    multiplyRows(
        {run_.in<float>(2) + (matrix_ * d_.keys + keys.first) * d_.valueWidth, d_.valueWidth, 1},
        {slopes_.data.data(), kAttentionRows, kAttentionRows, 0},
        {slopes.scores, kAttentionRows},
        {keys.count, rows.count, d_.valueWidth});
    slopesOfScores(slopes, weights.scores, mean_.data.data());
    if (hasCoarse_) {
      leaveOutMasked(slopes);
    }
    addRows({slopes.scores, kAttentionRows, 1},
            {rowsOf(0, rows.first, d_.width), d_.width, d_.width, 0},
            {keyGradient(keys.first), d_.width},
            {keys.count, d_.width, rows.count});
    (keys.first == keys_.first ? multiplyRows : addRows)(
        {slopes.scores, 1, kAttentionRows},
        {run_.in<float>(1) + (matrix_ * d_.keys + keys.first) * d_.width, d_.width, d_.width, 0},
        {dq_ + rows.first * d_.width, d_.width},
        {rows.count, d_.width, keys.count});
  }

  /// A masked score has a weight only in a row of nothing else, and no slope even there.
  void leaveOutMasked(const ScoreBlock& slopes) const {
    for (std::int64_t row = 0; row < slopes.rows; ++row) {
      for (std::int64_t key = 0; isCoarse(row) && key < slopes.keys; ++key) {
        if (slopes.isMasked(row, key)) {
          slopes.scores[key * kAttentionRows + row] = 0.0F;
        }
      }
    }
  }

  const AttentionPlan& plan_;
  const ops::AttentionDims& d_;
  const KernelRun& run_;
  std::int64_t matrix_;
  Span keys_;
  float* dq_;
  const float* logSums_ = nullptr;
  bool hasCoarse_ = false;
  RowValues mean_;    ///< of the gradients of a row's weights
  RowValues factor_;  ///< that makes the sum of a row's weights 1
  TransposedRows queries_;
  TransposedRows slopes_;  ///< of the output
  ScoreBuffer weights_;
  ScoreBuffer scores_;
};

class AttentionGrad : public Kernel {
 public:
  explicit AttentionGrad(const ir::OpView& op) : plan_(op, kMaskAt), parts_(plan_) {}

  void run(const KernelRun& run) override {
    const ops::AttentionDims& d = plan_.dims();
    const std::int64_t elements = d.rows * d.width;
    run.workers.parallelFor(plan_.matrices() * parts_.count, [&](std::int64_t tile) {
      const std::int64_t matrix = tile / parts_.count;
      const Span keys = keysOf(tile % parts_.count);
      float* dq = parts_.count == 1 ? run.out<float>(0) + matrix * elements
                                    : static_cast<float*>(run.scratch) + tile * elements;
      GradientPart(plan_, run, matrix, keys, dq).compute();
    });
    if (parts_.count > 1) {
      addParts(run);
    }
  }

 private:
  Span keysOf(std::int64_t part) const {
    const std::int64_t first = part * parts_.keys;
    return {first, std::min(parts_.keys, plan_.dims().keys - first)};
  }

  /// Those of later keys have nothing for rows that do not see them.
  void addParts(const KernelRun& run) const {
    const ops::AttentionDims& d = plan_.dims();
    const std::int64_t blocks = plan_.rowBlocks();
    run.workers.parallelFor(plan_.matrices() * blocks, [&](std::int64_t tile) {
      const std::int64_t matrix = tile / blocks;
      const Span rows = plan_.rowBlock(tile % blocks);
      const std::int64_t count = rows.count * d.width;
      float* to = run.out<float>(0) + (matrix * d.rows + rows.first) * d.width;
      for (std::int64_t part = 0; part < parts_.count; ++part) {
        const float* from = static_cast<const float*>(run.scratch) +
                            ((matrix * parts_.count + part) * d.rows + rows.first) * d.width;
        if (part == 0) {
          std::copy_n(from, count, to);
        } else if (keysOf(part).first < plan_.visibleKeys(rows)) {
          addElements(from, to, count);
        }
      }
    });
  }

  AttentionPlan plan_;
  Parts parts_;
};

}  // namespace

bool supportsAttentionGrad(const ir::OpView& op) {
  return AttentionPlan::suits(op, kMaskAt);
}

device::Choice chooseAttentionGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const AttentionPlan plan(op, kMaskAt);
  const Parts parts(plan);
  if (parts.count > 1) {
    choice.scratchBytes = static_cast<std::size_t>(parts.count) * op.outputs[0].bytes();
  }
  return choice;
}

std::unique_ptr<Kernel> makeAttentionGrad(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<AttentionGrad>(op);
}

}  // namespace sluice::devices::cpu
