// Kernels for 16-bit floats and for storage with the channels last: attention on the tensor cores,
// batch norm, convolutions, and that a layout changes no bit where kernels take several.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/norm_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"
#include "tests/conformance/case_run.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

device::Device& theGpu() {
  static const std::unique_ptr<device::Device> kGpu = devices::cuda::makeCudaDevice();
  return *kGpu;
}

HostTensor rounded(std::uint64_t seed, DType dtype, const Shape& shape, double range = 1) {
  return cast(randomTensor(seed, {DType::F32, shape}, -range, range), dtype);
}

std::vector<HostTensor> inDouble(const std::vector<HostTensor>& tensors) {
  std::vector<HostTensor> wide;
  for (const HostTensor& tensor : tensors) {
    wide.push_back(isFloat(tensor.dtype()) ? cast(tensor, DType::F64) : tensor);
  }
  return wide;
}

/// Relative to the root mean square of what is expected.
double errorOf(const HostTensor& found, const HostTensor& exact) {
  double squares = 0;
  double all = 0;
  for (std::int64_t i = 0; i < exact.shape().elements(); ++i) {
    squares += std::pow(found.at(i) - exact.at(i), 2);
    all += std::pow(exact.at(i), 2);
  }
  return std::sqrt(squares / (all + 1e-30));
}

double roundingOf(DType dtype) {
  return dtype == DType::BF16 ? 0x1p-8 : dtype == DType::F16 ? 0x1p-11 : 0x1p-24;
}

/// Runs an op twice and compares it with the reference in float64.
std::vector<HostTensor> checked(const ir::OpDef& def,
                                const ir::Attrs& attrs,
                                const std::vector<HostTensor>& in,
                                const std::vector<HostTensor>& exactInputs,
                                double tolerance) {
  const DeviceRun run{.def = def, .attrs = attrs, .inputs = in};
  const std::vector<HostTensor> found = runOnDevice(theGpu(), run);
  const std::vector<HostTensor> again = runOnDevice(theGpu(), run);
  const std::vector<HostTensor> exact = ops::evaluate(def, attrs, exactInputs);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_LE(errorOf(found[i], exact[i]), tolerance)
        << def.name << ", output " << i << ", " << in[0].type().str();
    EXPECT_TRUE(found[i].sameBits(again[i])) << def.name << ", output " << i;
  }
  return found;
}

struct AttentionCase {
  Shape q;
  Shape k;
  bool causal = false;
};

TEST(AttentionOnCuda, IsExactToTheRoundingOfItsType) {
  const std::vector<AttentionCase> cases = {
      {{2, 3, 64, 64}, {2, 3, 64, 64}, false},
      {{2, 3, 128, 64}, {2, 3, 128, 64}, true},
      {{1, 2, 100, 64}, {1, 2, 100, 64}, true},
      {{1, 2, 70, 32}, {1, 2, 200, 32}, false},
      {{1, 2, 200, 48}, {1, 2, 70, 48}, true},
      {{2, 130, 128}, {2, 130, 128}, true},
      {{2, 1, 16}, {2, 300, 16}, false},
  };
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const AttentionCase& c : cases) {
      const ir::Attrs attrs = {{"causal", c.causal}};
      std::vector<HostTensor> in = {
          rounded(1, dtype, c.q, 2), rounded(2, dtype, c.k, 2), rounded(3, dtype, c.k)};
      ASSERT_EQ(implementationOf(
                    theGpu(), {ops::kScaledDotProductAttention, {}, attrs, "", false, 1}, in),
                "generated");
      const std::vector<HostTensor> results =
          checked(ops::kScaledDotProductAttention, attrs, in, inDouble(in), 4 * roundingOf(dtype));
      const std::vector<HostTensor> exact =
          ops::evaluate(ops::kScaledDotProductAttention, attrs, inDouble(in));
      std::vector<HostTensor> exactIn = inDouble(in);
      const HostTensor dy = rounded(4, dtype, results[0].shape());
      in.insert(in.end(), {results[0], results[1], dy});
      exactIn.insert(exactIn.end(), {exact[0], exact[1], cast(dy, DType::F64)});
      checked(ops::kScaledDotProductAttentionGrad, attrs, in, exactIn, 8 * roundingOf(dtype));
    }
  }
}

