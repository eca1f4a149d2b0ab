#include <algorithm>
#include <array>
#include <bit>
#include <span>

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

namespace {

/// Calls put(i, number) for each element. A block of the stream makes four of them, so it is
/// computed once and not for each.
template <class Put>
void drawNumbers(const Initializer& init,
                 const RandomStream& stream,
                 std::int64_t count,
                 const Put& put) {
  for (std::int64_t first = 0; first < count; first += 4) {
    const PhiloxBlock words = stream.block(static_cast<std::uint64_t>(first) / 4);
    std::array<double, 4> numbers{};
    if (init.kind == Initializer::Kind::Normal) {
      const std::array<double, 2> low = normalPair(words[0], words[1]);
      const std::array<double, 2> high = normalPair(words[2], words[3]);
      numbers = {low[0], low[1], high[0], high[1]};
    } else {
      std::ranges::transform(words, numbers.begin(), uniform01);
    }
    const double scale = init.kind == Initializer::Kind::Normal ? init.b : init.b - init.a;
    for (std::int64_t i = first; i < std::min(count, first + 4); ++i) {
      put(i, init.a + scale * numbers[static_cast<std::size_t>(i - first)]);
    }
  }
}

}  // namespace

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
  HostTensor value(type);
  const std::int64_t count = type.shape.elements();
  if (type.dtype == DType::F32) {  // nearly all; `set` looks at the type for each element
    const std::span<float> elements = value.data<float>();
    drawNumbers(init, stream, count, [&](std::int64_t i, double number) {
      elements[static_cast<std::size_t>(i)] = static_cast<float>(number);
    });
  } else {
    drawNumbers(init, stream, count, [&](std::int64_t i, double number) { value.set(i, number); });
  }
  return value;
}

}  // namespace sluice::ir
