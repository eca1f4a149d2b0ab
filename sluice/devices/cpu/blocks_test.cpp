// Block functions against the references: accuracy of every float32 function over all classes of
// input, and the 16-bit conversions exhaustively.
#include "sluice/devices/cpu/kernels/blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/logic_ops.h"

namespace sluice::devices::cpu {
namespace {

/// Floats of every exponent and sign with a few mantissas each, and the special ones.
std::vector<float> allClasses() {
  std::vector<float> values = {0.0F, -0.0F, 1.0F, -1.0F, 0.5F, 1.5F, 2.5F, -0.5F, -2.5F};
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    std::uint32_t mantissa = 0x1234567U;
    for (int i = 0; i < 40; ++i) {
      mantissa = mantissa * 1664525U + 1013904223U;
      const std::uint32_t bits = (exponent << 23) | (mantissa >> 9);
      values.push_back(std::bit_cast<float>(bits));
      values.push_back(std::bit_cast<float>(bits | 0x80000000U));
    }
  }
  for (int i = -2000; i <= 2000; ++i) {
    values.push_back(static_cast<float>(i) * 0.011F);
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    values.push_back(value);
  }
  return values;
}

/// Distance in units in the last place of the expected value; `floor` bounds the unit from below.
double ulps(float actual, float expected, float floor) {
  if (std::isnan(actual) || std::isnan(expected)) {
    return std::isnan(actual) == std::isnan(expected) ? 0.0 : HUGE_VAL;
  }
  if (actual == expected) {
    return 0.0;
  }
  if (std::isinf(actual) || std::isinf(expected)) {
    return HUGE_VAL;
  }
  const float scale = std::max(std::fabs(expected), floor);
  const float unit = std::nextafter(scale, HUGE_VALF) - scale;
  return std::fabs(static_cast<double>(actual) - static_cast<double>(expected)) /
         static_cast<double>(unit);
}

struct UnaryCase {
  const ir::OpDef& def;
  ir::Attrs attrs;
  std::string_view function;
  double maxUlps;
  /// Below this size the error counts as of this size: where the reference itself cancels.
  float floor;
  std::array<double, 2> params;
};

class UnaryBlock : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryBlock, IsAccurateForEveryClassOfInput) {
  const UnaryCase& c = GetParam();
  const std::vector<float> values = allClasses();
  const Shape shape{static_cast<std::int64_t>(values.size())};
  const HostTensor expected =
      ops::evaluate(c.def, c.attrs, {HostTensor::of<float>(shape, values)})[0];
  std::vector<float> actual(values.size());
  const BlockFunction function = findBlockFunction(c.function, DType::F32);
  ASSERT_NE(function, nullptr);
  function({.in = {values.data()},
            .out = actual.data(),
            .n = shape.elements(),
            .params = c.params.data()});
  double worst = 0;
  float at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float want = expected.data<float>()[i];
    const double error = ulps(actual[i], want, c.floor);
    if (error > worst) {
      worst = error;
      at = values[i];
    }
    ASSERT_FALSE(want == 0.0F && actual[i] == 0.0F && std::signbit(want) != std::signbit(actual[i]))
        << "sign of zero at " << values[i];
  }
  EXPECT_LE(worst, c.maxUlps) << c.function << " at " << at;
}

constexpr float kTiny = std::numeric_limits<float>::denorm_min();

