// Fused ops with an anchor: random bodies behind each kind of anchor against the same ops one by
// one, bit for bit, at several thread counts.
#include <array>
#include <memory>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/activation_ops.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/ops/window_ops.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;
using sluice::testing::randomTensor;
using sluice::testing::runOnDevice;
using sluice::testing::runOpByOp;

struct AnchorCase {
  const ir::OpDef& def;
  std::vector<Shape> operands;
  std::vector<Shape> extras;  ///< shapes that broadcast to the result
  ir::Attrs attrs = {};
};

std::vector<AnchorCase> anchorCases() {
  return {
      {ops::kMatMul, {{40, 320}, {320, 256}}, {{256}, {40, 256}, {40, 1}}},
      {ops::kMatMul, {{40, 64}, {64, 10}}, {{10}, {1, 10}, {}}},
      {ops::kMatMul, {{3, 70, 16}, {3, 16, 24}}, {{24}, {3, 70, 24}, {3, 1, 1}}},
      {ops::kMatMul, {{1, 4}, {4, 700}}, {{700}, {1, 1}}},
      {ops::kConv, {{4, 3, 9, 9}, {10, 3, 3, 3}}, {{10, 1, 1}, {4, 10, 7, 7}, {1, 10, 1, 1}}},
      {ops::kConv, {{5, 1, 12, 12}, {4, 1, 5, 5}}, {{4, 1, 1}, {8}, {5, 1, 8, 8}}},
      {ops::kConvGradInput,
       {{6, 8, 3, 3}, {3, 6, 5, 5}},
       {{8, 1, 1}, {3, 8, 7, 7}},
       {{"inputShape", std::vector<std::int64_t>{3, 8, 7, 7}}}},
      {ops::kConvGradWeight,
       {{3, 2, 8, 8}, {3, 5, 6, 6}},
       {{5, 2, 3, 3}, {2, 1, 1}},
       {{"weightShape", std::vector<std::int64_t>{5, 2, 3, 3}}}},
  };
}

struct RandomEpilogue {
  ir::Graph graph{"body"};
  std::vector<TensorType> inputs;

  RandomEpilogue(std::uint64_t seed, DType dtype, const AnchorCase& form) {
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    ir::GraphBuilder b(graph);
    std::vector<ir::Value> operands;
    std::vector<ir::Value> extras;
    for (const std::vector<Shape>* shapes : {&form.operands, &form.extras}) {
      for (const Shape& shape : *shapes) {
        inputs.push_back({dtype, shape});
        (shapes == &form.operands ? operands : extras)
            .push_back(b.input(fmt::format("in{}", inputs.size() - 1), inputs.back()));
      }
    }
    extras.push_back(b.scalar(dtype, 0.3));
    std::vector<ir::Value> results = {b.add(form.def, operands, form.attrs)};
    for (int step = 0; step < 6; ++step) {
      results.push_back(
          next(b, pick(7), results[pick(results.size())], extras[pick(extras.size())]));
    }
    const std::size_t first = seed % 3 == 0 ? 0 : 1;  // with or without the anchor's own result
    graph.addOutput("out0", results.back());
    graph.addOutput("out1", results[first + pick(results.size() - first)]);
    graph.addOutput("out2", results[first + pick(results.size() - first)]);
  }

  static ir::Value next(ir::GraphBuilder& b, std::size_t kind, ir::Value x, ir::Value y) {
    switch (kind) {
      case 0:
        return ops::add(b, x, y);
      case 1:
        return ops::mul(b, x, y);
      case 2:
        return ops::gelu(b, x);
      case 3:
        return ops::relu(b, x);
      case 4:
        return ops::sub(b, y, x);
      case 5:
        return ops::tanh(b, x);
      default:
        return ops::maximum(b, x, y);
    }
  }
};

