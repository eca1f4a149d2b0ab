#include "tests/conformance/case_run.h"

#include <algorithm>
#include <cmath>

#include "sluice/base/error.h"
#include "sluice/ops/interpreter.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {

std::vector<HostTensor> operandsOf(const OpCase& c, DType floats) {
  std::vector<HostTensor> tensors;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    TensorType type = operand.type;
    type.dtype = type.dtype == DType::F32 ? floats : type.dtype;
    tensors.push_back(operand.value ? cast(*operand.value, type.dtype)
                                    : randomTensor(i + 1, type, operand.low, operand.high));
  }
  return tensors;
}

std::optional<std::vector<HostTensor>> expectedOf(const OpCase& c,
                                                  const std::vector<HostTensor>& operands,
                                                  ir::RunInfo info) {
  try {
    return ops::evaluate(c.def, c.attrs, operands, info);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

bool supported(device::Device& device, const OpCase& c, const std::vector<HostTensor>& operands) {
  return withView(c, operands, [&](const ir::OpView& op) { return device.kernels().supports(op); });
}

std::string implementationOf(device::Device& device,
                             const OpCase& c,
                             const std::vector<HostTensor>& operands) {
  return withView(c, operands, [&](const ir::OpView& op) {
    return device.kernels().choose(op).implementation;
  });
}

double differenceOf(const HostTensor& found, const HostTensor& expected) {
  double largest = 0;
  for (const double value : expected.toDoubles()) {
    largest = std::isfinite(value) ? std::max(largest, std::abs(value)) : largest;
  }
  const double scale = std::min(1.0, largest);
  double worst = relativeDifference(found, expected);  // also of types, infinities and NaNs
  for (std::int64_t i = 0; i < expected.shape().elements() && std::isfinite(worst); ++i) {
    const double difference = std::abs(found.at(i) - expected.at(i));
    if (std::isfinite(difference) && difference > 0) {
      worst = std::max(worst, difference / std::max(scale, std::abs(expected.at(i))));
    }
  }
  return worst;
}

}  // namespace sluice::testing
