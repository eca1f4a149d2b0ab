// Every gradient against central finite differences, in double, by the reference kernels.
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph_builder.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/autodiff.h"
#include "tests/conformance/op_case.h"
#include "tests/support/random_tensor.h"

namespace sluice::testing {
namespace {

constexpr double kStep = 1e-5;
constexpr double kGradTolerance = 1e-6;

TensorType inDouble(TensorType type) {
  if (isFloat(type.dtype)) {
    type.dtype = DType::F64;
  }
  return type;
}

class OpGradient : public ::testing::TestWithParam<OpCase> {};

/// loss = sum over outputs of sum(output * random weights): a scalar with a full gradient.
ir::Value lossOf(ir::GraphBuilder& b, const std::vector<ir::Value>& outputs) {
  ir::Value loss = b.scalar(DType::F64, 0.0);
  std::uint64_t seed = 1000;
  for (const ir::Value out : outputs) {
    if (b.dtype(out) != DType::F64) {
      continue;
    }
    const ir::Value weights = b.constant(randomTensor(++seed, b.type(out), -1, 1));
    loss = ops::add(b, loss, ops::reduceSum(b, ops::mul(b, out, weights), {}));
  }
  return loss;
}

/// The op's results; a composite is built in its decomposed form, as it is differentiated.
std::vector<ir::Value> build(ir::GraphBuilder& b,
                             const OpCase& c,
                             const std::vector<ir::Value>& inputs) {
  if (c.def.grad != nullptr) {
    return b.addMany(c.def, inputs, c.attrs);
  }
  std::vector<TensorType> types;
  for (const ir::Value v : inputs) {
    types.push_back(b.type(v));
  }
  const ir::Attrs attrs = ir::completeAttrs(c.def, c.attrs);
  const std::vector<TensorType> outputs = c.def.infer({c.def, attrs, types, {}});
  std::vector<ir::Value> results = c.def.decompose(b, {c.def, attrs, types, outputs}, inputs);
  EXPECT_EQ(results.size(), outputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(b.type(results[i]), outputs.at(i)) << "output " << i << " of " << c.def.name;
  }
  return results;
}

TEST_P(OpGradient, MatchesFiniteDifferences) {
  const OpCase& c = GetParam();
  ir::Graph graph("case");
  ir::GraphBuilder b(graph);
  std::vector<ir::Value> inputs;
  ops::TensorMap feeds;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    const TensorType type = inDouble(operand.type);
    const std::string name = fmt::format("in{}", i);
    inputs.push_back(b.input(name, type));
    feeds.emplace(name,
                  operand.value ? cast(*operand.value, type.dtype)
                                : randomTensor(i + 1, type, operand.low, operand.high));
  }
  const ir::Value loss = lossOf(b, build(b, c, inputs));
  graph.addOutput("loss", loss);
  const ir::Graph forward = graph;
  std::vector<ir::Value> wrt;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graph.type(inputs[i]).dtype == DType::F64 && c.operands[i].differentiate) {
      wrt.push_back(inputs[i]);
      names.push_back(fmt::format("in{}", i));
    }
  }
  const std::vector<ir::Value> grads = transforms::differentiate(graph, loss, wrt);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    graph.addOutput("grad_" + names[i], grads[i]);
  }
  ops::TensorMap none;
  const ops::TensorMap analytic = ops::evaluate(graph, feeds, none);
  for (const std::string& name : names) {
    const HostTensor original = feeds.at(name);
    const HostTensor& gradient = analytic.at("grad_" + name);
    for (std::int64_t e = 0; e < original.shape().elements(); ++e) {
      const auto lossAt = [&](double delta) {
        HostTensor moved = original.clone();
        moved.set(e, moved.at(e) + delta);
        feeds.insert_or_assign(name, moved);
        return ops::evaluate(forward, feeds, none).at("loss").at(0);
      };
      const double numeric = (lossAt(kStep) - lossAt(-kStep)) / (2 * kStep);
      feeds.insert_or_assign(name, original);
      ASSERT_NEAR(gradient.at(e), numeric, kGradTolerance * std::max(1.0, std::abs(numeric)))
          << c.def.name << " " << c.label << ": element " << e << " of " << name;
    }
  }
}

/// Whether it takes operands in double precision: the body of a fused op has types of its own.
bool takesDoubles(const OpCase& c) {
  return &c.def != &ops::kFused;
}

/// The cases of ops that have a gradient, their own or that of their parts.
std::vector<OpCase> differentiableCases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : allCases()) {
    if (c.gradient && takesDoubles(c) && (c.def.grad != nullptr || c.def.decompose != nullptr)) {
      cases.push_back(c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllOps,
                         OpGradient,
                         ::testing::ValuesIn(differentiableCases()),
                         [](const auto& param) { return caseName(param.param); });

/// What runs as it is but is differentiated through its parts.
std::vector<OpCase> casesWithParts() {
  std::vector<OpCase> cases;
  for (const OpCase& c : allCases()) {
    if (takesDoubles(c) && c.def.reference != nullptr && c.def.decompose != nullptr) {
      cases.push_back(c);
    }
  }
  return cases;
}

class OpParts : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpParts, ComputeTheSame) {
  const OpCase& c = GetParam();
  ir::Graph graph("case");
  ir::GraphBuilder b(graph);
  std::vector<ir::Value> inputs;
  std::vector<HostTensor> operands;
  ops::TensorMap feeds;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    const TensorType type = inDouble(operand.type);
    operands.push_back(randomTensor(i + 1, type, operand.low, operand.high));
    inputs.push_back(b.input(fmt::format("in{}", i), type));
    feeds.emplace(fmt::format("in{}", i), operands.back());
  }
  const std::vector<ir::Value> parts = build(b, c, inputs);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    graph.addOutput(fmt::format("out{}", i), parts[i]);
  }
  ops::TensorMap none;
  const ops::TensorMap found = ops::evaluate(graph, feeds, none);
  const std::vector<HostTensor> expected = ops::evaluate(c.def, c.attrs, operands);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relativeDifference(found.at(fmt::format("out{}", i)), expected[i]), 1e-12) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllOps,
                         OpParts,
                         ::testing::ValuesIn(casesWithParts()),
                         [](const auto& param) { return caseName(param.param); });

TEST(OpTable, EveryOpHasACase) {
  std::set<std::string_view> covered = {"input", "variable", "constant", "assign"};
  for (const OpCase& c : allCases()) {
    covered.insert(c.def.name);
  }
  for (const ir::OpDef* def : ops::opSet().all()) {
    EXPECT_TRUE(covered.contains(def->name)) << def->name << " has no conformance case";
  }
}

}  // namespace
}  // namespace sluice::testing
