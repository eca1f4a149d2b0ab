// Ops that only move elements. A thread makes one element of the result, or takes one element of an
// operand to its place.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/reduce.h"
#include "sluice/ops/slice.h"

namespace sluice::devices::cuda {
namespace {

/// How many elements that lie side by side a thread moves: up to 16 bytes, as both sides allow.
std::int64_t moveWidth(const Shape& shape,
                       std::span<const std::int64_t> strides,
                       std::int64_t first,
                       DType dtype) {
  constexpr std::int64_t kPacket = 16;
  std::int64_t width = kPacket / static_cast<std::int64_t>(byteSize(dtype));
  while (width > 1 && (shape.elements() % width != 0 || first % width != 0 ||
                       stepsOf(shape.dims(), strides, width) != Steps::Consecutive)) {
    width /= 2;
  }
  return width;
}

/// Moves the elements between their row-major numbers in `shape` and the places that the strides
/// give them, `width` at a time; `to` and `from` are the pointers of the text.
void addMoves(Source& source,
              const ir::OpView& op,
              const Shape& shape,
              std::int64_t width,
              std::string_view to,
              std::string_view from) {
  addElementEntry(
      source,
      op,
      "elements",
      shape.elements() / width,
      fmt::format("  const i64 e = i * {0};\n  store({1}, load<{0}>({2}));\n", width, to, from));
}

/// out[i] = in[first + offset of i], the strides being those of the operand by output axis.
Source gathered(const ir::OpView& op,
                std::span<const std::int64_t> strides,
                std::int64_t first = 0) {
  const Shape& shape = op.outputs[0].shape;
  Source source;
  addMoves(source,
           op,
           shape,
           moveWidth(shape, strides, first, op.outputs[0].dtype),
           "out0 + e",
           fmt::format("in0 + {}ll + {}", first, offsetText("e", shape.dims(), strides)));
  return source;
}

/// Where a slice begins, and how far it goes per step of each axis.
struct SliceSteps {
  std::int64_t first = 0;
  std::vector<std::int64_t> strides;
};

SliceSteps sliceSteps(const ir::OpView& op, const Shape& whole) {
  SliceSteps steps;
  const std::vector<std::int64_t> strides = whole.strides();
  const std::vector<ops::SliceAxis> axes = ops::sliceAxes(op, whole);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    steps.first += axes[a].start * strides[a];
    steps.strides.push_back(axes[a].step * strides[a]);
  }
  return steps;
}

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(std::size_t bytes) : bytes_(bytes) {}
  void launch(const KernelRun& run) override {
    if (bytes_ != 0 && run.outputs[0] != run.inputs[0]) {
      check(cudaMemcpyAsync(
                run.outputs[0], run.inputs[0], bytes_, cudaMemcpyDeviceToDevice, run.stream),
            "cudaMemcpyAsync");
    }
  }

