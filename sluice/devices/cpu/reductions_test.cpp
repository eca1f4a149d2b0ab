// Reductions and row kernels against the references over sizes that meet every path: short and long
// runs, grains and partial sums, chunks of columns; bits for every number of threads.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/ops/norm_ops.h"
#include "sluice/ops/random_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/support/kernel_check.h"

namespace sluice::devices::cpu {
namespace {

using sluice::testing::DeviceRun;
using sluice::testing::randomTensor;
using sluice::testing::runOnDevice;

HostTensor random(std::uint64_t seed, const Shape& shape, DType dtype = DType::F32) {
  return randomTensor(seed, {dtype, shape}, -1, 2);
}

TEST(Reductions, AllAxesAndSizes) {
  struct Case {
    Shape shape;
    std::vector<std::int64_t> axes;
  };
  const std::vector<Case> cases = {
      {{5}, {0}},
      {{100003}, {}},
      {{300, 37}, {1}},
      {{300, 37}, {0}},
      {{7, 40000}, {1}},
      {{5000, 10}, {0}},
      {{50, 5000}, {0}},
      {{9, 64, 5, 7}, {0, 2, 3}},
      {{40, 200, 9, 9}, {0, 2, 3}},
      {{3, 17, 100}, {0, 2}},
      {{6, 30, 40, 5}, {1, 3}},
      {{6, 30, 40, 5}, {0, 2}},
      {{2, 3, 4, 3, 2}, {1, 3}},
      {{1, 1}, {0}},
      {{4, 0, 3}, {1}},
      {{0, 3}, {1}},
      {{0, 3}, {0}},
      {{2, 20000}, {0, 1}},
  };
  for (const Case& c : cases) {
    for (const ir::OpDef* def :
         {&ops::kReduceSum, &ops::kReduceMean, &ops::kReduceMax, &ops::kReduceMin}) {
      for (const DType dtype : {DType::F32, DType::F64, DType::F16}) {
        const HostTensor in = random(1, c.shape, dtype);
        check({.def = *def, .attrs = {{"axes", c.axes}}, .inputs = {in}},
              std::max<std::int64_t>(1, in.shape().elements()),
              c.shape.str());
      }
    }
  }
}

TEST(Reductions, Products) {
  const std::vector<std::pair<Shape, std::vector<std::int64_t>>> cases = {{{5}, {0}},
                                                                          {{40003}, {}},
                                                                          {{30, 37}, {1}},
                                                                          {{300, 37}, {0}},
                                                                          {{500, 10}, {0}},
                                                                          {{5, 5000}, {0}},
                                                                          {{6, 30, 40, 5}, {1, 3}},
                                                                          {{6, 30, 40, 5}, {0, 2}},
                                                                          {{4, 0, 3}, {1}},
                                                                          {{0, 3}, {1}}};
  for (const auto& [shape, axes] : cases) {
    for (const DType dtype : {DType::F32, DType::F64, DType::F16}) {
      const HostTensor in = randomTensor(1, {dtype, shape}, -1.2, 1.2);
      check({.def = ops::kReduceProd, .attrs = {{"axes", axes}}, .inputs = {in}},
            std::max<std::int64_t>(1, in.shape().elements()),
            shape.str());
    }
  }
}

TEST(Reductions, ProductsMayLeaveTheRangeOfAFloatOnTheWay) {
  HostTensor in = HostTensor::full({DType::F32, {64, 3}}, 1.0);
  for (std::int64_t i = 0; i < 6; ++i) {
    in.set(i, 1e30);
    in.set(96 + i, 1e-30);
  }
  for (const std::int64_t axis : {0, 1}) {
    const HostTensor x = axis == 0 ? in : in.reshaped({1, 192});
    const HostTensor product = runOnDevice(
        *makeCpuDevice(), {.def = ops::kReduceProd, .attrs = {{"axes", {axis}}}, .inputs = {x}})[0];
    EXPECT_NEAR(product.at(0), 1.0, 1e-5) << axis;
  }
}

TEST(Reductions, SumsOfManyEqualNumbersStayAccurate) {
  // A plain running sum of 0.1F in float32 is off by more than 1 percent after 2^22 terms. Here no
  // accumulator takes more than 256 terms in a row, so the error is below 256 half units.
  const double bound = 256 * 0x1p-24;
  const auto term = static_cast<double>(0.1F);
  const HostTensor in = HostTensor::full({DType::F32, {4, 1 << 20}}, 0.1);
  const HostTensor sum = runOnDevice(*makeCpuDevice(), {.def = ops::kReduceSum, .inputs = {in}})[0];
  EXPECT_NEAR(sum.at(0) / (term * (1 << 22)), 1.0, bound);
  const HostTensor column = in.reshaped({1 << 20, 4});
  const HostTensor sums = runOnDevice(
      *makeCpuDevice(), {.def = ops::kReduceSum, .attrs = {{"axes", {0}}}, .inputs = {column}})[0];
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(sums.at(i) / (term * (1 << 20)), 1.0, bound);
  }
}

TEST(Reductions, NanWinsAMaximumWhereverItStands) {
  for (const std::int64_t at : {0, 1, 17, 63, 64, 99}) {
    HostTensor in = random(3, {100});
    in.set(at, std::numeric_limits<double>::quiet_NaN());
    for (const ir::OpDef* def : {&ops::kReduceMax, &ops::kReduceMin}) {
      EXPECT_TRUE(std::isnan(runOnDevice(*makeCpuDevice(), {.def = *def, .inputs = {in}})[0].at(0)))
          << at;
      const DeviceRun columns{
          .def = *def, .attrs = {{"axes", {0}}}, .inputs = {in.reshaped({100, 1})}};
      EXPECT_TRUE(std::isnan(runOnDevice(*makeCpuDevice(), columns)[0].at(0))) << at;
    }
  }
}

TEST(RowKernels, SoftmaxesOfAllSizes) {
  for (const Shape& shape :
       {Shape{1}, Shape{3, 10}, Shape{1000, 17}, Shape{7, 5, 64}, Shape{3, 33333}, Shape{0, 4}}) {
    const HostTensor x = randomTensor(1, {DType::F32, shape}, -30, 30);
    const HostTensor dy = random(2, shape);
    check({.def = ops::kSoftmax, .inputs = {x}}, 1, shape.str());
    check({.def = ops::kLogSoftmax, .inputs = {x}}, 1, shape.str());
    const HostTensor y = ops::evaluate(ops::kSoftmax, {}, {x})[0];
    check({.def = ops::kSoftmaxGrad, .inputs = {y, dy}}, 1, shape.str());
    const HostTensor logY = ops::evaluate(ops::kLogSoftmax, {}, {x})[0];
    check(
        {.def = ops::kLogSoftmaxGrad, .inputs = {logY, dy}}, shape.dims().back() * 4, shape.str());
  }
}

TEST(RowKernels, SoftmaxesAlongAnInnerAxis) {
  for (const Shape& shape : {Shape{3, 1, 7},
                             Shape{2, 9, 33},
                             Shape{1, 100, 3000},
                             Shape{70, 5, 64},
                             Shape{2, 700, 300},
                             Shape{2, 0, 5},
                             Shape{2, 5, 0}}) {
    const ir::Attrs attrs = {{"axis", 1}};
    const HostTensor x = randomTensor(1, {DType::F32, shape}, -30, 30);
    const HostTensor dy = random(2, shape);
    check({.def = ops::kSoftmax, .attrs = attrs, .inputs = {x}}, 4, shape.str());
    check({.def = ops::kLogSoftmax, .attrs = attrs, .inputs = {x}}, 4, shape.str());
    const HostTensor y = ops::evaluate(ops::kSoftmax, attrs, {x})[0];
    check({.def = ops::kSoftmaxGrad, .attrs = attrs, .inputs = {y, dy}}, 4, shape.str());
    const HostTensor logY = ops::evaluate(ops::kLogSoftmax, attrs, {x})[0];
    check({.def = ops::kLogSoftmaxGrad, .attrs = attrs, .inputs = {logY, dy}},
          shape[1] * 4,
          shape.str());
  }
}

TEST(RowKernels, SoftmaxesOfDoubles) {
  for (const Shape& shape : {Shape{3, 1, 7}, Shape{90, 64, 1}, Shape{2, 700, 30}, Shape{2, 0, 5}}) {
    const ir::Attrs attrs = {{"axis", 1}};
    const HostTensor x = randomTensor(1, {DType::F64, shape}, -30, 30);
    const HostTensor dy = random(2, shape, DType::F64);
    checkExact({.def = ops::kSoftmax, .attrs = attrs, .inputs = {x}}, shape.str());
    checkExact({.def = ops::kLogSoftmax, .attrs = attrs, .inputs = {x}}, shape.str());
    const HostTensor y = ops::evaluate(ops::kSoftmax, attrs, {x})[0];
    checkExact({.def = ops::kSoftmaxGrad, .attrs = attrs, .inputs = {y, dy}}, shape.str());
    const HostTensor logY = ops::evaluate(ops::kLogSoftmax, attrs, {x})[0];
    checkExact({.def = ops::kLogSoftmaxGrad, .attrs = attrs, .inputs = {logY, dy}}, shape.str());
  }
}

TEST(RowKernels, SoftmaxInPlace) {
  const HostTensor x = random(1, {50, 77});
  EXPECT_TRUE(
      runOnDevice(*makeCpuDevice(), {.def = ops::kSoftmax, .inputs = {x}, .inPlace = 0})[0]
          .sameBits(runOnDevice(*makeCpuDevice(), {.def = ops::kSoftmax, .inputs = {x}})[0]));
}

TEST(Transpose, EveryPermutationOfSeveralShapesAndTypes) {
  const auto device = makeCpuDevice({.threads = 2});
  for (const DType dtype : {DType::U8, DType::BF16, DType::F32, DType::F64}) {
    for (const Shape& shape :
         {Shape{37, 50}, Shape{5, 1, 33}, Shape{3, 17, 4, 18}, Shape{2, 0, 3}}) {
      std::vector<std::int64_t> permutation(shape.dims().size());
      std::iota(permutation.begin(), permutation.end(), 0);
      const HostTensor in = randomTensor(1, {dtype, shape}, 0, 200);
      do {
        const ir::Attrs attrs = {{"permutation", permutation}};
        ASSERT_TRUE(
            runOnDevice(*device, {.def = ops::kTranspose, .attrs = attrs, .inputs = {in}})[0]
                .sameBits(ops::evaluate(ops::kTranspose, attrs, {in})[0]))
            << shape.str() << fmt::format("{}", fmt::join(permutation, ","));
      } while (std::next_permutation(permutation.begin(), permutation.end()));
    }
  }
}

TEST(Random, GivesTheNumbersOfTheReference) {
  const ir::RunInfo info{.seed = 77, .microBatch = 5};
  const ir::Attrs dropout = {{"p", 0.3}, {"ordinal", 2}};
  const ir::Attrs uniform = {{"shape", {3, 16387}}, {"low", -1.0}, {"high", 2.0}, {"ordinal", 4}};
  const HostTensor in = random(1, {3, 16387});
  for (const int threads : {1, 3}) {
    const auto device = makeCpuDevice({.threads = threads});
    const DeviceRun drop{.def = ops::kDropout, .attrs = dropout, .inputs = {in}, .info = info};
    EXPECT_TRUE(runOnDevice(*device, drop)[0].sameBits(
        ops::evaluate(ops::kDropout, dropout, {in}, info)[0]));
    const DeviceRun make{.def = ops::kRandomUniform, .attrs = uniform, .info = info};
    EXPECT_TRUE(runOnDevice(*device, make)[0].sameBits(
        ops::evaluate(ops::kRandomUniform, uniform, {}, info)[0]));
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      const ir::Attrs normal = {{"shape", {3, 2731}},
                                {"dtype", name(dtype)},
                                {"mean", 2.0},
                                {"deviation", 0.5},
                                {"ordinal", 4}};
      const DeviceRun normals{.def = ops::kRandomNormal, .attrs = normal, .info = info};
      EXPECT_TRUE(runOnDevice(*device, normals)[0].sameBits(
          ops::evaluate(ops::kRandomNormal, normal, {}, info)[0]));
    }
  }
}

