// Softmax and the normalizations of rows. A block has a line (softmax) or a row (layer and RMS
// norm); sums are folded in a fixed order. 16-bit floats are computed in float32.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/columns.h"
#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ops/norm.h"
#include "sluice/ops/softmax.h"

namespace sluice::devices::cuda {
namespace {

Source sourceFor(const ir::OpView& op) {
  Source source;
  source.text = fmt::format(
      "typedef {} W;\ntypedef {} T;\n", wideText(op.inputs[0].dtype), typeText(op.inputs[0].dtype));
  return source;
}

/// One block per line along the axis: `line` is its first element, `extent` its length, `inner` the
/// distance of its elements.
void addLines(Source& source, const ir::OpView& op, std::string_view body) {
  const ops::AxisDims d = ops::axisDims(op);
  const bool isEmpty = op.outputs[0].shape.elements() == 0;
  addEntry(source,
           op,
           {"lines", isEmpty ? 0 : d.outer * d.inner, threadsFor(d.extent)},
           fmt::format("  const int extent = {0}, inner = {1};\n"
                       "  const i64 line = blockIdx.x / {1} * ((i64)extent * inner) + "
                       "blockIdx.x % {1};\n",
                       d.extent,
                       std::max<std::int64_t>(d.inner, 1)) +
               std::string(body));
}

/// One block per row: `base` is its first element, `columns` its length.
void addRows(Source& source, const ir::OpView& op, std::string_view body) {
  const ops::RowDims d = ops::rowDims(op);
  addEntry(source,
           op,
           {"rows", d.rows, threadsFor(d.columns / 4)},
           fmt::format("  const int columns = {0};\n"
                       "  const W count = W({1}.0);\n"
                       "  const i64 r = blockIdx.x, base = r * columns;\n",
                       d.columns,
                       std::max<std::int64_t>(d.columns, 1)) +
               std::string(body));
}

/// The gradients of gamma and beta.
ColumnFold layerNormFactors(const ir::OpView& op) {
  const ops::RowDims d = ops::rowDims(op);
  return {.rows = d.rows,
          .columns = d.columns,
          .matrices = {0, 4},
          .terms = {"m4 * ((m0 - in2[r]) * in3[r])", "m4"},
          .finish = "out1[c] = narrow<T>(s0); out2[c] = narrow<T>(s1);"};
}

ColumnFold rmsNormFactors(const ir::OpView& op) {
  const ops::RowDims d = ops::rowDims(op);
  return {.rows = d.rows,
          .columns = d.columns,
          .matrices = {0, 3},
          .terms = {"m3 * (m0 * in2[r])"},
          .finish = "out1[c] = narrow<T>(s0);"};
}

device::Choice withScratch(const ir::OpView& op, std::size_t bytes) {
  device::Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = bytes;
  return choice;
}

constexpr std::string_view kForColumns =
    "  for (int c = threadIdx.x; c < columns; c += blockDim.x) ";

}  // namespace

device::Choice chooseLayerNormGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  return withScratch(op, columnScratch(layerNormFactors(op)));
}

device::Choice chooseRmsNormGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  return withScratch(op, columnScratch(rmsNormFactors(op)));
}

Source softmaxSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  const bool log = op.def.name == "log_softmax";
  addLines(source,
           op,
           fmt::format(R"(  W top = -W(__longlong_as_double(0x7ff0000000000000ll));
  for (int k = threadIdx.x; k < extent; k += blockDim.x) {{
    const W x = wide(in0[line + (i64)k * inner]);
    top = x > top ? x : top;
  }}
  top = blockFold(top, [](W x, W y) {{ return x > y ? x : y; }});
  W sum = 0;
  for (int k = threadIdx.x; k < extent; k += blockDim.x)
    sum += m_exp(wide(in0[line + (i64)k * inner]) - top);
  sum = blockSum(sum);
  for (int k = threadIdx.x; k < extent; k += blockDim.x) {{
    const W x = wide(in0[line + (i64)k * inner]) - top;
    out0[line + (i64)k * inner] = narrow<T>({});
  }}
)",
                       log ? "x - m_log(sum)" : "m_exp(x) / sum"));
  return source;
}

Source softmaxGradSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  const bool log = op.def.name == "log_softmax_grad";
  addLines(source,
           op,
           fmt::format(R"(  W sum = 0;
  for (int k = threadIdx.x; k < extent; k += blockDim.x) {{
    const W y = wide(in0[line + (i64)k * inner]), dy = wide(in1[line + (i64)k * inner]);
    sum += {};
  }}
  sum = blockSum(sum);
  for (int k = threadIdx.x; k < extent; k += blockDim.x) {{
    const W y = wide(in0[line + (i64)k * inner]), dy = wide(in1[line + (i64)k * inner]);
    out0[line + (i64)k * inner] = narrow<T>({});
  }}
)",
                       log ? "dy" : "y * dy",
                       log ? "dy - m_exp(y) * sum" : "y * (dy - sum)"));
  return source;
}

Source layerNormSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source,
          op,
          fmt::format(R"(  W sum = 0;
{0}sum += wide(in0[base + c]);
  const W mean = blockSum(sum) / count;
  W squares = 0;
{0}{{ const W x = wide(in0[base + c]) - mean; squares += x * x; }}
  const W rstd = W(1) / m_sqrt(blockSum(squares) / count + W({1}));
{0}out0[base + c] = narrow<T>((wide(in0[base + c]) - mean) * rstd * wide(in1[c]) + wide(in2[c]));
  if (threadIdx.x == 0) {{ out1[r] = mean; out2[r] = rstd; }}
)",
                      kForColumns,
                      literal(ops::epsilonOf(op))));
  return source;
}

Source rmsNormSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source,
          op,
          fmt::format(R"(  W squares = 0;
{0}{{ const W x = wide(in0[base + c]); squares += x * x; }}
  const W rrms = W(1) / m_sqrt(blockSum(squares) / count + W({1}));
{0}out0[base + c] = narrow<T>(wide(in0[base + c]) * rrms * wide(in1[c]));
  if (threadIdx.x == 0) out1[r] = rrms;
)",
                      kForColumns,
                      literal(ops::epsilonOf(op))));
  return source;
}

Source layerNormGradSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source,
          op,
          fmt::format(R"(  const W mean = in2[r], rstd = in3[r];
  W sum = 0, sumHat = 0;
{0}{{
    const W h = wide(in4[base + c]) * wide(in1[c]);
    sum += h;
    sumHat += h * ((wide(in0[base + c]) - mean) * rstd);
  }}
  sum = blockSum(sum);
  sumHat = blockSum(sumHat);
{0}{{
    const W h = wide(in4[base + c]) * wide(in1[c]), xhat = (wide(in0[base + c]) - mean) * rstd;
    out0[base + c] = narrow<T>(rstd * (h - sum / count - xhat * sumHat / count));
  }}
)",
                      kForColumns));
  addColumnFold(source, op, layerNormFactors(op));
  return source;
}

Source rmsNormGradSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source,
          op,
          fmt::format(R"(  const W rrms = in2[r];
  W sumHat = 0;
{0}sumHat += wide(in3[base + c]) * wide(in1[c]) * (wide(in0[base + c]) * rrms);
  sumHat = blockSum(sumHat);
{0}{{
    const W h = wide(in3[base + c]) * wide(in1[c]), xhat = wide(in0[base + c]) * rrms;
    out0[base + c] = narrow<T>(rrms * (h - xhat * sumHat / count));
  }}
)",
                      kForColumns));
  addColumnFold(source, op, rmsNormFactors(op));
  return source;
}

}  // namespace sluice::devices::cuda
