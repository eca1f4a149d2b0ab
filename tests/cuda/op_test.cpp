// Every op that has a CUDA kernel: against the reference within tolerance, with the same bits each
// time, and no byte written outside its buffers.
#include <cmath>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "sluice/devices/cuda/cuda_device.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/loss_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/conformance/case_run.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

device::Device& gpu() {
  static const std::unique_ptr<device::Device> kGpu = devices::cuda::makeCudaDevice();
  return *kGpu;
}

class OpOnCuda : public ::testing::TestWithParam<OpCase> {};

void expectSame(const std::vector<HostTensor>& results,
                const std::vector<HostTensor>& first,
                std::string_view what) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i].sameBits(first[i])) << "output " << i << " differs " << what;
  }
}

/// Whether a result may lie where operand 0 was.
bool mayOverwrite(const OpCase& c,
                  const std::vector<HostTensor>& operands,
                  const HostTensor& result) {
  return c.def.traits.elementwise && !operands.empty() && operands[0].type() == result.type();
}

/// The case has logarithms that are not those of its scores. The reference does not read them.
bool hasWrongLogarithms(const OpCase& c) {
  return c.def.name == "cross_entropy_grad" && c.label.empty();
}

void checkOnGpu(const OpCase& c, DType floats) {
  SCOPED_TRACE(name(floats));
  if (hasWrongLogarithms(c)) {
    return;
  }
  const ir::RunInfo info{.seed = 42, .microBatch = 3, .microBatchInRound = 1};
  const std::vector<HostTensor> operands = operandsOf(c, floats);
  const auto expected = expectedOf(c, operands, info);
  if (!expected || !supported(gpu(), c, operands) ||
      implementationOf(gpu(), c, operands) == device::kOnHost) {
    return;
  }
  const DeviceRun run{.def = c.def, .attrs = c.attrs, .inputs = operands, .info = info};
  const std::vector<HostTensor> results = runOnDevice(gpu(), run);
  ASSERT_EQ(results.size(), expected->size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_LE(differenceOf(results[i], (*expected)[i]), tolerance(results[i].dtype(), c.terms))
        << "output " << i;
  }
  expectSame(runOnDevice(gpu(), run), results, "the second time");
  if (mayOverwrite(c, operands, results[0])) {
    DeviceRun inPlace = run;
    inPlace.inPlace = 0;
    expectSame(runOnDevice(gpu(), inPlace), results, "where operand 0 was");
  }
}

TEST_P(OpOnCuda, MatchesTheReference) {
  checkOnGpu(GetParam(), DType::F32);
}

TEST_P(OpOnCuda, MatchesTheReferenceInOtherFloats) {
  for (const DType floats : {DType::F64, DType::BF16, DType::F16}) {
    checkOnGpu(GetParam(), floats);
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps, OpOnCuda, ::testing::ValuesIn(allCases()), [](const auto& param) {
  return caseName(param.param);
});

/// Products that are added to (which nothing may contract), several types, functions, two results.
ir::Graph fusedBody(const Shape& shape) {
  ir::Graph body("body");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, shape});
  const ir::Value row = b.input("in1", {DType::F32, Shape{shape[1]}});
  const ir::Value sum = ops::add(b, ops::mul(b, x, row), ops::mul(b, x, x));
  const ir::Value short16 = ops::cast(b, ops::tanh(b, sum), DType::BF16);
  const ir::Value wide = ops::cast(b, ops::mul(b, short16, short16), DType::F32);
  const ir::Value chosen = ops::where(b, ops::greater(b, x, wide), sum, ops::exp(b, wide));
  body.addOutput("out0", ops::div(b, chosen, ops::sigmoid(b, sum)));
  body.addOutput("out1", short16);
  return body;
}

TEST(LossOnCuda, OfIgnoredLabelsIsNoNumberAndHasNoGradient) {
  const Shape shape{3, 7};
  const HostTensor x = randomTensor(1, {DType::F32, shape}, -4, 0);
  const HostTensor labels = HostTensor::of<std::int64_t>({3}, {2, 2, 2});
  const HostTensor dy = HostTensor::of<float>({}, {4.0F});
  ir::Attrs attrs = {{"ignoreIndex", 2}};
  const auto onGpu = [&](const ir::OpDef& def, const std::vector<HostTensor>& inputs) {
    return runOnDevice(gpu(), {.def = def, .attrs = attrs, .inputs = inputs});
  };
  EXPECT_TRUE(std::isnan(onGpu(ops::kNllLoss, {x, labels})[0].at(0)));
  const std::vector<HostTensor> loss = onGpu(ops::kCrossEntropy, {x, labels});
  EXPECT_TRUE(std::isnan(loss[0].at(0)));
  const HostTensor none(DType::F32, shape);
  EXPECT_TRUE(onGpu(ops::kCrossEntropyGrad, {x, labels, loss[1], dy})[0].sameBits(none));
  attrs.set({"classes", shape[1]});
  EXPECT_TRUE(onGpu(ops::kNllLossGrad, {labels, dy})[0].sameBits(none));
}

TEST(ErfcOnCuda, KeepsTheDigitsOfTheTail) {
  const HostTensor x = HostTensor::of<float>({6}, {-3.0F, 0.4F, 2.0F, 4.0F, 6.0F, 9.0F});
  const HostTensor tails = runOnDevice(gpu(), {.def = ops::kErfc, .inputs = {x}})[0];
  for (std::int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(tails.at(i) / std::erfc(x.at(i)), 1.0, 1e-6) << x.at(i);
  }
}

TEST(FusedOnCuda, HasTheBitsOfItsOpsOneByOne) {
  const Shape shape{123, 457};
  const ir::Graph body = fusedBody(shape);
  const std::vector<HostTensor> in = {randomTensor(1, {DType::F32, shape}, -2, 2),
                                      randomTensor(2, {DType::F32, Shape{shape[1]}}, -2, 2)};
  const std::vector<HostTensor> expected = runOpByOp(gpu(), body, in);
  for (const std::optional<std::size_t> place : {std::optional<std::size_t>(), {0}}) {
    expectSame(runOnDevice(gpu(),
                           {.def = ops::kFused,
                            .attrs = {{"body", std::make_shared<const ir::Graph>(body)}},
                            .inputs = in,
                            .inPlace = place}),
               expected,
               "fused");
  }
}

}  // namespace
}  // namespace sluice::testing
