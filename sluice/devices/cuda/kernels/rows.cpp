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

/// One block per row r. The body says EACH for the loop over the columns c of a thread, X, DY,
/// GAMMA and BETA for their elements, and RESULT(..) for the element of output 0. Where a row is a
/// whole number of packets, a thread has one packet of each, in registers; otherwise it has every
/// n-th column.
void addRows(Source& source, const ir::OpView& op, int slopes, std::string_view body) {
  constexpr std::int64_t kPacket = 16;
  constexpr std::int64_t kMostThreads = 1024;
  const ops::RowDims d = ops::rowDims(op);
  const std::int64_t width = kPacket / static_cast<std::int64_t>(byteSize(op.inputs[0].dtype));
  const std::int64_t packets = d.columns / width;
  const bool packed = d.columns % width == 0 && packets > 0 && packets <= kMostThreads;
  const bool hasBeta = op.def.name == "layer_norm";
  std::string head = fmt::format(
      "  const int columns = {0};\n  const W count = W({1}.0);\n"
      "  const i64 r = blockIdx.x, base = r * columns;\n",
      d.columns,
      std::max<std::int64_t>(d.columns, 1));
  std::string tail;
  if (packed) {
    source.text +=
        "#define EACH if (mine) for (int j = 0; j < WIDTH; ++j)\n#define X wide(x_.at[j])\n"
        "#define DY wide(dy_.at[j])\n#define GAMMA wide(gamma_.at[j])\n"
        "#define BETA wide(beta_.at[j])\n#define RESULT(v) y_.at[j] = narrow<T>(v)\n";
    head += fmt::format(
        "  constexpr int WIDTH = {};\n  const bool mine = threadIdx.x < {};\n"
        "  const int c0 = mine ? threadIdx.x * WIDTH : 0;\n"
        "  const auto x_ = load<WIDTH>(in0 + base + c0), gamma_ = load<WIDTH>(in1 + c0);\n"
        "  Elements<WIDTH, T> y_;\n",
        width,
        packets);
    if (hasBeta) {
      head += "  const auto beta_ = load<WIDTH>(in2 + c0);\n";
    }
    if (slopes >= 0) {
      head += fmt::format("  const auto dy_ = load<WIDTH>(in{} + base + c0);\n", slopes);
    }
    tail = "  if (mine) store(out0 + base + c0, y_);\n";
  } else {
    source.text += fmt::format(
        "#define EACH for (int c = threadIdx.x; c < columns; c += blockDim.x)\n"
        "#define X wide(in0[base + c])\n#define DY wide(in{}[base + c])\n"
        "#define GAMMA wide(in1[c])\n#define BETA wide(in2[c])\n"
        "#define RESULT(v) out0[base + c] = narrow<T>(v)\n",
        std::max(slopes, 0));
  }
  const std::int64_t threads = packed ? (packets + 31) / 32 * 32 : threadsFor(d.columns / 4);
  addEntry(
      source, op, {"rows", d.rows, static_cast<int>(threads)}, head + std::string(body) + tail);
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
          -1,
          fmt::format(R"(  W sum = 0, squares = 0;
  EACH sum += X;
  const W mean = blockSum(sum) / count;
  EACH {{ const W x = X - mean; squares += x * x; }}
  const W rstd = W(1) / m_sqrt(blockSum(squares) / count + W({}));
  EACH RESULT((X - mean) * rstd * GAMMA + BETA);
  if (threadIdx.x == 0) {{ out1[r] = mean; out2[r] = rstd; }}
)",
                      literal(ops::epsilonOf(op))));
  return source;
}

Source rmsNormSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source,
          op,
          -1,
          fmt::format(R"(  W squares = 0;
  EACH {{ const W x = X; squares += x * x; }}
  const W rrms = W(1) / m_sqrt(blockSum(squares) / count + W({}));
  EACH RESULT(X * rrms * GAMMA);
  if (threadIdx.x == 0) out1[r] = rrms;
)",
                      literal(ops::epsilonOf(op))));
  return source;
}

Source layerNormGradSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source, op, 4, R"(  const W mean = in2[r], rstd = in3[r];
  W sum = 0, sumHat = 0;
  EACH {
    const W h = DY * GAMMA;
    sum += h;
    sumHat += h * ((X - mean) * rstd);
  }
  sum = blockSum(sum) / count;
  sumHat = blockSum(sumHat) / count;
  EACH RESULT(rstd * (DY * GAMMA - sum - (X - mean) * rstd * sumHat));
)");
  addColumnFold(source, op, layerNormFactors(op));
  return source;
}

Source rmsNormGradSource(const ir::OpView& op) {
  Source source = sourceFor(op);
  addRows(source, op, 3, R"(  const W rrms = in2[r];
  W sumHat = 0;
  EACH sumHat += DY * GAMMA * (X * rrms);
  sumHat = blockSum(sumHat) / count;
  EACH RESULT(rrms * (DY * GAMMA - X * rrms * sumHat));
)");
  addColumnFold(source, op, rmsNormFactors(op));
  return source;
}

}  // namespace sluice::devices::cuda
