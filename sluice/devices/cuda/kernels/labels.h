// Texts that kernels of losses by labels share. Private to the device.
#pragma once

#include <string>
#include <string_view>

#include "sluice/ir/op_def.h"
#include "sluice/ops/loss.h"

namespace sluice::devices::cuda {

/// The class of term `t`, from labels in operand `labels`; -1 if it does not count.
std::string classText(const ir::OpView& op, std::size_t labels, std::int64_t classes);

/// Declares `factor`: -1, for a mean divided by the number of terms that count, infinite if there
/// are none. For one block.
std::string factorText(const ops::NllDims& d, const std::string& classOfTerm, bool mean);

/// The place of a term's class among the scores.
std::string placeText(const ops::NllDims& d, std::string_view term, std::string_view label);

}  // namespace sluice::devices::cuda
