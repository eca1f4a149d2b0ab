// Attention by blocks against its parts: which ops get the kernels, and how exact they are.
#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/base/workers.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/transforms/decompose.h"
#include "tests/conformance/op_case.h"
#include "tests/support/device_run.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

using devices::cpu::makeCpuDevice;

struct Problem {
  Shape q;
  Shape k;
  Shape v;
  double range = 1;
  ir::Attrs attrs = {};
};

std::vector<HostTensor> operandsOf(const Problem& p) {
  return {randomTensor(1, {DType::F32, p.q}, -p.range, p.range),
          randomTensor(2, {DType::F32, p.k}, -p.range, p.range),
          randomTensor(3, {DType::F32, p.v}, -1, 1)};
}

std::vector<HostTensor> inDouble(const std::vector<HostTensor>& tensors) {
  std::vector<HostTensor> wide;
  for (const HostTensor& tensor : tensors) {
    wide.push_back(cast(tensor, DType::F64));
  }
  return wide;
}

/// Runs a kernel that the table has for the op, whether it would choose it or not.
std::vector<HostTensor> runKernel(const ir::OpDef& def,
                                  const ir::Attrs& given,
                                  const std::vector<HostTensor>& operands,
                                  int threads) {
  std::vector<TensorType> types;
  for (const HostTensor& tensor : operands) {
    types.push_back(tensor.type());
  }
  const ir::Attrs attrs = ir::completeAttrs(def, given);
  const std::vector<TensorType> outputTypes = def.infer({def, attrs, types, {}});
  const ir::OpView op{def, attrs, types, outputTypes};
  const auto entries = devices::cpu::kernelEntries();
  const auto entry = std::ranges::find(entries, op.def.name, &devices::cpu::KernelEntry::op);
  const device::Choice choice =
      entry->choose == nullptr ? device::plainChoice(op, "") : entry->choose(op, {});
  std::vector<const void*> inputs;
  for (const HostTensor& tensor : operands) {
    inputs.push_back(tensor.bytes());
  }
  std::vector<HostTensor> results;
  std::vector<void*> outputs;
  for (const TensorType& type : op.outputs) {
    outputs.push_back(results.emplace_back(type).bytes());
  }
  std::vector<std::byte> scratch(choice.scratchBytes + 1);
  Workers workers(threads);
  entry->make(op, choice)
      ->run({.inputs = inputs,
             .outputs = outputs,
             .scratch = scratch.data(),
             .info = {},
             .workers = workers});
  return results;
}

/// The op's results by the kernels of its parts.
std::vector<HostTensor> byParts(device::Device& device,
                                const ir::OpDef& def,
                                const ir::Attrs& attrs,
                                const std::vector<HostTensor>& operands) {
  ir::Graph graph("parts");
  ir::GraphBuilder b(graph);
  std::vector<ir::Value> inputs;
  std::vector<TensorType> types;
  for (const HostTensor& tensor : operands) {
    types.push_back(tensor.type());
    inputs.push_back(b.input(fmt::format("in{}", inputs.size()), tensor.type()));
  }
  const ir::Attrs all = ir::completeAttrs(def, attrs);
  const std::vector<TensorType> outputs = def.infer({def, all, types, {}});
  const std::vector<ir::Value> results = def.decompose(b, {def, all, types, outputs}, inputs);
  for (const ir::Value result : results) {
    graph.addOutput(fmt::format("out{}", graph.outputs().size()), result);
  }
  transforms::decompose(graph, [](const ir::Op&) { return false; });
  return runOpByOp(device, graph, operands);
}

/// The root of the mean square of the differences.
double errorOf(const HostTensor& found, const HostTensor& exact) {
  double squares = 0;
  for (std::int64_t i = 0; i < exact.shape().elements(); ++i) {
    squares += std::pow(found.at(i) - exact.at(i), 2);
  }
  return std::sqrt(squares / static_cast<double>(exact.shape().elements()));
}

void expectAsExactAsParts(device::Device& device,
                          const ir::OpDef& def,
                          const ir::Attrs& attrs,
                          const std::vector<HostTensor>& operands,
                          const std::vector<HostTensor>& exact) {
  const std::vector<HostTensor> whole = runKernel(def, attrs, operands, 1);
  const std::vector<HostTensor> parts = byParts(device, def, attrs, operands);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE(errorOf(whole[i], exact[i]), 2 * errorOf(parts[i], exact[i]))
        << def.name << ", output " << i << ", q " << operands[0].shape().str();
  }
}

