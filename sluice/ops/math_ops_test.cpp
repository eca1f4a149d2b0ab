// Values worked out by hand or by brute force, and what the ops refuse: remainders, bits, further
// activations, determinants, Fourier transforms and einsum.
#include <cmath>
#include <complex>
#include <limits>
#include <map>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/indexing_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"

namespace sluice::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

HostTensor floats(Shape shape, std::initializer_list<float> values) {
  return HostTensor::of<float>(std::move(shape), values);
}

std::vector<double> run(const ir::OpDef& def,
                        const std::vector<HostTensor>& inputs,
                        const ir::Attrs& attrs = {}) {
  return evaluate(def, attrs, inputs).at(0).toDoubles();
}

TEST(Mod, HasTheSignOfTheDivisorOrWithFmodOfTheDividend) {
  const HostTensor x = HostTensor::of<std::int64_t>({6}, {-4, 7, 5, 4, -7, 8});
  const HostTensor y = HostTensor::of<std::int64_t>({6}, {2, -3, 8, -2, 3, 5});
  EXPECT_THAT(run(kMod, {x, y}), ElementsAre(0, -2, 5, 0, 2, 3));
  EXPECT_THAT(run(kMod, {x, y}, {{"fmod", true}}), ElementsAre(0, 1, 5, 0, -1, 3));
  const HostTensor a = floats({2}, {-4.5F, 5.5F});
  const HostTensor b = floats({2}, {2.0F, -3.0F});
  EXPECT_THAT(run(kMod, {a, b}), ElementsAre(1.5, -0.5));
  EXPECT_THAT(run(kMod, {a, b}, {{"fmod", true}}), ElementsAre(-0.5, 2.5));
}

TEST(Mod, NeverTrapsOnIntegers) {
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::lowest();
  const HostTensor x = HostTensor::of<std::int64_t>({2}, {7, lowest});
  const HostTensor y = HostTensor::of<std::int64_t>({2}, {0, -1});
  EXPECT_THAT(run(kMod, {x, y}), ElementsAre(0, 0));
}

TEST(BitShift, DropsWhatLeavesTheType) {
  const HostTensor x = HostTensor::of<std::uint8_t>({4}, {16, 4, 255, 1});
  const HostTensor y = HostTensor::of<std::uint8_t>({4}, {1, 2, 4, 9});
  EXPECT_THAT(run(kBitShift, {x, y}, {{"direction", "LEFT"}}), ElementsAre(32, 16, 240, 0));
  EXPECT_THAT(run(kBitShift, {x, y}, {{"direction", "RIGHT"}}), ElementsAre(8, 1, 15, 0));
  const HostTensor negative = HostTensor::of<std::int64_t>({2}, {-8, -8});
  const HostTensor far = HostTensor::of<std::int64_t>({2}, {1, 64});
  EXPECT_THAT(run(kBitShift, {negative, far}, {{"direction", "RIGHT"}}), ElementsAre(-4, -1));
}

TEST(Bitwise, WorksOnEveryBit) {
  const HostTensor x = HostTensor::of<std::uint8_t>({2}, {0b1100, 255});
  const HostTensor y = HostTensor::of<std::uint8_t>({2}, {0b1010, 15});
  EXPECT_THAT(run(kBitwiseAnd, {x, y}), ElementsAre(0b1000, 15));
  EXPECT_THAT(run(kBitwiseOr, {x, y}), ElementsAre(0b1110, 255));
  EXPECT_THAT(run(kBitwiseXor, {x, y}), ElementsAre(0b0110, 240));
  EXPECT_THAT(run(kBitwiseNot, {x}), ElementsAre(243, 0));
}

TEST(Activations, HaveTheirDefinedValues) {
  const HostTensor x = floats({3}, {-1.0F, 0.0F, 2.0F});
  const double bent = std::exp(-1.0) - 1.0;
  const auto near = [](std::vector<double> values) {
    return ::testing::Pointwise(::testing::DoubleNear(1e-6), std::move(values));
  };
  EXPECT_THAT(run(kCelu, {x}), near({bent, 0.0, 2.0}));
  EXPECT_THAT(run(kSelu, {x}, {{"alpha", 2.0}, {"gamma", 3.0}}), near({6.0 * bent, 0.0, 6.0}));
  EXPECT_THAT(run(kHardSigmoid, {x}), near({0.3, 0.5, 0.9}));
  EXPECT_THAT(run(kHardSwish, {x}), near({-1.0 / 3.0, 0.0, 5.0 / 3.0}));
  EXPECT_THAT(run(kSoftsign, {x}), near({-0.5, 0.0, 2.0 / 3.0}));
  EXPECT_THAT(run(kShrink, {x}, {{"lambd", 0.5}, {"bias", 0.25}}), near({-0.75, 0.0, 1.75}));
  EXPECT_THAT(run(kThresholdedRelu, {x}), near({0.0, 0.0, 2.0}));
  EXPECT_THAT(run(kPrelu, {x, floats({1}, {0.5F})}), near({-0.5, 0.0, 2.0}));
  EXPECT_THAT(run(kMish, {x}),
              near({-std::tanh(std::log1p(std::exp(-1.0))),
                    0.0,
                    2.0 * std::tanh(std::log1p(std::exp(2.0)))}));
  EXPECT_THAT(run(kHardmax, {floats({2, 3}, {1, 3, 3, 2, 1, 0})}), ElementsAre(0, 1, 0, 1, 0, 0));
}

