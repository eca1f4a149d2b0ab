// Batch norm. In plain storage a block has a channel. 16-bit floats have their channels last, as
// their convolutions do: then the statistics are folds over the rows of a matrix of channels, and
// one more launch makes the elements.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/columns.h"
#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/ops/norm.h"

namespace sluice::devices::cuda {
namespace {

bool isInChannelsLast(const ir::OpView& op) {
  const DType dtype = op.inputs[0].dtype;
  const std::int64_t rank = op.inputs[0].shape.rank();
  return (dtype == DType::BF16 || dtype == DType::F16) && rank >= 3 && rank <= 5 &&
         op.inputs[0].shape.elements() > 0;
}

Source sourceFor(const ir::OpView& op, const ops::ChannelDims& d) {
  Source source;
  source.text =
      fmt::format("typedef {} W;\ntypedef {} T;\n#define COUNT W({}.0)\n#define EPSILON W({})\n",
                  wideText(op.inputs[0].dtype),
                  typeText(op.inputs[0].dtype),
                  std::max<std::int64_t>(d.count(), 1),
                  literal(ops::epsilonOf(op)));
  return source;
}

/// One block per channel: `at(k)` is the place of its k-th element.
void addChannels(Source& source,
                 const ir::OpView& op,
                 const ops::ChannelDims& d,
                 std::string_view body) {
  addEntry(source,
           op,
           {"channels", d.channels, threadsFor(d.count())},
           fmt::format("  const i64 n = {0}ll, c = blockIdx.x;\n"
                       "  const auto at = [=](i64 k) {{\n"
                       "    return (k / {1}ll * {2}ll + c) * {1}ll + k % {1}ll; }};\n",
                       d.count(),
                       std::max<std::int64_t>(d.positions, 1),
                       d.channels) +
               std::string(body));
}

constexpr std::string_view kChannelForward = R"(  W sum = 0, squares = 0;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) sum += wide(in0[at(k)]);
  const W mean = blockSum(sum) / COUNT;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    const W x = wide(in0[at(k)]) - mean;
    squares += x * x;
  }
  const W variance = blockSum(squares) / COUNT;
  const W deviation = m_sqrt(variance + EPSILON);
  for (i64 k = threadIdx.x; k < n; k += blockDim.x)
    out0[at(k)] =
        narrow<T>((wide(in0[at(k)]) - mean) / deviation * wide(in1[c]) + wide(in2[c]));
  if (threadIdx.x == 0) { out1[c] = mean; out2[c] = variance; }
)";

constexpr std::string_view kChannelBackward =
    R"(  const W mean = in2[c], rstd = W(1) / m_sqrt(in3[c] + EPSILON);
  W gamma = 0, beta = 0;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    const W dy = wide(in4[at(k)]);
    gamma += dy * ((wide(in0[at(k)]) - mean) * rstd);
    beta += dy;
  }
  gamma = blockSum(gamma);
  beta = blockSum(beta);
  const W scale = wide(in1[c]) * rstd;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    const W xhat = (wide(in0[at(k)]) - mean) * rstd;
    out0[at(k)] = narrow<T>(scale * (wide(in4[at(k)]) - beta / COUNT - xhat * gamma / COUNT));
  }
  if (threadIdx.x == 0) { out1[c] = narrow<T>(gamma); out2[c] = narrow<T>(beta); }
)";

/// Sums of differences to the channel's first element, and of their squares: one look at the
/// elements is enough, and no digits are lost where the mean is large.
ColumnFold forwardFold(const ops::ChannelDims& d) {
  return {.rows = d.count(),
          .columns = d.channels,
          .matrices = {0},
          .terms = {"m0 - base[j]", "(m0 - base[j]) * (m0 - base[j])"},
          .perColumn =
              "    W base[WIDTH];\n    for (int j = 0; j < WIDTH; ++j) base[j] = wide(in0[c0 + "
              "j]);\n",
          .finish =
              "const W away = s0 / COUNT, variance = s1 / COUNT - away * away;\n"
              "    out1[c] = wide(in0[c]) + away;\n"
              "    out2[c] = variance < W(0) ? W(0) : variance;\n"
              "    FACTORS[c] = wide(in1[c]) / m_sqrt(out2[c] + EPSILON);"};
}