INSTANTIATE_TEST_SUITE_P(
    Ops,
    UnaryBlock,
    ::testing::Values(
        UnaryCase{ops::kAbs, {}, "abs", 0, kTiny, {}},
        UnaryCase{ops::kAcos, {}, "acos", 6, kTiny, {}},
        UnaryCase{ops::kAcosh, {}, "acosh", 6, kTiny, {}},
        UnaryCase{ops::kAsin, {}, "asin", 6, kTiny, {}},
        UnaryCase{ops::kAsinh, {}, "asinh", 6, kTiny, {}},
        UnaryCase{ops::kAtan, {}, "atan", 4, kTiny, {}},
        UnaryCase{ops::kAtanh, {}, "atanh", 6, kTiny, {}},
        UnaryCase{ops::kCeil, {}, "ceil", 0, kTiny, {}},
        UnaryCase{ops::kClamp, {{"low", -0.5}, {"high", 2.0}}, "clamp", 0, kTiny, {-0.5, 2.0}},
        UnaryCase{ops::kCos, {}, "cos", 1, kTiny, {}},
        UnaryCase{ops::kCosh, {}, "cosh", 6, kTiny, {}},
        UnaryCase{ops::kElu, {{"alpha", 0.7}}, "elu", 4, kTiny, {0.7, 0}},
        UnaryCase{ops::kErf, {}, "erf", 4, kTiny, {}},
        UnaryCase{ops::kErfc, {}, "erfc", 4, kTiny, {}},
        UnaryCase{ops::kExp, {}, "exp", 2, kTiny, {}},
        UnaryCase{ops::kExpm1, {}, "expm1", 4, kTiny, {}},
        UnaryCase{ops::kFloor, {}, "floor", 0, kTiny, {}},
        UnaryCase{ops::kGelu, {}, "gelu", 6, 1e-3F, {}},
        UnaryCase{ops::kGelu, {{"approximate", "tanh"}}, "gelu:tanh", 16, 1e-3F, {}},
        UnaryCase{ops::kLeakyRelu, {{"alpha", 0.01}}, "leaky_relu", 1, kTiny, {0.01, 0}},
        UnaryCase{ops::kLog, {}, "log", 2, kTiny, {}},
        UnaryCase{ops::kLog1p, {}, "log1p", 3, kTiny, {}},
        UnaryCase{ops::kNeg, {}, "neg", 0, kTiny, {}},
        UnaryCase{ops::kReciprocal, {}, "reciprocal", 0, kTiny, {}},
        UnaryCase{ops::kRelu, {}, "relu", 0, kTiny, {}},
        UnaryCase{ops::kRound, {}, "round", 0, kTiny, {}},
        UnaryCase{ops::kRsqrt, {}, "rsqrt", 1, kTiny, {}},
        UnaryCase{ops::kSigmoid, {}, "sigmoid", 3, kTiny, {}},
        UnaryCase{ops::kSign, {}, "sign", 0, kTiny, {}},
        UnaryCase{ops::kSilu, {}, "silu", 4, 1e-34F, {}},
        UnaryCase{ops::kSin, {}, "sin", 1, kTiny, {}},
        UnaryCase{ops::kSinh, {}, "sinh", 6, kTiny, {}},
        UnaryCase{ops::kSoftplus, {}, "softplus", 4, kTiny, {}},
        UnaryCase{ops::kSqrt, {}, "sqrt", 0, kTiny, {}},
        UnaryCase{ops::kSquare, {}, "square", 0, kTiny, {}},
        UnaryCase{ops::kTan, {}, "tan", 1, kTiny, {}},
        UnaryCase{ops::kTanh, {}, "tanh", 4, kTiny, {}}),
    [](const auto& param) {
      std::string name(param.param.function);
      std::replace(name.begin(), name.end(), ':', '_');
      return name;
    });

TEST(Blocks, AValueDoesNotDependOnItsPlace) {
  const std::vector<float> values = allClasses();
  for (const std::string_view name :
       {"exp", "log1p", "tanh", "erf", "erfc", "gelu", "sin", "sqrt", "tan", "asinh", "atan"}) {
    const BlockFunction function = findBlockFunction(name, DType::F32);
    std::vector<float> whole(values.size());
    function({.in = {values.data()}, .out = whole.data(), .n = std::ssize(values)});
    for (std::size_t i = 0; i < values.size(); i += 7) {
      std::array<float, 3> some{};
      const auto count = std::min<std::size_t>(3, values.size() - i);
      function(
          {.in = {values.data() + i}, .out = some.data(), .n = static_cast<std::int64_t>(count)});
      for (std::size_t j = 0; j < count; ++j) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(some[j]), std::bit_cast<std::uint32_t>(whole[i + j]))
            << name << " of " << values[i + j];
      }
    }
  }
}

TEST(Blocks, AScaledFormHasTheBitsOfItsSteps) {
  const std::vector<float> x = allClasses();
  std::vector<float> y(x.rbegin(), x.rend());
  std::rotate(y.begin(), y.begin() + 1234, y.end());
  const std::int64_t n = std::ssize(x);
  const float scaleX = 0.9F;
  const float scaleY = -1.7F;
  const auto scaled = [&](const std::vector<float>& v, const float& scale) {
    std::vector<float> result(v.size());
    findF32Function("mul")(
        {.in = {v.data(), &scale}, .single = 0b10, .out = result.data(), .n = n});
    return result;
  };
  const auto expectBits = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  const std::vector<float> byX = scaled(x, scaleX);
  const std::vector<float> byY = scaled(y, scaleY);
  for (const std::string op : {"add", "sub", "div"}) {
    const auto run = [&](const std::string& form, BlockArgs args) {
      std::vector<float> result(x.size());
      args.out = result.data();
      args.n = n;
      findF32Function(form)(args);
      return result;
    };
    EXPECT_TRUE(expectBits(run(op + ":x", {.in = {x.data(), y.data(), &scaleX}}),
                           run(op, {.in = {byX.data(), y.data()}})));
    EXPECT_TRUE(expectBits(run(op + ":y", {.in = {x.data(), y.data(), &scaleY}}),
                           run(op, {.in = {x.data(), byY.data()}})));
    EXPECT_TRUE(expectBits(run(op + ":xy", {.in = {x.data(), y.data(), &scaleX, &scaleY}}),
                           run(op, {.in = {byX.data(), byY.data()}})));
  }
  std::vector<float> root(x.size());
  std::vector<float> expected(x.size());
  findF32Function("sqrt:x")({.in = {x.data(), &scaleX}, .out = root.data(), .n = n});
  findF32Function("sqrt")({.in = {byX.data()}, .out = expected.data(), .n = n});
  EXPECT_TRUE(expectBits(root, expected));
}

