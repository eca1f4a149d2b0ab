#include <array>
#include <bit>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/philox.h"
#include "sluice/ir/value.h"

namespace sluice::ir {

bool Initializer::operator==(const Initializer& other) const {
  // By bits, as the structural hash sees it: NaN equals itself, 0 is not -0.
  const auto same = [](double x, double y) {
    return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
  };
  return kind == other.kind && same(a, other.a) && same(b, other.b) &&
         tensor.sameBits(other.tensor);
}

std::string_view name(VariableRole role) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "weight", "optimizer", "accumulator", "buffer", "scalar"};
  return kNames[static_cast<std::size_t>(role)];
}

HostTensor initialValue(const Variable& variable, std::uint64_t seed) {
  const Initializer& init = variable.initializer;
  const TensorType type = variable.wholeType();
  switch (init.kind) {
    case Initializer::Kind::Constant:
      return HostTensor::full(type, init.a);
    case Initializer::Kind::Tensor:
      if (init.tensor.type() != type) {
        raise<InvalidArgument>("variable '{}' is {}, its initial value {}",
                               variable.name,
                               type.str(),
                               init.tensor.type().str());
      }
      return init.tensor.clone();
    case Initializer::Kind::Uniform:
    case Initializer::Kind::Normal:
      break;
  }
  const RandomStream stream{Hasher().add(seed).add(std::string_view(variable.name)).digest(), 0, 0};
  const auto number = [&](std::int64_t i) {
    const auto element = static_cast<std::uint64_t>(i);
    return init.kind == Initializer::Kind::Normal
               ? init.a + init.b * standardNormal(stream, element)
               : init.a + (init.b - init.a) * static_cast<double>(uniform01(stream.word(element)));
  };
  HostTensor value(type);
  if (type.dtype == DType::F32) {  // nearly all; `set` looks at the type for each element
    std::int64_t i = 0;
    for (float& element : value.data<float>()) {
      element = static_cast<float>(number(i++));
    }
    return value;
  }
  for (std::int64_t i = 0; i < value.shape().elements(); ++i) {
    value.set(i, number(i));
  }
  return value;
}

}  // namespace sluice::ir
