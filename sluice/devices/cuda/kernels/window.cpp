// Convolutions and pooling by plain sums: a thread, or for a weight's gradient a block, adds up the
// products of one result in a fixed order. They are right for every window, and slow for large
// ones.
#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ops/conv.h"
#include "sluice/ops/pool.h"

namespace sluice::devices::cuda {
namespace {

bool isChannelsLast(const device::Choice& choice) {
  return choice.outputs[0].kind == device::Layout::Kind::ChannelsLast;
}

/// Where element (batch n, channel c, place p) of a tensor of `channels` maps of `places` lies, and
/// back, as names of the text that begin with `name`.
std::string storageText(std::string_view name,
                        std::string_view channels,
                        std::string_view places,
                        bool last) {
  if (last) {
    return fmt::format(
        "#define {0}_AT(n, c, p) (((i64)(n) * {2} + (p)) * {1} + (c))\n"
        "#define {0}_CHANNEL(i) ((i) % {1})\n#define {0}_PLACE(i) ((i) / {1} % {2})\n"
        "#define {0}_BATCH(i) ((i) / {1} / {2})\n",
        name,
        channels,
        places);
  }
  return fmt::format(
      "#define {0}_AT(n, c, p) (((i64)(n) * {1} + (c)) * {2} + (p))\n"
      "#define {0}_PLACE(i) ((i) % {2})\n#define {0}_CHANNEL(i) ((i) / {2} % {1})\n"
      "#define {0}_BATCH(i) ((i) / {2} / {1})\n",
      name,
      channels,
      places);
}

/// The constants of a window as names of the text.
std::string windowText(const ops::WindowDims& d) {
  std::string text;
  for (std::size_t a = 0; a < 3; ++a) {
    text += fmt::format(
        "#define IN{0} {1}\n#define OUT{0} {2}\n#define K{0} {3}\n#define S{0} {4}\n"
        "#define P{0} {5}\n#define L{0} {6}\n",
        a,
        d.in[a],
        d.out[a],
        d.kernel[a],
        d.strides[a],
        d.padsBefore[a],
        d.dilations[a]);
  }
  return text + R"(
#define INS ((i64)IN0 * IN1 * IN2)
#define OUTS ((i64)OUT0 * OUT1 * OUT2)
#define KS (K0 * K1 * K2)
/// The place in the input under place k of window o, or -1 in the padding.
D i64 tap(i64 o, int k) {
  const int i2 = (int)(o % OUT2) * S2 - P2 + k % K2 * L2;
  const int i1 = (int)(o / OUT2 % OUT1) * S1 - P1 + k / K2 % K1 * L1;
  const int i0 = (int)(o / OUT2 / OUT1) * S0 - P0 + k / K2 / K1 * L0;
  if (i0 < 0 || i0 >= IN0 || i1 < 0 || i1 >= IN1 || i2 < 0 || i2 >= IN2) return -1;
  return ((i64)i0 * IN1 + i1) * IN2 + i2;
}
/// The coordinate of the window that has the place under its place k, or -1.
D int windowOf(int place, int k, int stride, int pad, int dilation, int windows) {
  const int first = place + pad - k * dilation;
  if (first < 0 || first % stride != 0 || first / stride >= windows) return -1;
  return first / stride;
}
/// The window that has the place of the input under its place k, or -1.
D i64 windowAt(i64 place, int k) {
  const int o2 = windowOf((int)(place % IN2), k % K2, S2, P2, L2, OUT2);
  const int o1 = windowOf((int)(place / IN2 % IN1), k / K2 % K1, S1, P1, L1, OUT1);
  const int o0 = windowOf((int)(place / IN2 / IN1), k / K2 / K1, S0, P0, L0, OUT0);
  return o0 < 0 || o1 < 0 || o2 < 0 ? -1 : ((i64)o0 * OUT1 + o1) * OUT2 + o2;
}
)";
}

Source windowSource(const ops::WindowDims& d, DType dtype) {
  Source source;
  source.text = windowText(d) +
                fmt::format("typedef {} W;\ntypedef {} T;\n", wideText(dtype), typeText(dtype));
  return source;
}

Source poolWindow(const ir::OpView& op, const device::Choice& choice, DType dtype) {
  const ops::PoolDims d = ops::poolDims(op);
  Source source = windowSource(d, dtype);
  source.text += fmt::format("#define C {}ll\n", d.channels) +
                 storageText("X", "C", "INS", isChannelsLast(choice)) +
                 storageText("Y", "C", "OUTS", isChannelsLast(choice));
  return source;
}

Source convWindow(const ir::OpView& op, const ops::ConvDims& d, const device::Choice& choice) {
  Source source = windowSource(d, op.inputs[0].dtype);
  source.text += fmt::format(
      "#define C {}ll\n#define O {}ll\n#define CG {}ll\n#define OG {}ll\n"
      "#define N {}ll\n",
      d.inChannels,
      d.outChannels,
      d.inPerGroup(),
      d.outPerGroup(),
      d.batch);
  const bool last = isChannelsLast(choice);
  source.text += storageText("X", "C", "INS", last) + storageText("W", "CG", "KS", last) +
                 storageText("Y", "O", "OUTS", last);
  return source;
}

/// The number of places that count in the mean of window o, as in avgPoolDivisors.
std::string divisorText(const ops::PoolDims& d, bool countIncludePad) {
  std::string text;
  for (std::size_t a = 0; a < 3; ++a) {
    text += fmt::format(
        "D i64 count{0}(i64 o) {{\n"
        "  const i64 begin = o * S{0} - P{0}, end = begin + K{0};\n"
        "  const i64 low = {1}ll, high = {2}ll;\n"
        "  const i64 n = (end < high ? end : high) - (begin > low ? begin : low);\n"
        "  return n > 0 ? n : 0;\n}}\n",
        a,
        countIncludePad ? -d.padsBefore[a] : 0,
        d.in[a] + (countIncludePad ? d.padsAfter[a] : 0));
  }
  return text +
         "D W divisor(i64 o) {\n"
         "  const i64 n = count0(o / OUT2 / OUT1) * count1(o / OUT2 % OUT1) * "
         "count2(o % OUT2);\n"
         "  return (W)(n > 1 ? n : 1);\n}\n";
}

}  // namespace