 private:
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> makeCopy(const ir::OpView& op,
                                 const device::Choice& /*choice*/,
                                 const MakeContext& /*context*/) {
  return std::make_unique<CopyKernel>(op.inputs[0].bytes());
}

Source transposeSource(const ir::OpView& op) {
  const std::vector<std::int64_t> own = op.inputs[0].shape.strides();
  std::vector<std::int64_t> strides;
  for (const std::int64_t axis : op.attrs.integers("permutation")) {
    strides.push_back(own[static_cast<std::size_t>(axis)]);
  }
  return gathered(op, strides);
}

Source sliceSource(const ir::OpView& op) {
  const SliceSteps steps = sliceSteps(op, op.inputs[0].shape);
  return gathered(op, steps.strides, steps.first);
}

Source sliceScatterSource(const ir::OpView& op) {
  const Shape& whole = op.outputs[0].shape;
  const Shape& part = op.inputs[0].shape;
  const SliceSteps steps = sliceSteps(op, whole);
  const DType dtype = op.outputs[0].dtype;
  const std::int64_t zeros = moveWidth(whole, whole.strides(), 0, dtype);
  Source source;
  addElementEntry(
      source,
      op,
      "zeros",
      whole.elements() / zeros,
      fmt::format("  Elements<{0}, {1}> y;\n"
                  "  for (int j = 0; j < {0}; ++j) y.at[j] = FromDouble<{1}>::of(0.0);\n"
                  "  store(out0 + i * {0}, y);\n",
                  zeros,
                  typeText(dtype)));
  addMoves(
      source,
      op,
      part,
      moveWidth(part, steps.strides, steps.first, dtype),
      fmt::format("out0 + {}ll + {}", steps.first, offsetText("e", part.dims(), steps.strides)),
      "in0 + e");
  return source;
}

Source reverseSource(const ir::OpView& op) {
  const std::vector<bool> reversed = ops::reducedAxes(op);
  std::vector<std::int64_t> strides = op.inputs[0].shape.strides();
  std::int64_t first = 0;
  for (std::size_t a = 0; a < strides.size(); ++a) {
    if (reversed[a]) {
      first += (op.inputs[0].shape.dims()[a] - 1) * strides[a];
      strides[a] = -strides[a];
    }
  }
  return gathered(op, strides, first);
}

Source tileSource(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  const Shape& part = op.inputs[0].shape;
  std::string offset = "0";
  for (std::size_t a = 0; a < part.dims().size(); ++a) {
    offset += fmt::format(
        " + {} % {}ll * {}ll", coordinateText("i", shape, a), part.dims()[a], part.strides()[a]);
  }
  Source source;
  addElementEntry(
      source, op, "elements", shape.elements(), fmt::format("  out0[i] = in0[{}];\n", offset));
  return source;
}

Source padSource(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  const Shape& inner = op.inputs[0].shape;
  const std::string& mode = op.attrs.text("mode");
  std::string body = "  bool inside = true;\n  i64 from = 0;\n";
  for (std::size_t a = 0; a < inner.dims().size(); ++a) {
    const std::int64_t extent = inner.dims()[a];
    body += fmt::format("  i64 c{} = {} - {}ll;\n",
                        a,
                        coordinateText("i", shape, a),
                        op.attrs.integers("before")[a]);
    if (mode == "constant") {
      body += fmt::format("  inside = inside && c{0} >= 0 && c{0} < {1}ll;\n", a, extent);
    } else if (mode == "edge") {
      body += fmt::format("  c{0} = c{0} < 0 ? 0 : c{0} >= {1}ll ? {1}ll - 1 : c{0};\n", a, extent);
    } else {
      body += fmt::format(
          "  c{0} = c{0} < 0 ? -c{0} : c{0} >= {1}ll ? 2 * ({1}ll - 1) - c{0} : c{0};\n",
          a,
          extent);
    }
    body += fmt::format("  from += c{} * {}ll;\n", a, inner.strides()[a]);
  }
  body +=
      fmt::format("  if (inside) out0[i] = in0[from];\n  else out0[i] = FromDouble<{}>::of({});\n",
                  typeText(op.outputs[0].dtype),
                  literal(op.attrs.real("value")));
  Source source;
  addElementEntry(source, op, "elements", shape.elements(), body);
  return source;
}

namespace {

/// One entry for each part of a whole along an axis. `move` has {part} for the part's number, {at}
/// for the place in the whole of its element i.
Source partsSource(const ir::OpView& op,
                   const Shape& whole,
                   std::span<const TensorType> parts,
                   std::string_view move) {
  const std::int64_t axis = ops::axisAttr(op, whole);
  const ops::AxisView around = ops::aroundAxis(whole, axis);
  Source source;
  std::int64_t start = 0;
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const ops::AxisView part = ops::aroundAxis(parts[k].shape, axis);
    const std::int64_t run = part.extent * part.inner;
    const std::string at = fmt::format("i / {0}ll * {1}ll + {2}ll + i % {0}ll",
                                       std::max<std::int64_t>(run, 1),
                                       around.extent * around.inner,
                                       start);
    addElementEntry(source,
                    op,
                    fmt::format("part{}", k),
                    parts[k].shape.elements(),
                    fmt::format(fmt::runtime(move), fmt::arg("part", k), fmt::arg("at", at)));
    start += run;
  }
  return source;
}

}  // namespace

Source concatSource(const ir::OpView& op) {
  return partsSource(op, op.outputs[0].shape, op.inputs, "  out0[{at}] = in{part}[i];\n");
}

Source splitSource(const ir::OpView& op) {
  return partsSource(op, op.inputs[0].shape, op.outputs, "  out{part}[i] = in0[{at}];\n");
}

Source triluSource(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const std::int64_t columns = shape[shape.rank() - 1];
  const std::int64_t rows = shape[shape.rank() - 2];
  Source source;
  addElementEntry(source,
                  op,
                  "elements",
                  shape.elements(),
                  fmt::format("  const i64 offset = i % {0}ll - i / {0}ll % {1}ll;\n"
                              "  if (offset {2} {3}ll) out0[i] = in0[i];\n"
                              "  else out0[i] = FromDouble<{4}>::of(0.0);\n",
                              std::max<std::int64_t>(columns, 1),
                              std::max<std::int64_t>(rows, 1),
                              op.attrs.flag("upper") ? ">=" : "<=",
                              op.integer("diagonal"),
                              typeText(op.outputs[0].dtype)));
  return source;
}

}  // namespace sluice::devices::cuda
