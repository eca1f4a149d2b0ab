// scaled_dot_product_attention of float32, a block of rows at a time: its scores with one block of
// keys after the other, whose weights are relative to the maximum so far. When the maximum rises,
// what was summed before is scaled down.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sluice/devices/cpu/kernels/attention_plan.h"
#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

constexpr std::size_t kMaskAt = 3;

/// One block of rows while its keys go by.
class ForwardBlock {
 public:
  ForwardBlock(const AttentionPlan& plan,
               const KernelRun& run,
               std::int64_t matrix,
               const Span& rows)
      : plan_(plan), d_(plan.dims()), run_(run), matrix_(matrix), rows_(rows) {
    const std::int64_t at = matrix * d_.rows + rows.first;
    out_ = {run.out<float>(0) + at * d_.valueWidth, rows.count, d_.valueWidth};
    logSums_ = run.out<float>(1) + at;
    top_.data.fill(std::numeric_limits<float>::lowest());
    sum_.data.fill(0.0F);
    plan.transpose(
        run.in<float>(0) + matrix * d_.rows * d_.width, d_.width, rows, queries_.data.data());
  }

  void compute() {
    const std::int64_t keys = plan_.visibleKeys(rows_);
    for (std::int64_t first = 0; first < keys; first += kAttentionKeys) {
      add({first, std::min(kAttentionKeys, keys - first)});
    }
    divideRows(out_, sum_.data.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows_.count); ++i) {
      logSums_[i] = top_.data[i] + std::log(sum_.data[i]);
    }
  }

 private:
  void add(const Span& keys) {
    const ScoreBlock block =
        plan_.multiply(run_, matrix_, queries_.data.data(), rows_, keys, scores_.data.data());
    RowValues before = top_;
    finishScores(block, top_.data.data());
    RowValues added;
    weighScores(block, top_.data.data(), added.data.data());
    const bool isFirst = keys.first == 0;
    if (!isFirst) {
      scaleDown(before);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows_.count); ++i) {
      sum_.data[i] += added.data[i];
    }
    const float* values = run_.in<float>(2) + (matrix_ * d_.keys + keys.first) * d_.valueWidth;
    (isFirst ? multiplyRows : addRows)({block.scores, 1, kAttentionRows},
                                       {values, d_.valueWidth, d_.valueWidth, 0},
                                       {out_.data, d_.valueWidth},
                                       {rows_.count, d_.valueWidth, keys.count});
  }

  /// What was summed relative to the maximum `before`.
  void scaleDown(RowValues& before) {
    bool isSame = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows_.count); ++i) {
      isSame = isSame && before.data[i] == top_.data[i];
      before.data[i] = std::exp(before.data[i] - top_.data[i]);
      sum_.data[i] *= before.data[i];
    }
    if (!isSame) {
      scaleRows(out_, before.data.data());
    }
  }

  const AttentionPlan& plan_;
  const ops::AttentionDims& d_;
  const KernelRun& run_;
  std::int64_t matrix_;
  Span rows_;
  RowsOf out_;
  float* logSums_;
  RowValues top_;
  RowValues sum_;
  TransposedRows queries_;
  ScoreBuffer scores_;
};

class Attention : public Kernel {
 public:
  explicit Attention(const ir::OpView& op) : plan_(op, kMaskAt) {}

  void run(const KernelRun& run) override {
    const std::int64_t blocks = plan_.rowBlocks();
    run.workers.parallelFor(plan_.matrices() * blocks, [&](std::int64_t tile) {
      ForwardBlock(plan_, run, tile / blocks, plan_.rowBlock(tile % blocks)).compute();
    });
  }

 private:
  AttentionPlan plan_;
};

}  // namespace

bool supportsAttention(const ir::OpView& op) {
  return AttentionPlan::suits(op, kMaskAt);
}

std::unique_ptr<Kernel> makeAttention(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Attention>(op);
}

}  // namespace sluice::devices::cpu