bool supportsWindow(const ir::OpView& op) {
  // Coordinates inside of a map are 32 bits wide.
  constexpr std::int64_t kLimit = std::int64_t{1} << 30;
  const bool floats = isFloat(op.inputs[op.inputs.size() - 1].dtype);
  for (const TensorType& type : op.inputs) {
    if (type.shape.elements() >= kLimit || type.shape.elements() == 0) {
      return false;
    }
  }
  return floats && op.outputs[0].shape.elements() < kLimit && op.outputs[0].shape.elements() > 0;
}

Source convSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = convWindow(op, ops::convDims(op), choice);
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), R"(
  const i64 y = Y_PLACE(i), o = Y_CHANNEL(i), n = Y_BATCH(i), first = o / OG * CG;
  W sum = 0;
  for (i64 c = 0; c < CG; ++c)
    for (int k = 0; k < KS; ++k) {
      const i64 x = tap(y, k);
      if (x >= 0) sum += wide(in0[X_AT(n, first + c, x)]) * wide(in1[W_AT(o, c, k)]);
    }
  out0[i] = narrow<T>(sum);
)");
  return source;
}

Source convGradInputSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = convWindow(op, ops::convDims(op), choice);
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), R"(
  const i64 x = X_PLACE(i), channel = X_CHANNEL(i), n = X_BATCH(i);
  const i64 c = channel % CG, first = channel / CG * OG;
  W sum = 0;
  for (i64 o = first; o < first + OG; ++o)
    for (int k = 0; k < KS; ++k) {
      const i64 y = windowAt(x, k);
      if (y >= 0) sum += wide(in0[W_AT(o, c, k)]) * wide(in1[Y_AT(n, o, y)]);
    }
  out0[i] = narrow<T>(sum);
)");
  return source;
}

