// Products of float32 matrices with vector code of our own, for shapes that the library handles
// badly: small ones, for which the call takes most of the time, and tall ones, whose rows it reads
// and writes in an order that is slow for memory. Every element is one chain of fused multiply-adds
// in the order of k, so its bits depend neither on the width of vectors nor on how the work is
// divided.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// The right operand: [k, columns] with adjacent columns, or divided into consecutive panels of
/// panelWidth columns each.
struct RightMatrix {
  const float* data = nullptr;
  std::int64_t rowStride = 0;    ///< from k to k + 1
  std::int64_t panelWidth = 0;   ///< with one panel: at least the number of columns
  std::int64_t panelStride = 0;  ///< from panel to panel
};

/// Strides are in elements.
struct LeftMatrix {
  const float* data = nullptr;
  std::int64_t rowStride = 0;
  std::int64_t kStride = 0;
};

struct ResultMatrix {
  float* data = nullptr;
  std::int64_t rowStride = 0;
};

struct ProductExtents {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t k = 0;
};

struct MatrixExtents {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// Whether this processor has fused multiply-adds; without them the code below is not worth using.
bool hasVectorProduct();
/// Whether its vectors hold 16 floats.
bool hasLongVectors();
/// Whether this number of columns is computed in shorter vectors, because it fills them better.
bool usesShortVectors(std::int64_t columns);

/// c = a b.
void multiplyRows(const LeftMatrix& a,
                  const RightMatrix& b,
                  const ResultMatrix& c,
                  const ProductExtents& extents);

/// c += a b; continues the chains of additions that c holds, so that a product may be cut along k.
void addRows(const LeftMatrix& a,
             const RightMatrix& b,
             const ResultMatrix& c,
             const ProductExtents& extents);

/// One of several products that are added; `left` and `right` are its offsets in the operands.
struct ProductPart {
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t k = 0;
};

/// One product, or several that are consecutive in the left operand and in the result.
struct PartsProduct {
  LeftMatrix left;
  RightMatrix right;
  ResultMatrix result;
  MatrixExtents extents;
  std::span<const ProductPart> parts;
  std::int64_t count = 1;
  std::int64_t leftStep = 0;  ///< elements from one product to the next
  std::int64_t resultStep = 0;
  bool adds = false;                 ///< adds to the content of the result
  std::span<const float> next = {};  ///< prefetched because later calls read it
};

/// Computes the sum of the parts; each element is one chain that goes through the parts in order.
void multiplyParts(const PartsProduct& product);

/// The offsets of the operands of one term of a sum of outer products, in elements.
struct TermOffsets {
  std::int32_t left = 0;
  std::int32_t right = 0;
};

/// Terms that only the rows [firstRow, endRow) have; nothing is read for other rows.
struct TermGroup {
  std::int64_t firstRow = 0;
  std::int64_t endRow = 0;
  std::span<const TermOffsets> terms;
};

struct OuterProducts {
  const float* left = nullptr;
  const float* right = nullptr;
  std::span<const TermGroup> groups;
  bool adds = true;                  ///< adds to the content of the result
  std::span<const float> next = {};  ///< prefetched because later calls read it
};

/// How many columns of a result with this many rows are summed at a time. If several sums read the
/// same terms, it is faster to divide them into such slices.
std::int64_t columnsOfSlice(std::int64_t rows);

/// c = (c +) the sum over terms t of left[t.left + row] * right[t.right + column], group by group.
void sumOuterProducts(const OuterProducts& products,
                      const ResultMatrix& c,
                      const MatrixExtents& extents);

}  // namespace sluice::devices::cpu