TEST(IsInf, TellsTheSigns) {
  const float inf = std::numeric_limits<float>::infinity();
  const HostTensor x = floats({3}, {inf, -inf, 1.0F});
  EXPECT_THAT(run(kIsInf, {x}), ElementsAre(1, 1, 0));
  EXPECT_THAT(run(kIsInf, {x}, {{"detect_negative", false}}), ElementsAre(1, 0, 0));
  EXPECT_THAT(run(kIsInf, {x}, {{"detect_positive", false}}), ElementsAre(0, 1, 0));
}

TEST(Det, IsTheSignedVolume) {
  const HostTensor x = floats({2, 2, 2}, {0, 1, 1, 0, 3, 1, 4, 2});
  EXPECT_THAT(run(kDet, {x}), ElementsAre(-1, 2));
  EXPECT_THAT(run(kDet, {floats({3, 3}, {2, 0, 0, 0, 3, 1, 0, 1, 1})}), ElementsAre(4));
}

TEST(DetGrad, IsTheCofactorsOfRegularAndOfSingularMatrices) {
  const HostTensor dy = floats({}, {2.0F});
  EXPECT_THAT(run(kDetGrad, {floats({2, 2}, {3, 1, 4, 2}), dy}), ElementsAre(4, -8, -2, 6));
  EXPECT_THAT(run(kDetGrad, {floats({2, 2}, {1, 2, 2, 4}), dy}), ElementsAre(8, -4, -4, 2));
}

/// The definition, number by number.
std::vector<double> slowTransform(const std::vector<double>& x, double sign) {
  const std::size_t n = x.size() / 2;
  std::vector<double> y;
  for (std::size_t k = 0; k < n; ++k) {
    std::complex<double> sum;
    for (std::size_t j = 0; j < n; ++j) {
      const double turn =
          sign * 2.0 * std::numbers::pi * static_cast<double>(j * k) / static_cast<double>(n);
      sum += std::complex<double>(x[2 * j], x[2 * j + 1]) * std::polar(1.0, turn);
    }
    y.push_back(sum.real());
    y.push_back(sum.imag());
  }
  return y;
}

TEST(Dft, IsItsDefinitionForEveryExtent) {
  for (std::int64_t n = 1; n <= 30; ++n) {
    HostTensor x(DType::F64, Shape{n, 2});
    for (std::int64_t i = 0; i < 2 * n; ++i) {
      x.set(i, std::sin(static_cast<double>(i * i) + 0.3));
    }
    const HostTensor y = evaluate(kDft, {{"axis", 0}}, {x}).at(0);
    EXPECT_THAT(
        y.toDoubles(),
        ::testing::Pointwise(::testing::DoubleNear(1e-12), slowTransform(x.toDoubles(), -1.0)))
        << n;
    EXPECT_THAT(run(kDft, {y}, {{"axis", 0}, {"inverse", true}}),
                ::testing::Pointwise(::testing::DoubleNear(1e-12), x.toDoubles()))
        << n;
  }
}

/// Sums over all values of all letters; no ellipsis.
class SlowEinsum {
 public:
  SlowEinsum(const std::string& equation, const std::vector<HostTensor>& inputs) : inputs_(inputs) {
    const std::size_t arrow = equation.find("->");
    terms_.emplace_back();
    for (const char c : equation.substr(0, arrow)) {
      if (c == ',') {
        terms_.emplace_back();
      } else {
        terms_.back() += c;
      }
    }
    output_ = equation.substr(arrow + 2);
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      for (std::size_t k = 0; k < terms_[i].size(); ++k) {
        extents_[terms_[i][k]] = inputs[i].shape().dims()[k];
      }
    }
    std::int64_t elements = 1;
    for (const char c : output_) {
      elements *= extents_.at(c);
    }
    result_.assign(static_cast<std::size_t>(elements), 0.0);
    visit(extents_.begin());
  }

  const std::vector<double>& result() const { return result_; }

 private:
  std::int64_t index(const std::string& letters) const {
    std::int64_t at = 0;
    for (const char c : letters) {
      at = at * extents_.at(c) + values_.at(c);
    }
    return at;
  }

  void visit(std::map<char, std::int64_t>::const_iterator letter) {
    if (letter == extents_.end()) {
      double product = 1.0;
      for (std::size_t i = 0; i < terms_.size(); ++i) {
        product *= inputs_[i].at(index(terms_[i]));
      }
      result_[static_cast<std::size_t>(index(output_))] += product;
      return;
    }
    for (std::int64_t value = 0; value < letter->second; ++value) {
      values_[letter->first] = value;
      visit(std::next(letter));
    }
  }

  const std::vector<HostTensor>& inputs_;
  std::vector<std::string> terms_;
  std::string output_;
  std::map<char, std::int64_t> extents_;
  std::map<char, std::int64_t> values_;
  std::vector<double> result_;
};

