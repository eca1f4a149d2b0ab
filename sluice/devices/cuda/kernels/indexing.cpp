// Gather and its gradient, losses by labels, and tensors made of numbers. An index or label out of
// range is reported to the device's record of faults, and the kernel goes on without it.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/devices/cuda/kernels/labels.h"
#include "sluice/ops/layout.h"
#include "sluice/ops/loss.h"

namespace sluice::devices::cuda {
namespace {

constexpr int kColumnsPerThread = 8;

}  // namespace

std::string classText(const ir::OpView& op, std::size_t labels, std::int64_t classes) {
  return fmt::format("classOf((i64)in{}[t], {}, {}ll, fault, call)",
                     labels,
                     literal(op.integer("ignoreIndex")),
                     classes);
}

std::string factorText(const ops::NllDims& d, const std::string& classOfTerm, bool mean) {
  if (!mean) {
    return "  const double factor = -1.0;\n";
  }
  return fmt::format(R"(  i64 counted = 0;
  for (i64 t = threadIdx.x; t < {}ll; t += blockDim.x) counted += {} >= 0 ? 1 : 0;
  counted = blockSum(counted);
  const double factor = -1.0 / (double)counted;
)",
                     d.terms(),
                     classOfTerm);
}

std::string placeText(const ops::NllDims& d, std::string_view term, std::string_view label) {
  return fmt::format("({0} / {2}ll * {3}ll + {1}) * {2}ll + {0} % {2}ll",
                     term,
                     label,
                     std::max<std::int64_t>(d.positions, 1),
                     d.classes);
}

Source gatherSource(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  Source source;
  addElementEntry(
      source,
      op,
      "elements",
      op.outputs[0].shape.elements(),
      fmt::format("  const i64 at = place((i64)in1[i / {0}ll % {1}ll], {2}ll, fault, call);\n"
                  "  if (at < 0) out0[i] = FromDouble<{3}>::of(0.0);\n"
                  "  else out0[i] = in0[(i / {4}ll * {2}ll + at) * {0}ll + i % {0}ll];\n",
                  std::max<std::int64_t>(view.inner, 1),
                  std::max<std::int64_t>(op.inputs[1].shape.elements(), 1),
                  view.extent,
                  typeText(op.outputs[0].dtype),
                  std::max<std::int64_t>(op.inputs[1].shape.elements() * view.inner, 1)));
  return source;
}

namespace {

/// Rows of a large table are marked first, so that only those with updates look for them.
bool marksRows(const ops::AxisView& view) {
  constexpr std::int64_t kManyRows = 1024;
  return view.extent >= kManyRows;
}

}  // namespace

device::Choice chooseScatterAdd(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const Shape& shape = op.inputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  if (marksRows(view)) {
    choice.scratchBytes = static_cast<std::size_t>(view.extent);
  }
  return choice;
}

/// A block has some columns of one row. It looks at all indices in their order, 256 at a time, and
/// adds the updates of its row.
Source scatterAddSource(const ir::OpView& op) {
  const Shape& shape = op.inputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  const std::int64_t columns = std::int64_t{kThreads} * kColumnsPerThread;
  const std::int64_t pieces = (view.inner + columns - 1) / columns;
  const std::int64_t indices = op.inputs[1].shape.elements();
  Source source;
  if (marksRows(view)) {
    addElementEntry(source, op, "clear", view.extent, "  ((u8*)scratch)[i] = 0;\n");
    addElementEntry(source,
                    op,
                    "mark",
                    indices,
                    fmt::format("  const i64 at = place((i64)in1[i], {}ll, fault, call);\n"
                                "  if (at >= 0) ((u8*)scratch)[at] = 1;\n",
                                view.extent));
  }
  addEntry(source,
           op,
           {"rows", view.outer * view.extent * pieces, kThreads},
           fmt::format(R"(  typedef {0} W;
  const i64 row = blockIdx.x / {1}ll, outer = row / {2}ll, place0 = row % {2}ll;
  const i64 first = blockIdx.x % {1}ll * {6} + threadIdx.x;
  W sums[{5}];
  for (int j = 0; j < {5}; ++j) {{
    const i64 c = first + j * 256;
    sums[j] = c < {3}ll ? wide(in0[row * {3}ll + c]) : W(0);
  }}
  __shared__ i64 places[256];
  for (i64 tile = 0; {8}tile < {4}ll; tile += 256) {{
    const i64 mine = tile + threadIdx.x;
    const i64 at = mine < {4}ll ? place((i64)in1[mine], {2}ll, fault, call) : -1;
    places[threadIdx.x] = at;
    if (!__syncthreads_or(at == place0)) continue;
    for (int k = 0; k < 256; ++k) {{
      if (places[k] != place0) continue;
      for (int j = 0; j < {5}; ++j) {{
        const i64 c = first + j * 256;
        if (c < {3}ll)
          sums[j] = op_add(sums[j], wide(in2[(outer * {4}ll + tile + k) * {3}ll + c]));
      }}
    }}
    __syncthreads();
  }}
  for (int j = 0; j < {5}; ++j) {{
    const i64 c = first + j * 256;
    if (c < {3}ll) out0[row * {3}ll + c] = narrow<{7}>(sums[j]);
  }}
)",
                       wideText(op.inputs[0].dtype),
                       std::max<std::int64_t>(pieces, 1),
                       std::max<std::int64_t>(view.extent, 1),
                       view.inner,
                       indices,
                       kColumnsPerThread,
                       columns,
                       typeText(op.outputs[0].dtype),
                       marksRows(view) ? "((const u8*)scratch)[place0] != 0 && " : ""));
  return source;
}