ColumnFold backwardFold(const ops::ChannelDims& d) {
  return {.rows = d.count(),
          .columns = d.channels,
          .matrices = {0, 4},
          .terms = {"m4 * ((m0 - mean[j]) * rstd[j])", "m4"},
          .perColumn =
              "    W mean[WIDTH], rstd[WIDTH];\n"
              "    for (int j = 0; j < WIDTH; ++j) {\n      mean[j] = in2[c0 + j];\n"
              "      rstd[j] = W(1) / m_sqrt(in3[c0 + j] + EPSILON);\n    }\n",
          .finish =
              "const W rstd = W(1) / m_sqrt(in3[c] + EPSILON);\n"
              "    out1[c] = narrow<T>(s0); out2[c] = narrow<T>(s1);\n"
              "    FACTORS[c] = wide(in1[c]) * rstd;\n"
              "    FACTORS[columns + c] = s1 / COUNT;\n"
              "    FACTORS[2 * columns + c] = s0 / COUNT * rstd;"};
}

/// In scratch memory after the parts of the fold.
std::string factorsText(const ColumnFold& fold) {
  return fmt::format("#define FACTORS ((W*)((char*)scratch + {}))\n", columnScratch(fold));
}

/// `value` makes the result of element j, channel c + j, from the packets p0 and p4.
void addElements(Source& source,
                 const ir::OpView& op,
                 const ops::ChannelDims& d,
                 bool readsSlopes,
                 std::string_view value) {
  const std::int64_t width = d.channels % 8 == 0 ? 8 : 1;
  const std::int64_t count = op.outputs[0].shape.elements();
  const std::int64_t threads = count / width;
  addEntry(source,
           op,
           {"elements", (threads + kThreads - 1) / kThreads, kThreads},
           fmt::format("  constexpr int WIDTH = {0};\n"
                       "  const i64 i = ((i64)blockIdx.x * {1} + threadIdx.x) * WIDTH;\n"
                       "  if (i >= {2}ll) return;\n"
                       "  const i64 columns = {3}ll;\n  const int c = (int)(i % columns);\n"
                       "  const auto p0 = load<WIDTH>(in0 + i);\n{4}"
                       "  Elements<WIDTH, T> y;\n#pragma unroll\n"
                       "  for (int j = 0; j < WIDTH; ++j) y.at[j] = narrow<T>({5});\n"
                       "  store(out0 + i, y);\n",
                       width,
                       kThreads,
                       count,
                       d.channels,
                       readsSlopes ? "  const auto p4 = load<WIDTH>(in4 + i);\n" : "",
                       value));
}

device::Choice chooseChannels(const ir::OpView& op, const ColumnFold& fold, std::size_t factors) {
  device::Choice choice = device::plainChoice(op, "");
  if (isInChannelsLast(op)) {
    choice.inputs[0] = device::Layout::channelsLast();
    choice.outputs[0] = device::Layout::channelsLast();
    choice.scratchBytes =
        columnScratch(fold) + factors * static_cast<std::size_t>(fold.columns) * sizeof(double);
  }
  return choice;
}

}  // namespace

device::Choice chooseBatchNorm(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  return chooseChannels(op, forwardFold(ops::channelDims(op)), 1);
}

Source batchNormSource(const ir::OpView& op) {
  const ops::ChannelDims d = ops::channelDims(op);
  Source source = sourceFor(op, d);
  if (!isInChannelsLast(op)) {
    addChannels(source, op, d, kChannelForward);
    return source;
  }
  source.text += factorsText(forwardFold(d));
  addColumnFold(source, op, forwardFold(d));
  addElements(
      source, op, d, false, "(wide(p0.at[j]) - out1[c + j]) * FACTORS[c + j] + wide(in2[c + j])");
  return source;
}

device::Choice chooseBatchNormGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = chooseChannels(op, backwardFold(ops::channelDims(op)), 3);
  choice.inputs[4] = choice.inputs[0];
  return choice;
}

Source batchNormGradSource(const ir::OpView& op) {
  const ops::ChannelDims d = ops::channelDims(op);
  Source source = sourceFor(op, d);
  if (!isInChannelsLast(op)) {
    addChannels(source, op, d, kChannelBackward);
    return source;
  }
  source.text += factorsText(backwardFold(d));
  addColumnFold(source, op, backwardFold(d));
  addElements(source,
              op,
              d,
              true,
              "FACTORS[c + j] * (wide(p4.at[j]) - FACTORS[columns + c + j] - "
              "(wide(p0.at[j]) - in2[c + j]) * FACTORS[2 * columns + c + j])");
  return source;
}

}  // namespace sluice::devices::cuda
