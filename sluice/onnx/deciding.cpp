#include "sluice/onnx/deciding.h"

#include <cmath>

#include "sluice/base/error.h"
#include "sluice/onnx/files.h"

namespace sluice::onnx {

HostTensor decidingOperand(Node& node, std::size_t i) {
  try {
    return node.constant(i);
  } catch (const NeedsConstant& error) {
    throw NeedsConstant(
        fmt::format("the result's shape depends on computed values: {}", error.what()),
        error.inputs());
  }
}

std::int64_t wholeOperand(Node& node, std::size_t i) {
  constexpr double kExact = 9007199254740992.0;  // 2 to the 53rd
  const HostTensor value = node.constant(i);
  const bool one = value.shape().elements() == 1;
  const double number = one ? value.at(0) : 0.5;
  if (std::trunc(number) != number || std::abs(number) > kExact) {
    raise<InvalidArgument>("operand {} must be one whole number, got {}{}",
                           i,
                           value.type().str(),
                           one ? fmt::format(" {}", number) : "");
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace sluice::onnx