/// With a reduction, one block adds up all terms.
Source nllLossSource(const ir::OpView& op) {
  const ops::NllDims d = ops::nllDims(op, op.inputs[0].shape, op.inputs[1]);
  const std::string classOfTerm = classText(op, 1, d.classes);
  const std::string_view type = typeText(op.outputs[0].dtype);
  Source source;
  if (ops::reductionOf(op) == ops::Reduction::None) {
    addElementEntry(source,
                    op,
                    "terms",
                    d.terms(),
                    fmt::format("  const i64 t = i, label = {};\n"
                                "  out0[i] = narrow<{}>(label < 0 ? 0.0 : -1.0 * "
                                "(double)wide(in0[{}]));\n",
                                classOfTerm,
                                type,
                                placeText(d, "t", "label")));
    return source;
  }
  addEntry(source,
           op,
           {"terms", 1, kThreads},
           factorText(d, classOfTerm, ops::reductionOf(op) == ops::Reduction::Mean) +
               fmt::format(R"(  double sum = 0;
  for (i64 t = threadIdx.x; t < {}ll; t += blockDim.x) {{
    const i64 label = {};
    sum += label < 0 ? 0.0 : factor * (double)wide(in0[{}]);
  }}
  sum = blockSum(sum);
  // Of no terms the factor is infinite and the mean a NaN.
  if (threadIdx.x == 0) out0[0] = narrow<{}>(sum + (factor - factor));
)",
                           d.terms(),
                           classOfTerm,
                           placeText(d, "t", "label"),
                           type));
  return source;
}

device::Choice chooseNllLossGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = sizeof(double);
  return choice;
}

Source nllLossGradSource(const ir::OpView& op) {
  const ops::NllDims d = ops::nllDims(op, op.outputs[0].shape, op.inputs[0]);
  const std::string classOfTerm = classText(op, 0, d.classes);
  const std::int64_t elements = op.outputs[0].shape.elements();
  const bool none = ops::reductionOf(op) == ops::Reduction::None;
  Source source;
  addEntry(source,
           op,
           {"factors", elements == 0 ? 0 : 1, kThreads},
           factorText(d, classOfTerm, ops::reductionOf(op) == ops::Reduction::Mean) +
               "  if (threadIdx.x == 0) *(double*)scratch = factor;\n");
  addElementEntry(source,
                  op,
                  "elements",
                  elements,
                  fmt::format("  const i64 t = i / {0}ll * {1}ll + i % {1}ll;\n"
                              "  const i64 label = {2};\n"
                              "  out0[i] = narrow<{3}>(label == i / {1}ll % {4}ll ? "
                              "*(double*)scratch * (double)wide(in1[{5}]) : 0.0);\n",
                              std::max<std::int64_t>(d.classes * d.positions, 1),
                              std::max<std::int64_t>(d.positions, 1),
                              classOfTerm,
                              typeText(op.outputs[0].dtype),
                              std::max<std::int64_t>(d.classes, 1),
                              none ? "t" : "0"));
  return source;
}

Source oneHotSource(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  Source source;
  addElementEntry(source,
                  op,
                  "elements",
                  shape.elements(),
                  fmt::format("  const i64 at = i / {0}ll % {1}ll;\n"
                              "  const i64 index = (i64)in0[i / {2}ll * {0}ll + i % {0}ll];\n"
                              "  out0[i] = FromDouble<{3}>::of(index == at || index == at - {1}ll "
                              "? 1.0 : 0.0);\n",
                              std::max<std::int64_t>(view.inner, 1),
                              std::max<std::int64_t>(view.extent, 1),
                              std::max<std::int64_t>(view.inner * view.extent, 1),
                              typeText(op.outputs[0].dtype)));
  return source;
}

Source iotaSource(const ir::OpView& op) {
  const Shape& shape = op.outputs[0].shape;
  const ops::AxisView view = ops::aroundAxis(shape, ops::axisAttr(op, shape));
  const DType dtype = op.outputs[0].dtype;
  Source source;
  addElementEntry(source,
                  op,
                  "elements",
                  shape.elements(),
                  fmt::format("  out0[i] = narrow<{}>(({})(i / {}ll % {}ll));\n",
                              typeText(dtype),
                              wideText(dtype),
                              std::max<std::int64_t>(view.inner, 1),
                              std::max<std::int64_t>(view.extent, 1)));
  return source;
}

}  // namespace sluice::devices::cuda