TEST(Blocks, SumsAndNormsHaveTheBitsOfTheirSteps) {
  const std::vector<float> x = allClasses();
  std::vector<float> y(x.rbegin(), x.rend());
  std::rotate(y.begin(), y.begin() + 321, y.end());
  const std::array<double, 2> limits = {-0.5, 6};
  const auto run = [&](const std::string& form, std::array<const void*, 4> in) {
    std::vector<float> result(x.size());
    findF32Function(form)(
        {.in = in, .out = result.data(), .n = std::ssize(x), .params = limits.data()});
    return result;
  };
  const auto expectBits = [&](const std::string& form,
                              const std::vector<float>& together,
                              const std::vector<float>& apart) {
    EXPECT_EQ(std::memcmp(together.data(), apart.data(), x.size() * sizeof(float)), 0) << form;
  };
  const std::vector<float> sum = run("add", {x.data(), y.data()});
  std::vector<float> z = y;
  std::rotate(z.begin(), z.begin() + 77, z.end());
  const std::vector<float> difference = run("sub", {x.data(), y.data()});
  const std::vector<float> product = run("mul", {difference.data(), z.data()});
  const std::vector<float> norm = run("add", {product.data(), y.data()});
  expectBits("norm", run("add:norm", {x.data(), y.data(), z.data(), y.data()}), norm);
  for (const std::string op : {"relu", "clamp"}) {
    expectBits(op, run(op + ":sum", {x.data(), y.data()}), run(op, {sum.data()}));
    expectBits(
        op, run(op + ":norm", {x.data(), y.data(), z.data(), y.data()}), run(op, {norm.data()}));
  }
}

TEST(Blocks, ComparisonsAndExtremesKnowEverySpecialValue) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::array<float, 8> special = {
      std::numeric_limits<float>::quiet_NaN(), inf, -inf, 0.0F, -0.0F, 1.0F, -2.5F, kTiny};
  std::vector<float> x;
  std::vector<float> y;
  for (const float a : special) {
    for (const float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  }
  const auto n = std::ssize(x);
  const std::array<HostTensor, 2> in = {HostTensor::of<float>({n}, x),
                                        HostTensor::of<float>({n}, y)};
  for (const ir::OpDef* def : {&ops::kEqual,
                               &ops::kNotEqual,
                               &ops::kLess,
                               &ops::kLessEqual,
                               &ops::kGreater,
                               &ops::kGreaterEqual}) {
    std::vector<std::uint8_t> actual(x.size());
    findF32Function(def->name)({.in = {x.data(), y.data()}, .out = actual.data(), .n = n});
    const HostTensor expected = ops::evaluate(*def, {}, {in[0], in[1]})[0];
    EXPECT_EQ(std::memcmp(actual.data(), expected.bytes(), actual.size()), 0) << def->name;
  }
  for (const ir::OpDef* def : {&ops::kMaximum, &ops::kMinimum}) {
    std::vector<float> actual(x.size());
    findF32Function(def->name)({.in = {x.data(), y.data()}, .out = actual.data(), .n = n});
    const HostTensor expected = ops::evaluate(*def, {}, {in[0], in[1]})[0];
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(ulps(actual[i], expected.data<float>()[i], kTiny), 0)
          << def->name << " of " << x[i] << " and " << y[i];
    }
  }
}

template <class T>
class SixteenBit : public ::testing::Test {};
using SixteenBitTypes = ::testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(SixteenBit, SixteenBitTypes);

TYPED_TEST(SixteenBit, LoadsAllValuesExactly) {
  using T = TypeParam;
  std::vector<T> stored(65536);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    stored[i].bits = static_cast<std::uint16_t>(i);
  }
  std::vector<float> actual(stored.size());
  loadFunction(kDTypeOf<T>)({.in = {stored.data()}, .out = actual.data(), .n = 65536});
  for (std::size_t i = 0; i < stored.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(actual[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(stored[i])))
        << i;
  }
}

TYPED_TEST(SixteenBit, StoresAndRoundsAsTheScalarConversion) {
  using T = TypeParam;
  // Every 16-bit value, the values next to it and the ties between it and the next one.
  std::vector<float> values;
  for (std::uint32_t i = 0; i < 65536; ++i) {
    T stored;
    stored.bits = static_cast<std::uint16_t>(i);
    const auto value = static_cast<float>(stored);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (const std::uint32_t offset :
         {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffffffU}) {
      values.push_back(std::bit_cast<float>(bits + offset));
    }
  }
  for (const float value : allClasses()) {
    values.push_back(value);
  }
  std::vector<T> stored(values.size());
  std::vector<float> rounded(values.size());
  storeFunction(kDTypeOf<T>)(
      {.in = {values.data()}, .out = stored.data(), .n = std::ssize(values)});
  roundFunction(kDTypeOf<T>)(
      {.in = {values.data()}, .out = rounded.data(), .n = std::ssize(values)});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T expected(values[i]);
    ASSERT_EQ(stored[i].bits, expected.bits) << std::bit_cast<std::uint32_t>(values[i]);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(rounded[i]),
              std::bit_cast<std::uint32_t>(static_cast<float>(expected)))
        << std::bit_cast<std::uint32_t>(values[i]);
  }
}

}  // namespace
}  // namespace sluice::devices::cpu
