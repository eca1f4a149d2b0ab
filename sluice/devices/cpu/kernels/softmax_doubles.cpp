// softmax, log_softmax and their gradients of float64: lines in parallel, each in the order of the
// reference.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/softmax.h"

namespace sluice::devices::cpu {
namespace {

/// Elements of a line, `step` apart.
struct Line {
  const double* x = nullptr;
  const double* dy = nullptr;  ///< of the gradients, whose x is y
  double* out = nullptr;
  std::int64_t count = 0;
  std::int64_t step = 1;
};

/// f(i) for the places of all elements.
template <class F>
void forEach(const Line& line, F f) {
  for (std::int64_t i = 0; i < line.count; ++i) {
    f(i * line.step);
  }
}

double maximumOf(const Line& line) {
  double top = -std::numeric_limits<double>::infinity();
  forEach(line, [&](std::int64_t i) { top = std::max(top, line.x[i]); });
  return top;
}

void softmax(const Line& line) {
  const double top = maximumOf(line);
  double sum = 0;
  forEach(line, [&](std::int64_t i) {
    line.out[i] = std::exp(line.x[i] - top);
    sum += line.out[i];
  });
  forEach(line, [&](std::int64_t i) { line.out[i] /= sum; });
}

void logSoftmax(const Line& line) {
  const double top = maximumOf(line);
  double sum = 0;
  forEach(line, [&](std::int64_t i) { sum += std::exp(line.x[i] - top); });
  const double logSum = std::log(sum);
  forEach(line, [&](std::int64_t i) { line.out[i] = line.x[i] - top - logSum; });
}

void softmaxGrad(const Line& line) {
  double sum = 0;
  forEach(line, [&](std::int64_t i) { sum += line.x[i] * line.dy[i]; });
  forEach(line, [&](std::int64_t i) { line.out[i] = line.x[i] * (line.dy[i] - sum); });
}

void logSoftmaxGrad(const Line& line) {
  double sum = 0;
  forEach(line, [&](std::int64_t i) { sum += line.dy[i]; });
  forEach(line, [&](std::int64_t i) { line.out[i] = line.dy[i] - std::exp(line.x[i]) * sum; });
}

using LineFunction = void (*)(const Line&);

LineFunction functionOf(std::string_view op) {
  if (op == "softmax") {
    return softmax;
  }
  if (op == "log_softmax") {
    return logSoftmax;
  }
  return op == "softmax_grad" ? softmaxGrad : logSoftmaxGrad;
}

class SoftmaxDoubles : public Kernel {
 public:
  explicit SoftmaxDoubles(const ir::OpView& op)
      : function_(functionOf(op.def.name)), d_(ops::axisDims(op)) {}

  void run(const KernelRun& run) override {
    const std::int64_t lines = d_.outer * d_.inner;
    const std::int64_t perTile = itemsPerTile(8 * d_.extent);  // exponentials take long
    run.workers.parallelFor(ceilDiv(lines, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(lines, (tile + 1) * perTile);
      for (std::int64_t i = tile * perTile; i < last; ++i) {
        const std::int64_t first = i / d_.inner * d_.extent * d_.inner + i % d_.inner;
        function_({run.in<double>(0) + first,
                   run.inputs.size() > 1 ? run.in<double>(1) + first : nullptr,
                   run.out<double>(0) + first,
                   d_.extent,
                   d_.inner});
      }
    });
  }

 private:
  LineFunction function_;
  ops::AxisDims d_;
};

}  // namespace

bool supportsSoftmaxDoubles(const ir::OpView& op) {
  return op.inputs[0].dtype == DType::F64;
}

std::unique_ptr<Kernel> makeSoftmaxDoubles(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<SoftmaxDoubles>(op);
}

}  // namespace sluice::devices::cpu
