// Source text of CUDA kernels. A generated kernel is a program for one op: its shapes, strides and
// attributes are constants of the text, so that equal ops have equal texts and share one compiled
// program. Every entry of a program takes the same arguments: the operands, the results, scratch
// memory, the numbers of the step and the record of faults. Private to the device.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/device/layout.h"
#include "sluice/ir/op_def.h"
#include "sluice/tensor/shape.h"

namespace sluice::devices::cuda {

/// One launch of an entry.
struct Stage {
  std::string entry;
  std::int64_t blocks = 1;
  int threads = 256;
};

struct Source {
  std::string text;           ///< without the prelude
  std::vector<Stage> stages;  ///< run one after the other; those without blocks are left out
  bool readsRun = false;      ///< reads the numbers of the step

  /// Whether it has anything to launch; tensors without elements have not.
  bool isEmpty() const;
};

/// Types and functions that every program begins with: element types, conversions, the functions
/// of element-wise ops, fixed trees of sums, Philox.
std::string_view prelude();

/// The number of threads of a block unless a kernel says otherwise.
inline constexpr int kThreads = 256;

/// The type of elements in the text: "f32", "bf16", "bool".
std::string_view typeText(DType dtype);
/// The type in which kernels compute with these elements: float, double, i64, u64 or bool.
std::string_view wideText(DType dtype);
/// A double, exact, also infinities and NaN.
std::string literal(double value);
std::string literal(std::int64_t value);

/// Adds an entry to the text: its parameters from the types of the op, then `body`.
void addEntry(Source& source, const ir::OpView& op, const Stage& stage, std::string_view body);
/// Adds an entry in which each of `count` elements has a thread, numbered `i`.
void addElementEntry(Source& source,
                     const ir::OpView& op,
                     std::string_view entry,
                     std::int64_t count,
                     std::string_view body);

/// The offset, in elements, of the element that has row-major number `index` in a space of these
/// extents, where one step along axis a moves by strides[a].
std::string offsetText(std::string_view index,
                       std::span<const std::int64_t> dims,
                       std::span<const std::int64_t> strides);
/// The strides of an operand that is broadcast to `output`: 0 along broadcast axes.
std::vector<std::int64_t> broadcastStrides(const Shape& operand, const Shape& output);
/// The axes in the order in which a layout stores them, outermost first.
std::vector<std::size_t> storageOrder(std::int64_t rank, const device::Layout& layout);
/// `values` by axis, in this order.
std::vector<std::int64_t> inOrder(std::span<const std::int64_t> values,
                                  std::span<const std::size_t> order);
/// How an offset (see offsetText) moves over `width` elements that begin at a multiple of `width`.
enum class Steps : std::uint8_t { Same, Consecutive, Any };
Steps stepsOf(std::span<const std::int64_t> dims,
              std::span<const std::int64_t> strides,
              std::int64_t width);
/// The coordinate along an axis of the element with row-major number `index`.
std::string coordinateText(std::string_view index, const Shape& shape, std::size_t axis);

/// A power of two from 32 to 256 that suits lines of this length.
int threadsFor(std::int64_t length);

}  // namespace sluice::devices::cuda
