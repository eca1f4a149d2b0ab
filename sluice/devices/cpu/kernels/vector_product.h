// Products of float32 matrices by our own vector code, for shapes that the library serves badly:
// small ones, whose time is the cost of its call, and tall ones, whose rows are read and written in
// an order that memory does not like. Every element is one chain of fused multiply-adds in the
// order of k, so its bits depend neither on the width of the vectors nor on how the work is cut.
#pragma once

#include <cstdint>
#include <span>

namespace sluice::devices::cpu {

/// The right operand: [k, columns] with columns side by side, or cut into panels of so many
/// columns, one after the other.
struct RightMatrix {
  const float* data = nullptr;
  std::int64_t rowStride = 0;    ///< from k to k + 1
  std::int64_t panelWidth = 0;   ///< at least the number of columns where there is one panel
  std::int64_t panelStride = 0;  ///<
};

/// Strides in elements.
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

/// Whether this processor has fused multiply-adds: without them the code below is not worth it.
bool hasVectorProduct();
/// Whether its vectors hold 16 floats.
bool hasLongVectors();
/// Whether so many columns are computed in shorter vectors, which they fill better.
bool usesShortVectors(std::int64_t columns);

/// c = a b.
void multiplyRows(const LeftMatrix& a,
                  const RightMatrix& b,
                  const ResultMatrix& c,
                  const ProductExtents& extents);

/// c += a b, as the next terms of the chains that c holds: a product may be cut along k.
void addRows(const LeftMatrix& a,
             const RightMatrix& b,
             const ResultMatrix& c,
             const ProductExtents& extents);

/// One of several products that are added: it starts so many elements into both operands.
struct ProductPart {
  std::int64_t left = 0;
  std::int64_t right = 0;
  std::int64_t k = 0;
};

/// One product, or several that follow each other in the left operand and the result.
struct PartsProduct {
  LeftMatrix left;
  RightMatrix right;
  ResultMatrix result;
  MatrixExtents extents;
  std::span<const ProductPart> parts;
  std::int64_t count = 1;
  std::int64_t leftStep = 0;  ///< elements from one to the next
  std::int64_t resultStep = 0;
  bool adds = false;  ///< to what is in the result
};

/// The sum of the parts; each element is one chain that goes through them in order.
void multiplyParts(const PartsProduct& product);

/// Where the operands of one term of a sum of outer products lie, in elements.
struct TermOffsets {
  std::int32_t left = 0;
  std::int32_t right = 0;
};

/// Terms that only the rows [firstRow, endRow) have; of the others nothing is read.
struct TermGroup {
  std::int64_t firstRow = 0;
  std::int64_t endRow = 0;
  std::span<const TermOffsets> terms;
};

struct OuterProducts {
  const float* left = nullptr;
  const float* right = nullptr;
  std::span<const TermGroup> groups;
  bool adds = true;                  ///< to what is in the result
  std::span<const float> next = {};  ///< will be read by later calls and is fetched meanwhile
};

/// The columns of a result of so many rows that are summed at a time: while several sums read the
/// same terms, they are better cut into such slices.
std::int64_t columnsOfSlice(std::int64_t rows);

/// c = (c +) the sum over terms t of left[t.left + row] * right[t.right + column], group by group.
void sumOuterProducts(const OuterProducts& products,
                      const ResultMatrix& c,
                      const MatrixExtents& extents);

}  // namespace sluice::devices::cpu