void checkNorms(const Shape& shape, DType dtype) {
  const std::int64_t columns = shape.dims().back();
  const HostTensor x = random(1, shape, dtype);
  const HostTensor gamma = random(2, {columns}, dtype);
  const HostTensor beta = random(3, {columns}, dtype);
  const HostTensor dy = random(4, shape, dtype);
  const std::string what = fmt::format("{} {}", shape.str(), name(dtype));
  check({.def = ops::kLayerNorm, .inputs = {x, gamma, beta}}, 4, what);
  check({.def = ops::kRmsNorm, .inputs = {x, gamma}}, 4, what);
  const auto layer = ops::evaluate(ops::kLayerNorm, {}, {x, gamma, beta});
  check({.def = ops::kLayerNormGrad, .inputs = {x, gamma, layer[1], layer[2], dy}},
        shape.elements(),
        what);
  const auto rms = ops::evaluate(ops::kRmsNorm, {}, {x, gamma});
  check({.def = ops::kRmsNormGrad, .inputs = {x, gamma, rms[1], dy}}, shape.elements(), what);
}

TEST(RowKernels, NormsAndTheirGradients) {
  for (const Shape& shape : {Shape{3, 10}, Shape{1000, 65}, Shape{70, 5, 64}, Shape{3, 5001}}) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      checkNorms(shape, dtype);
    }
  }
}