HostTensor numbered(DType dtype, Shape shape) {
  HostTensor tensor(dtype, std::move(shape));
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, static_cast<double>((i * 7) % 11 - 5));
  }
  return tensor;
}

TEST(Einsum, IsTheSumOverAllLetters) {
  struct Example {
    std::string equation;
    std::vector<Shape> shapes;
  };
  const std::vector<Example> examples = {
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {"ij,jk->ki", {{2, 3}, {3, 4}}},
      {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 2}}},
      {"bij,bjk->ik", {{2, 3, 4}, {2, 4, 2}}},
      {"ij->ji", {{2, 3}}},
      {"ij->", {{2, 3}}},
      {"ij->i", {{2, 3}}},
      {"ii->i", {{3, 3}}},
      {"ii->", {{3, 3}}},
      {"iijj->ij", {{2, 2, 3, 3}}},
      {"iii->i", {{3, 3, 3}}},
      {"i,i->", {{4}, {4}}},
      {"i,j->ji", {{4}, {3}}},
      {"ij,ij->ij", {{2, 3}, {2, 3}}},
      {"ij,k->j", {{2, 3}, {4}}},
      {"ab,bc,cd->da", {{2, 3}, {3, 4}, {4, 2}}},
      {"abc,cb,a->b", {{2, 3, 4}, {4, 3}, {2}}},
      {",i->i", {{}, {3}}},
  };
  for (const Example& example : examples) {
    for (const DType dtype : {DType::F64, DType::I64}) {
      std::vector<HostTensor> inputs;
      for (const Shape& shape : example.shapes) {
        inputs.push_back(numbered(dtype, shape));
      }
      EXPECT_THAT(run(kEinsum, inputs, {{"equation", example.equation}}),
                  ElementsAreArray(SlowEinsum(example.equation, inputs).result()))
          << example.equation;
    }
  }
}

TEST(Einsum, SortsTheLettersOfAnUnwrittenResult) {
  const HostTensor x = numbered(DType::F64, {2, 3});
  EXPECT_EQ(run(kEinsum, {x}, {{"equation", "ba"}}), run(kEinsum, {x}, {{"equation", "ba->ab"}}));
  const HostTensor y = numbered(DType::F64, {3, 2});
  EXPECT_EQ(run(kEinsum, {x, y}, {{"equation", "ij, jk"}}),
            run(kEinsum, {x, y}, {{"equation", "ij,jk->ik"}}));
}

TEST(Einsum, BroadcastsTheAxesOfAnEllipsis) {
  const HostTensor x = numbered(DType::F64, {2, 1, 3, 4});
  const HostTensor y = numbered(DType::F64, {5, 4, 2});
  const HostTensor flat = x.reshaped({2, 3, 4});
  EXPECT_EQ(run(kEinsum, {x, y}, {{"equation", "...ij,...jk->...ik"}}),
            run(kEinsum, {flat, y}, {{"equation", "aij,bjk->abik"}}));
  EXPECT_EQ(run(kEinsum, {x, y}, {{"equation", "...ij,...jk"}}),
            run(kEinsum, {flat, y}, {{"equation", "aij,bjk->abik"}}));
  const HostTensor square = numbered(DType::F64, {2, 3, 3});
  EXPECT_EQ(run(kEinsum, {square}, {{"equation", "...ii->...i"}}),
            run(kEinsum, {square}, {{"equation", "aii->ai"}}));
}

struct Refusal {
  const ir::OpDef& def;
  std::vector<TensorType> inputs;
  ir::Attrs attrs;
  std::string word;
};