TEST(Attention, IsAsExactAsItsParts) {
  const auto device = makeCpuDevice({.threads = 1});
  const std::vector<Problem> problems = {
      {{2, 128, 64}, {2, 128, 64}, {2, 128, 64}, 1, {{"causal", true}}},
      {{2, 300, 32}, {2, 300, 32}, {2, 300, 32}, 2},
      {{1, 200, 128}, {1, 500, 128}, {1, 500, 64}, 3},
      {{1, 100, 16}, {1, 1000, 16}, {1, 1000, 16}, 6},
  };
  for (const Problem& p : problems) {
    std::vector<HostTensor> operands = operandsOf(p);
    std::vector<HostTensor> wide = inDouble(operands);
    const std::vector<HostTensor> exact =
        ops::evaluate(ops::kScaledDotProductAttention, p.attrs, wide);
    expectAsExactAsParts(*device, ops::kScaledDotProductAttention, p.attrs, operands, exact);
    const std::vector<HostTensor> results =
        runKernel(ops::kScaledDotProductAttention, p.attrs, operands, 1);
    const HostTensor dy = randomTensor(4, results[0].type(), -1, 1);
    operands.insert(operands.end(), {results[0], results[1], dy});
    wide.insert(wide.end(), {exact[0], exact[1], cast(dy, DType::F64)});
    expectAsExactAsParts(*device,
                         ops::kScaledDotProductAttentionGrad,
                         p.attrs,
                         operands,
                         ops::evaluate(ops::kScaledDotProductAttentionGrad, p.attrs, wide));
  }
}

/// Whether the CPU has a kernel for attention of these operands.
bool isWhole(const std::vector<TensorType>& types, bool causal) {
  const auto device = makeCpuDevice({.threads = 1});
  const ir::OpDef& def = ops::kScaledDotProductAttention;
  const ir::Attrs attrs = ir::completeAttrs(def, {{"causal", causal}});
  const std::vector<TensorType> outputs = def.infer({def, attrs, types, {}});
  const bool forward = device->kernels().supports({def, attrs, types, outputs});
  std::vector<TensorType> operands(types.begin(), types.begin() + 3);
  operands.insert(operands.end(), {outputs[0], outputs[1], outputs[0]});
  operands.insert(operands.end(), types.begin() + 3, types.end());
  const ir::OpDef& grad = ops::kScaledDotProductAttentionGrad;
  EXPECT_EQ(
      device->kernels().supports({grad, attrs, operands, grad.infer({grad, attrs, operands, {}})}),
      forward);
  return forward;
}

TEST(Attention, HasKernelsWhereTheyAreQuicker) {
  const auto f32 = [](Shape shape) { return TensorType{DType::F32, std::move(shape)}; };
  const auto bf16 = [](Shape shape) { return TensorType{DType::BF16, std::move(shape)}; };
  EXPECT_TRUE(isWhole({f32({2, 4, 192, 8}), f32({2, 4, 192, 8}), f32({2, 4, 192, 8})}, true));
  EXPECT_TRUE(isWhole({bf16({4, 192, 8}), bf16({4, 192, 8}), bf16({4, 192, 8})}, true));
  EXPECT_TRUE(isWhole({f32({16, 1024, 8}), f32({16, 1024, 8}), f32({16, 1024, 8})}, false));
  const TensorType mask{DType::Bool, {1024, 1024}};
  EXPECT_TRUE(isWhole({f32({16, 1024, 8}), f32({16, 1024, 8}), f32({16, 1024, 8}), mask}, true));
  // Few scores, none of which are left out, are quicker kept than computed again.
  EXPECT_FALSE(isWhole({f32({2, 4, 192, 8}), f32({2, 4, 192, 8}), f32({2, 4, 192, 8})}, false));
  EXPECT_FALSE(isWhole({f32({2, 4, 128, 8}), f32({2, 4, 128, 8}), f32({2, 4, 128, 8})}, true));
  // One query has nothing to fill vectors with.
  EXPECT_FALSE(isWhole({f32({99, 1, 8}), f32({99, 99999, 8}), f32({99, 99999, 8})}, false));
  // Keys that many queries share are one product with all of them.
  EXPECT_FALSE(isWhole({f32({2, 4, 192, 8}), f32({192, 8}), f32({192, 8})}, true));
  EXPECT_FALSE(isWhole({f32({192, 300}), f32({192, 300}), f32({192, 8})}, true));
  const TensorType wide{DType::F64, {192, 8}};
  EXPECT_FALSE(isWhole({wide, wide, wide}, true));
}

class AttentionKernel : public ::testing::TestWithParam<OpCase> {};

TEST_P(AttentionKernel, ComputesWhatThePartsDo) {
  const OpCase& c = GetParam();
  std::vector<HostTensor> operands;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    operands.push_back(operand.value
                           ? *operand.value
                           : randomTensor(i + 1, operand.type, operand.low, operand.high));
  }
  const std::vector<HostTensor> expected = ops::evaluate(c.def, c.attrs, operands);
  const std::vector<HostTensor> first = runKernel(c.def, c.attrs, operands, 1);
  const std::vector<HostTensor> others = runKernel(c.def, c.attrs, operands, 3);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relativeDifference(first[i], expected[i]), tolerance(DType::F32, c.terms)) << i;
    EXPECT_TRUE(others[i].sameBits(first[i])) << "with 3 threads, output " << i;
  }
}

/// The kernels do not broadcast.
std::vector<OpCase> casesOfOneBatch() {
  std::vector<OpCase> cases;
  for (const OpCase& c : attentionCases()) {
    if (c.operands[0].type.shape.rank() == c.operands[1].type.shape.rank()) {
      cases.push_back(c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         AttentionKernel,
                         ::testing::ValuesIn(casesOfOneBatch()),
                         [](const auto& test) { return caseName(test.param); });

}  // namespace
}  // namespace sluice::testing
