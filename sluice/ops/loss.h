// Shared by the loss op files: the reduction attribute, and the labels of nll_loss.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sluice/ir/op_def.h"
#include "sluice/ops/loss_ops.h"

namespace sluice::ops {

inline constexpr ir::AttrSpec kReductionAttr = {
    .name = "reduction", .kind = ir::AttrKind::Text, .text = "mean"};
inline constexpr ir::AttrSpec kIgnoreIndexAttr = {
    .name = "ignoreIndex", .kind = ir::AttrKind::Int, .integer = -100};

/// The text of the attribute: "mean", "sum" or "none".
std::string_view name(Reduction reduction);
/// Throws InvalidArgument for any other text.
Reduction reductionOf(const ir::OpView& op);

/// The type of a loss whose terms have type `terms`.
TensorType reducedType(const ir::OpView& op, TensorType terms);
/// Appends the reduction of the terms; the mean of no terms is NaN.
Value reduceLoss(GraphBuilder& b, Value terms, Reduction reduction);

/// A loss of two float operands (prediction, target) of one type, term by term.
std::vector<TensorType> inferPairLoss(const ir::OpView& op);

/// Log-probabilities [batch, classes, positions...] and labels [batch, positions...].
struct NllDims {
  std::int64_t batch = 0;
  std::int64_t classes = 0;
  std::int64_t positions = 1;  ///< per batch item

  std::int64_t terms() const { return batch * positions; }
  /// The offset of class c of term t.
  std::int64_t at(std::int64_t t, std::int64_t c) const {
    return (t / positions * classes + c) * positions + t % positions;
  }
};

/// Throws InvalidArgument unless the labels are i32 or i64 and have the right shape.
NllDims nllDims(const ir::OpView& op, const Shape& probabilities, const TensorType& labels);

/// The class of each term, or -1 if it is ignored. Throws InvalidArgument for a label out of range.
std::vector<std::int64_t> readLabels(const ir::KernelArgs& args,
                                     std::size_t input,
                                     const NllDims& d);

/// The factor of each term: -1, for the mean divided by the number of terms that are not ignored.
/// It is minus infinity if there are none.
double nllFactor(Reduction reduction, std::span<const std::int64_t> labels);

}  // namespace sluice::ops