TEST(MathOpErrors, NameOpAndReason) {
  const auto f32 = [](Shape shape) { return TensorType{DType::F32, std::move(shape)}; };
  const auto i64 = [](Shape shape) { return TensorType{DType::I64, std::move(shape)}; };
  const std::vector<Refusal> refusals = {
      {kAcos, {i64({2})}, {}, "float type"},
      {kBitwiseNot, {f32({2})}, {}, "integer type"},
      {kBitwiseAnd, {{DType::Bool, {2}}, {DType::Bool, {2}}}, {}, "integer type"},
      {kBitShift, {i64({2}), i64({2})}, {{"direction", "UP"}}, "expected one of LEFT, RIGHT"},
      {kCelu, {f32({2})}, {{"alpha", 0.0}}, "must not be 0"},
      {kPrelu, {f32({2}), f32({3, 2})}, {}, "cannot be broadcast"},
      {kHardmax, {f32({2})}, {{"axis", 1}}, "out of range"},
      {kDet, {f32({2, 3})}, {}, "square"},
      {kDet, {f32({3})}, {}, "square"},
      {kDetGrad, {f32({4, 2, 2}), f32({3})}, {}, "one number for each matrix"},
      {kDft, {f32({4, 3})}, {{"axis", 0}}, "pairs"},
      {kDft, {f32({4, 2})}, {{"axis", 1}}, "that of the pairs"},
      {kEinsum, {f32({2, 2})}, {{"equation", "ij,jk->ik"}}, "has 2 operands, got 1"},
      {kEinsum, {f32({2, 2})}, {{"equation", "i1->i"}}, "names 1 axes"},
      {kEinsum, {f32({2, 2})}, {{"equation", "ij->i1"}}, "where a letter is expected"},
      {kEinsum, {f32({2, 2})}, {{"equation", "......->"}}, "where a letter is expected"},
      {kEinsum, {f32({2, 2})}, {{"equation", "ijk->i"}}, "names 3 axes"},
      {kEinsum, {f32({2, 3})}, {{"equation", "ii->i"}}, "does not fit"},
      {kEinsum, {f32({2}), f32({3})}, {{"equation", "i,i->i"}}, "does not fit"},
      {kEinsum, {f32({2, 2})}, {{"equation", "ij->k"}}, "in no operand"},
      {kEinsum, {f32({2, 2})}, {{"equation", "ij->ii"}}, "twice"},
  };
  for (const Refusal& refusal : refusals) {
    std::vector<HostTensor> inputs;
    for (const TensorType& type : refusal.inputs) {
      inputs.emplace_back(type);
    }
    try {
      evaluate(refusal.def, refusal.attrs, inputs);
      ADD_FAILURE() << refusal.def.name << " was not refused for " << refusal.word;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr(refusal.word));
      EXPECT_THAT(error.what(), HasSubstr(std::string(refusal.def.name)));
    }
  }
}

HostTensor integers(std::initializer_list<std::int64_t> values) {
  return HostTensor::of<std::int64_t>(Shape{std::ssize(values)}, values);
}

/// What wraps round in 64 bits without a sign.
TEST(Integers, WrapInsteadOfOverflowing) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const auto binary = [](const ir::OpDef& def, std::int64_t x, std::int64_t y) {
    return evaluate(def, {}, {integers({x}), integers({y})})[0].data<std::int64_t>()[0];
  };
  EXPECT_EQ(binary(kAdd, most, 1), least);
  EXPECT_EQ(binary(kSub, least, 1), most);
  EXPECT_EQ(binary(kMul, most, 2), -2);
  EXPECT_EQ(binary(kDiv, least, -1), least);
  const auto unary = [](const ir::OpDef& def, const HostTensor& x, const ir::Attrs& attrs = {}) {
    HostTensor y = evaluate(def, attrs, {x})[0];
    return std::vector<std::int64_t>(y.data<std::int64_t>().begin(), y.data<std::int64_t>().end());
  };
  EXPECT_THAT(unary(kNeg, integers({least})), ElementsAre(least));
  EXPECT_THAT(unary(kAbs, integers({least})), ElementsAre(least));
  EXPECT_THAT(unary(kSquare, integers({std::int64_t{1} << 32U})), ElementsAre(0));
  EXPECT_THAT(unary(kReduceSum, integers({most, 1, 1})), ElementsAre(least + 1));
  EXPECT_THAT(unary(kReduceProd, integers({most, 2})), ElementsAre(-2));
  EXPECT_THAT(unary(kCumSum, integers({most, 1}), {{"axis", 0}}), ElementsAre(most, least));
  const HostTensor place = integers({0});
  HostTensor sum = evaluate(kScatterAdd, {}, {integers({most}), place, integers({1})})[0];
  EXPECT_EQ(sum.data<std::int64_t>()[0], least);
  HostTensor product = evaluate(
      kScatterElements, {{"reduction", "mul"}}, {integers({most}), place, integers({2})})[0];
  EXPECT_EQ(product.data<std::int64_t>()[0], -2);
}

}  // namespace
}  // namespace sluice::ops
