// Cross entropy of scores and labels, and its gradient, without the matrix of log-probabilities. A
// block has one term: it reads the scores once, with the largest so far as the reference of the
// sum, and folds its threads in a fixed order.
#include "sluice/ops/cross_entropy.h"

#include <algorithm>

#include <fmt/format.h>

#include "sluice/devices/cuda/kernels/kernels.h"
#include "sluice/devices/cuda/kernels/labels.h"

namespace sluice::devices::cuda {
namespace {

constexpr std::int64_t kChunk = 4096;  // classes of a block of the gradient

ops::NllDims dimsOf(const ir::OpView& op) {
  return ops::nllDims(op, op.inputs[0].shape, op.inputs[1]);
}

bool isMean(const ir::OpView& op) {
  return ops::reductionOf(op) == ops::Reduction::Mean;
}

bool isReduced(const ir::OpView& op) {
  return ops::reductionOf(op) != ops::Reduction::None;
}

Source sourceFor(const ir::OpView& op, const ops::NllDims& d) {
  const double smoothing = ops::smoothingOf(op);
  Source source;
  source.text = fmt::format(
      "typedef {} T;\ntypedef {} W;\n#define CLASSES {}ll\n#define STEP {}ll\n"
      "#define TRUE_PART {}\n#define EVERY_PART {}\n",
      typeText(op.inputs[0].dtype),
      wideText(op.inputs[0].dtype),
      d.classes,
      d.positions,
      literal(1.0 - smoothing),
      literal(smoothing / static_cast<double>(std::max<std::int64_t>(d.classes, 1))));
  return source;
}

// top and sum: of the classes seen so far, sum(exp(x - top)). Four at a time keep more loads in
// flight.
constexpr std::string_view kTerm = R"(
  const W infinite = W(__longlong_as_double(0x7ff0000000000000ll));
  W top = -infinite, sum = 0, all = 0;
  for (i64 c = threadIdx.x; c < CLASSES; c += 4 * blockDim.x) {
    W x[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i64 at = c + j * blockDim.x;
      x[j] = at < CLASSES ? wide(in0[first + at * STEP]) : -infinite;
      if (EVERY_PART != 0.0 && at < CLASSES) all += x[j];
    }
    W most = top;
#pragma unroll
    for (int j = 0; j < 4; ++j) most = x[j] > most ? x[j] : most;
    if (most > top) {
      sum *= m_exp(top - most);
      top = most;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (x[j] != -infinite) sum += m_exp(x[j] - top);
  }
  const W most = blockFold(top, [](W x, W y) { return x > y ? x : y; });
  sum = blockSum(top == -infinite ? sum : sum * m_exp(top - most));
  if (EVERY_PART != 0.0) all = blockSum(all);
  if (threadIdx.x != 0) return;
  const W logarithm = most + m_log(sum);
  out1[t] = logarithm;
  double value = 0;
  if (label >= 0) {
    value = -TRUE_PART * (double)(wide(in0[first + label * STEP]) - logarithm);
    if (EVERY_PART != 0.0) value -= EVERY_PART * ((double)all - (double)CLASSES * (double)logarithm);
  }
)";

}  // namespace

/// Room for the terms, which are added up by a launch of their own.
device::Choice chooseCrossEntropy(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  if (isReduced(op)) {
    choice.scratchBytes =
        static_cast<std::size_t>(std::max<std::int64_t>(dimsOf(op).terms(), 1)) * sizeof(double);
  }
  return choice;
}

Source crossEntropySource(const ir::OpView& op) {
  const ops::NllDims d = dimsOf(op);
  const std::string classOfTerm = classText(op, 1, d.classes);
  const std::string_view type = typeText(op.outputs[0].dtype);
  Source source = sourceFor(op, d);
  addEntry(source,
           op,
           {"terms", d.classes == 0 ? 0 : d.terms(), threadsFor(d.classes / 4)},
           fmt::format("  const i64 t = blockIdx.x, first = {};\n  const i64 label = {};\n",
                       placeText(d, "t", "0"),
                       classOfTerm) +
               std::string(kTerm) +
               (isReduced(op) ? std::string("  ((double*)scratch)[t] = value;\n")
                              : fmt::format("  out0[t] = narrow<{}>(value);\n", type)));
  if (isReduced(op)) {
    addEntry(source,
             op,
             {"total", 1, kThreads},
             factorText(d, classOfTerm, isMean(op)) + fmt::format(R"(  double sum = 0;
  for (i64 t = threadIdx.x; t < {}ll; t += blockDim.x) sum += ((const double*)scratch)[t];
  sum = blockSum(sum);
  if (threadIdx.x == 0) out0[0] = narrow<{}>(sum * -factor);
)",
                                                                  d.terms(),
                                                                  type));
  }
  return source;
}

device::Choice chooseCrossEntropyGrad(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = sizeof(double);
  return choice;
}

Source crossEntropyGradSource(const ir::OpView& op) {
  const ops::NllDims d = dimsOf(op);
  const std::string classOfTerm = classText(op, 1, d.classes);
  const std::int64_t chunks = (d.classes + kChunk - 1) / kChunk;
  Source source = sourceFor(op, d);
  addEntry(source,
           op,
           {"factors", d.terms() * chunks == 0 ? 0 : 1, kThreads},
           factorText(d, classOfTerm, isMean(op)) +
               "  if (threadIdx.x == 0) *(double*)scratch = -factor;\n");
  addEntry(source,
           op,
           {"elements", d.terms() * chunks, threadsFor(std::min(d.classes, kChunk))},
           fmt::format(R"(  const i64 t = blockIdx.x / {0}ll, begin = blockIdx.x % {0}ll * {1}ll;
  const i64 label = {2}, first = {3};
  const i64 end = begin + {1}ll < CLASSES ? begin + {1}ll : CLASSES;
  const W slope = W(*(const double*)scratch * (double)wide(in3[{4}])), logarithm = in2[t];
#pragma unroll 4
  for (i64 c = begin + threadIdx.x; c < end; c += blockDim.x) {{
    const W p = m_exp(wide(in0[first + c * STEP]) - logarithm);
    const W g = p - W(c == label ? TRUE_PART + EVERY_PART : EVERY_PART);
    out0[first + c * STEP] = narrow<T>(label < 0 ? W(0) : slope * g);
  }}
)",
                       std::max<std::int64_t>(chunks, 1),
                       kChunk,
                       classOfTerm,
                       placeText(d, "t", "0"),
                       isReduced(op) ? "0" : "t"));
  return source;
}

}  // namespace sluice::devices::cuda