void checkBatchNorm(const Shape& shape, DType dtype) {
  const std::int64_t channels = shape[1];
  const HostTensor x = random(1, shape, dtype);
  const HostTensor gamma = random(2, {channels}, dtype);
  const HostTensor beta = random(3, {channels}, dtype);
  const HostTensor dy = random(4, shape, dtype);
  const ir::Attrs attrs = {{"epsilon", 1e-3}};
  const std::string what = fmt::format("{} {}", shape.str(), name(dtype));
  check({.def = ops::kBatchNorm, .attrs = attrs, .inputs = {x, gamma, beta}}, 16, what);
  const auto y = ops::evaluate(ops::kBatchNorm, attrs, {x, gamma, beta});
  check({.def = ops::kBatchNormGrad, .attrs = attrs, .inputs = {x, gamma, y[1], y[2], dy}},
        std::max<std::int64_t>(4, shape.elements() / std::max<std::int64_t>(1, channels)),
        what);
}

TEST(BatchNorm, AllShapesAndSizes) {
  for (const Shape& shape : {Shape{1000, 3},
                             Shape{5, 2500},
                             Shape{7, 64, 9, 9},
                             Shape{2, 300, 5, 5},
                             Shape{3, 5, 7},
                             Shape{16, 8, 64, 64},
                             Shape{1, 1, 1, 50001},
                             Shape{2, 3, 4, 5, 6},
                             Shape{2, 3, 2, 2, 2, 2},
                             Shape{2, 3, 0},
                             Shape{2, 0, 3}}) {
    for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
      checkBatchNorm(shape, dtype);
    }
  }
}

TEST(BatchNorm, AMeanFarFromZeroCostsNoDigits) {
  // Alternating 4095 and 4097: the mean is 4096 and the variance 1. The mean of the squares less
  // the square of the mean would be 2^24 + 1 - 2^24, which float32 cannot tell from 0 or 2.
  HostTensor x(DType::F32, {1 << 16, 2});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, i / 2 % 2 == 0 ? 4095 : 4097);
  }
  const HostTensor gamma = HostTensor::full({DType::F32, {2}}, 3.0);
  const HostTensor beta = HostTensor::full({DType::F32, {2}}, 0.5);
  const auto y = runOnDevice(
      *makeCpuDevice(),
      {.def = ops::kBatchNorm, .attrs = {{"epsilon", 0.0}}, .inputs = {x, gamma, beta}});
  EXPECT_EQ(y[0].at(0), -2.5);
  EXPECT_EQ(y[0].at(2), 3.5);
  EXPECT_EQ(y[1].at(1), 4096);
  EXPECT_EQ(y[2].at(1), 1);
}

}  // namespace
}  // namespace sluice::devices::cpu