Source convGradWeightSource(const ir::OpView& op, const device::Choice& choice) {
  const ops::ConvDims d = ops::convDims(op);
  Source source = convWindow(op, d, choice);
  addEntry(source,
           op,
           {"weights", op.outputs[0].shape.elements(), threadsFor(d.batch * d.outSize())},
           R"(
  const int k = (int)W_PLACE((i64)blockIdx.x);
  const i64 c = W_CHANNEL((i64)blockIdx.x), o = W_BATCH((i64)blockIdx.x);
  const i64 channel = o / OG * CG + c;
  W sum = 0;
  for (i64 j = threadIdx.x; j < N * OUTS; j += blockDim.x) {
    const i64 y = j % OUTS, n = j / OUTS, x = tap(y, k);
    if (x >= 0) sum += wide(in0[X_AT(n, channel, x)]) * wide(in1[Y_AT(n, o, y)]);
  }
  sum = blockSum(sum);
  if (threadIdx.x == 0) out0[blockIdx.x] = narrow<T>(sum);
)");
  return source;
}

Source maxPoolSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = poolWindow(op, choice, op.inputs[0].dtype);
  addElementEntry(source,
                  op,
                  "elements",
                  op.outputs[0].shape.elements(),
                  fmt::format(R"(
  const i64 y = Y_PLACE(i), c = Y_CHANNEL(i), n = Y_BATCH(i);
  W best = -W(__longlong_as_double(0x7ff0000000000000ll));
  int winner = 0;
  bool found = false;
  for (int k = 0; k < KS; ++k) {{
    const i64 x = tap(y, k);
    if (x < 0) continue;
    const W value = wide(in0[X_AT(n, c, x)]);
    if (!found || value > best || (value != value && best == best)) {{
      found = true;
      best = value;
      winner = k;
    }}
  }}
  out0[i] = narrow<T>(best);
  out1[i] = ({})winner;
)",
                              typeText(op.outputs[1].dtype)));
  return source;
}

Source maxPoolGradSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = poolWindow(op, choice, op.inputs[1].dtype);
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), R"(
  const i64 x = X_PLACE(i), c = X_CHANNEL(i), n = X_BATCH(i);
  W sum = 0;
  for (int k = KS - 1; k >= 0; --k) {  // windows in their order
    const i64 y = windowAt(x, k);
    if (y >= 0 && in0[Y_AT(n, c, y)] == k) sum += wide(in1[Y_AT(n, c, y)]);
  }
  out0[i] = narrow<T>(sum);
)");
  return source;
}

Source avgPoolSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = poolWindow(op, choice, op.inputs[0].dtype);
  source.text += divisorText(ops::poolDims(op), op.attrs.flag("countIncludePad"));
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), R"(
  const i64 y = Y_PLACE(i), c = Y_CHANNEL(i), n = Y_BATCH(i);
  W sum = 0;
  for (int k = 0; k < KS; ++k) {
    const i64 x = tap(y, k);
    if (x >= 0) sum += wide(in0[X_AT(n, c, x)]);
  }
  out0[i] = narrow<T>(sum / divisor(y));
)");
  return source;
}

Source avgPoolGradSource(const ir::OpView& op, const device::Choice& choice) {
  Source source = poolWindow(op, choice, op.inputs[0].dtype);
  source.text += divisorText(ops::poolDims(op), op.attrs.flag("countIncludePad"));
  addElementEntry(source, op, "elements", op.outputs[0].shape.elements(), R"(
  const i64 x = X_PLACE(i), c = X_CHANNEL(i), n = X_BATCH(i);
  W sum = 0;
  for (int k = KS - 1; k >= 0; --k) {
    const i64 y = windowAt(x, k);
    if (y >= 0) sum += wide(in0[Y_AT(n, c, y)]) / divisor(y);
  }
  out0[i] = narrow<T>(sum);
)");
  return source;
}

}  // namespace sluice::devices::cuda