TEST(BatchNormOnCuda, IsExactToTheRoundingOfItsType) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    for (const Shape& shape : {Shape{8, 24, 9, 9}, Shape{16, 256, 4, 4}, Shape{3, 5, 7, 7}}) {
      std::vector<HostTensor> in = {rounded(1, dtype, shape, 3),
                                    rounded(2, dtype, Shape{shape[1]}, 2),
                                    rounded(3, dtype, Shape{shape[1]})};
      const std::vector<HostTensor> results =
          checked(ops::kBatchNorm, {}, in, inDouble(in), 2 * roundingOf(dtype));
      const std::vector<HostTensor> exact = ops::evaluate(ops::kBatchNorm, {}, inDouble(in));
      const HostTensor dy = rounded(4, dtype, shape);
      checked(ops::kBatchNormGrad,
              {},
              {in[0], in[1], results[1], results[2], dy},
              {cast(in[0], DType::F64),
               cast(in[1], DType::F64),
               exact[1],
               exact[2],
               cast(dy, DType::F64)},
              4 * roundingOf(dtype));
    }
  }
}

struct ConvCase {
  Shape x;
  Shape w;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
};

/// Convolution shapes of real networks, and odd ones.
TEST(ConvOnCuda, IsExactToTheRoundingOfItsType) {
  const std::vector<ConvCase> cases = {{{4, 3, 32, 32}, {16, 3, 7, 7}, 2, 3},
                                       {{4, 64, 14, 14}, {64, 64, 3, 3}, 1, 1},
                                       {{4, 64, 14, 14}, {128, 64, 1, 1}, 2, 0},
                                       {{4, 10, 12, 12}, {20, 10, 5, 5}, 1, 0},
                                       {{2, 7, 9, 11}, {5, 7, 3, 3}, 2, 1}};
  for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
    for (const ConvCase& c : cases) {
      const ir::Attrs attrs = {{"strides", std::vector<std::int64_t>{c.stride, c.stride}},
                               {"pads", std::vector<std::int64_t>{c.pad, c.pad, c.pad, c.pad}}};
      const HostTensor x = rounded(1, dtype, c.x);
      const HostTensor w = rounded(2, dtype, c.w);
      const double tolerance = 8 * roundingOf(dtype);
      const std::vector<HostTensor> y =
          checked(ops::kConv, attrs, {x, w}, inDouble({x, w}), tolerance);
      const HostTensor dy = rounded(3, dtype, y[0].shape());
      ir::Attrs forInput = attrs;
      forInput.set({"inputShape", c.x.dims()});
      checked(ops::kConvGradInput, forInput, {w, dy}, inDouble({w, dy}), tolerance);
      ir::Attrs forWeight = attrs;
      forWeight.set({"weightShape", c.w.dims()});
      checked(ops::kConvGradWeight, forWeight, {x, dy}, inDouble({x, dy}), tolerance);
    }
  }
}

TEST(LayoutsOnCuda, ChangeNoBit) {
  std::set<std::string_view> compared;
  for (const OpCase& c : allCases()) {
    const std::vector<HostTensor> in = operandsOf(c, DType::F32);
    const bool follows = supported(theGpu(), c, in) && withView(c, in, [](const ir::OpView& op) {
                           return op.outputs[0].shape.rank() == 4 &&
                                  theGpu().kernels().choose(op).rule == device::LayoutRule::Follow;
                         });
    if (!follows) {
      continue;
    }
    DeviceRun run{.def = c.def, .attrs = c.attrs, .inputs = in};
    const std::vector<HostTensor> plain = runOnDevice(theGpu(), run);
    run.follow = device::Layout::channelsLast();
    const std::vector<HostTensor> last = runOnDevice(theGpu(), run);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(plain[i].sameBits(last[i])) << c.def.name << " " << c.label;
    }
    compared.insert(c.def.name);
  }
  EXPECT_TRUE(compared.contains("max_pool"));
  EXPECT_TRUE(compared.contains("avg_pool_grad"));
}

/// Large enough for packets of 16 bytes, odd enough for every way to load an operand.
TEST(WideElementsOnCuda, HaveTheValuesOfTheReference) {
  for (const DType dtype : {DType::F32, DType::BF16}) {
    const HostTensor x = rounded(1, dtype, Shape{512, 520});
    const std::vector<HostTensor> others = {rounded(2, dtype, Shape{512, 520}),
                                            rounded(3, dtype, Shape{520}),
                                            rounded(4, dtype, Shape{512, 1}),
                                            rounded(5, dtype, Shape{})};
    for (const HostTensor& other : others) {
      checked(ops::kAdd, {}, {x, other}, inDouble({x, other}), roundingOf(dtype));
    }
    checked(ops::kReduceSum,
            {{"axes", std::vector<std::int64_t>{0}}},
            {x},
            inDouble({x}),
            4 * roundingOf(dtype));
    checked(
        ops::kTranspose, {{"permutation", std::vector<std::int64_t>{1, 0}}}, {x}, inDouble({x}), 0);
  }
}

}  // namespace
}  // namespace sluice::testing
