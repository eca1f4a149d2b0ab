// Reductions, and functions that make, shape, pick and order elements. functional.h includes it and
// says what all functions have in common.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "sluice/nn/tensor.h"
#include "sluice/tensor/shape.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

// Reductions over the given axes, or all if none are given.
Tensor sum(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor mean(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor prod(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// Equal maxima share the gradient; so do minima.
Tensor max(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor min(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor logsumexp(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// The Euclidean norm.
Tensor norm(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
/// Whether any, or every, element is not 0.
Tensor any(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
Tensor all(const Tensor& x, std::vector<std::int64_t> axes = {}, bool keepDims = false);
struct VarianceOptions {
  std::vector<std::int64_t> axes = {};
  bool unbiased = true;  ///< divides by one less than the number of elements
  bool keepDims = false;
};
Tensor var(const Tensor& x, const VarianceOptions& options = {});
/// PyTorch's std.
Tensor stddev(const Tensor& x, const VarianceOptions& options = {});
/// The position (i64) of the largest or smallest element along an axis; of the first if several are
/// equal.
Tensor argMax(const Tensor& x, std::int64_t axis = -1, bool keepDims = false);
Tensor argMin(const Tensor& x, std::int64_t axis = -1, bool keepDims = false);
Tensor cumsum(const Tensor& x, std::int64_t axis);

// New tensors. Random ones are drawn in each run.
Tensor zeros(const Shape& shape, DType dtype = DType::F32);
Tensor ones(const Shape& shape, DType dtype = DType::F32);
Tensor full(const Shape& shape, double value, DType dtype = DType::F32);
Tensor zerosLike(const Tensor& x);
Tensor onesLike(const Tensor& x);
Tensor fullLike(const Tensor& x, double value);
/// The numbers from start to end, which is left out.
Tensor arange(std::int64_t end);
Tensor arange(double start, double end, double step = 1.0, DType dtype = DType::I64);
/// `count` numbers from start to end, which is the last.
Tensor linspace(double start, double end, std::int64_t count, DType dtype = DType::F32);
Tensor eye(std::int64_t size, DType dtype = DType::F32);
/// Uniform in [0, 1); randn: normal with mean 0 and deviation 1.
Tensor rand(const Shape& shape, DType dtype = DType::F32);
Tensor randn(const Shape& shape, DType dtype = DType::F32);
/// A new last axis of so many classes that is 1 at the index and 0 elsewhere, as i64.
Tensor oneHot(const Tensor& indices, std::int64_t classes);

// Shape.
/// Joins the axes from startAxis to the last one.
Tensor flatten(const Tensor& x, std::int64_t startAxis = 0);
/// One extent may be -1; it takes all that remains.
Tensor reshape(const Tensor& x, std::vector<std::int64_t> dims);
/// Adds axes before the first and repeats axes of extent 1; -1 keeps an axis as it is.
Tensor expand(const Tensor& x, std::vector<std::int64_t> dims);
/// Removes these axes, which must have extent 1; all such axes if none are given.
Tensor squeeze(const Tensor& x, const std::vector<std::int64_t>& axes = {});
/// Adds an axis of extent 1 at this place of the result.
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
/// Swaps two axes.
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
Tensor permute(const Tensor& x, std::vector<std::int64_t> axes);
Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis = 0);
/// Joins tensors of one shape along a new axis.
Tensor stack(const std::vector<Tensor>& parts, std::int64_t axis = 0);
/// Splits x along an axis into parts with these extents.
std::vector<Tensor> split(const Tensor& x, std::vector<std::int64_t> sizes, std::int64_t axis = 0);
/// Splits x along an axis into `count` parts, the last of which may be smaller; there are fewer if
/// the axis is short.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0);
/// The slices along an axis, without it.
std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);
/// Repeats x so many times along each axis; axes before the first are added.
Tensor tile(const Tensor& x, std::vector<std::int64_t> repeats);
/// Repeats each element along an axis.
Tensor repeatInterleave(const Tensor& x, std::int64_t repeats, std::int64_t axis);
Tensor flip(const Tensor& x, std::vector<std::int64_t> axes);
/// Moves elements by `shift` along an axis; what leaves at the end comes in at the start.
Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);
/// The upper (column - row >= diagonal) or lower triangle of the last two axes; zeros elsewhere.
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/// Pads as PyTorch does: pairs (before, after) from the last axis on. `mode` is constant, reflect
/// or replicate; negative padding, which cuts, needs constant.
Tensor pad(const Tensor& x,
           const std::vector<std::int64_t>& pads,
           std::string_view mode = "constant",
           double value = 0.0);

// Picking, placing and ordering. Indices are i32 or i64.
/// Every step-th of the elements [start, end) along an axis; negative positions count from its end.
Tensor slice(const Tensor& x,
             std::int64_t axis,
             std::int64_t start,
             std::int64_t end,
             std::int64_t step = 1);
/// Slices of x along an axis at integer indices, whose shape replaces the axis.
Tensor gather(const Tensor& x, const Tensor& indices, std::int64_t axis = 0);
/// Slices of x along an axis at a list of indices.
Tensor indexSelect(const Tensor& x, std::int64_t axis, const Tensor& indices);
/// One element per index: at the index on this axis and at the index's own position on the others.
/// PyTorch's gather.
Tensor takeAlongDim(const Tensor& x, const Tensor& indices, std::int64_t axis);
/// The last axis of the indices holds coordinates after the first `batchDims` axes.
Tensor gatherNd(const Tensor& x, const Tensor& indices, std::int64_t batchDims = 0);
/// x with the elements that takeAlongDim would read replaced by those of `source`; scatterAdd adds
/// them; `reduce` is sum, prod, amax or amin.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
Tensor scatterAdd(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
Tensor scatterReduce(const Tensor& x,
                     std::int64_t axis,
                     const Tensor& indices,
                     const Tensor& source,
                     std::string_view reduce);
/// x with `source` in place of what gatherNd would read. reduction: none, add, mul, max or min.
Tensor scatterNd(const Tensor& x,
                 const Tensor& indices,
                 const Tensor& source,
                 std::string_view reduction = "none");
/// x with the slices of `source` added to those that indexSelect would read.
Tensor indexAdd(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
/// x with the value where the mask is true.
Tensor maskedFill(const Tensor& x, const Tensor& mask, double value);
struct Sorted {
  Tensor values;
  Tensor indices;  ///< i64
};
/// The k largest or smallest elements along an axis, in order; of equal ones the first comes first.
Sorted topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true);
Sorted sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
/// For each element, how many of the sorted boundaries lie below it (right: or equal it), as i64.
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);
/// Reverses the first `lengths` steps of each sequence of [steps, batch, ...].
Tensor reverseSequence(const Tensor& x, const Tensor& lengths);
/// Rows of `table` at integer indices.
Tensor embedding(const Tensor& indices, const Tensor& table);

}  // namespace sluice::nn

#pragma GCC visibility pop