TEST(FusedAnchor, GivesTheBitsOfItsOpsOneByOneAtEveryThreadCount) {
  const std::array devices = {
      makeCpuDevice(), makeCpuDevice({.threads = 2}), makeCpuDevice({.threads = 3})};
  std::uint64_t seed = 0;
  for (const AnchorCase& form : anchorCases()) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F64, DType::F32, DType::F16}) {
      const RandomEpilogue body(++seed, dtype, form);
      std::vector<HostTensor> in;
      for (std::size_t i = 0; i < body.inputs.size(); ++i) {
        in.push_back(randomTensor(seed * 10 + i, body.inputs[i], -1, 1));
      }
      const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(body.graph)}};
      const std::vector<HostTensor> expected = runOpByOp(*devices[0], body.graph, in);
      for (const auto& device : devices) {
        const std::vector<HostTensor> actual =
            runOnDevice(*device, {.def = ops::kFused, .attrs = attrs, .inputs = in});
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_TRUE(actual[i].sameBits(expected[i]))
              << form.def.name << " " << name(dtype) << " seed " << seed << " output " << i;
        }
      }
    }
  }
}

/// conv + bias, then `last`.
ir::Graph biasedConv(ir::Value (*last)(ir::GraphBuilder&, ir::Value)) {
  ir::Graph body("body");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, {2, 8, 6, 6}});
  const ir::Value w = b.input("in1", {DType::F32, {16, 8, 3, 3}});
  const ir::Value bias = b.input("in2", {DType::F32, {16, 1, 1}});
  body.addOutput("out0", last(b, ops::add(b, b.add(ops::kConv, {x, w}), bias)));
  return body;
}

Choice choiceOf(const ir::Graph& body) {
  const ir::Attrs attrs = {{"body", std::make_shared<const ir::Graph>(body)}};
  std::vector<TensorType> in;
  for (const ir::OpId id : body.inputs()) {
    in.push_back(body.op(id).outputs[0]);
  }
  const ir::OpView bare{ops::kFused, attrs, in, {}};
  const std::vector<TensorType> out = ops::kFused.infer(bare);
  return makeCpuDevice()->kernels().choose({ops::kFused, attrs, in, out});
}

TEST(FusedAnchor, TakesTheChoiceOfItsAnchor) {
  const ir::Graph body =
      biasedConv([](ir::GraphBuilder& b, ir::Value x) { return ops::relu(b, x); });
  const ir::Op& conv = body.op(body.order()[3]);
  const std::vector<TensorType> types = body.inputTypes(conv);
  const Choice alone = makeCpuDevice()->kernels().choose(ir::view(conv, types));
  const Choice fused = choiceOf(body);
  EXPECT_EQ(fused.implementation, "anchored");
  EXPECT_EQ(fused.config, alone.config);
  EXPECT_EQ(fused.scratchBytes, alone.scratchBytes);
  EXPECT_EQ(fused.inputs[0], alone.inputs[0]);
  EXPECT_EQ(fused.inputs[1], alone.inputs[1]);
  EXPECT_TRUE(fused.inputs[2].isPlain());
  EXPECT_EQ(fused.outputs[0], alone.outputs[0]);
}

TEST(FusedAnchor, NeedsScratchForAResultThatFitsNoOutput) {
  const Choice same = choiceOf(
      biasedConv([](ir::GraphBuilder& b, ir::Value x) { return ops::cast(b, x, DType::I32); }));
  const Choice narrow = choiceOf(
      biasedConv([](ir::GraphBuilder& b, ir::Value x) { return ops::cast(b, x, DType::BF16); }));
  EXPECT_EQ(narrow.scratchBytes, same.scratchBytes + sizeof(float) * 2 * 16 * 4 * 4);
}

TEST(FusedAnchor, LeavesSharedOperandsOfTheAnchorToThePlainLoops) {
  ir::Graph body("body");
  ir::GraphBuilder b(body);
  const ir::Value x = b.input("in0", {DType::F32, {8, 8}});
  body.addOutput("out0", ops::relu(b, ops::matmul(b, x, x)));
  EXPECT_EQ(choiceOf(body).implementation, "reference");
}

}  // namespace
}  // namespace sluice::devices::cpu
