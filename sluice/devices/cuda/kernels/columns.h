// Folds over the rows of matrices, column by column: gradients of biases and of norms' factors,
// statistics of channels. Neighbouring threads read neighbouring columns. Blocks take parts of the
// rows, and a second launch folds the parts; both have an order that the extents fix. Private to
// the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/devices/cuda/source.h"

namespace sluice::devices::cuda {

/// The texts use W, the type of the folded values, and `c`, the column.
struct ColumnFold {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<int> matrices;       ///< operands [rows, columns]; element (r, c) of operand 3 is m3
  std::vector<std::string> terms;  ///< what element (r, c) adds to each folded value
  std::string perColumn;           ///< declares what terms use, once for each column
  std::string finish;              ///< stores the folded values s0, s1 ... of column c
  std::string function = "op_add";
  std::string start = "0";
};

/// What the partial results take.
std::size_t columnScratch(const ColumnFold& fold);
void addColumnFold(Source& source, const ir::OpView& op, const ColumnFold& fold);

}  // namespace sluice::devices::cuda
