// Every gradient against central finite differences, in double, by the reference kernels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ops/arithmetic_ops.h"
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

/// Of the largest element of a gradient. Central differences leave out kStep^2 / 6 times the third
/// derivative: this allows one that is 60,000 times the first.
constexpr double kGradTolerance = 1e-6;

/// How many units in the last place a loss is off, of the sum of its terms' absolute values: those
/// of the additions and those of the op itself.
constexpr double kLossRoundings = 16;

/// How far the elements of a gradient may be from their finite differences. A small gradient has a
/// small tolerance: below it are only the roundings of the two losses, whose difference is divided
/// by 2 kStep. For terms that add up to 1 they make 3.6e-10.
double gradTolerance(std::span<const double> differences, double sizeOfLoss) {
  double largest = 0;
  for (const double difference : differences) {
    largest = std::max(largest, std::abs(difference));
  }
  constexpr double kUnit = std::numeric_limits<double>::epsilon();
  return kGradTolerance * largest + kLossRoundings * kUnit * sizeOfLoss / kStep;
}

TEST(GradientTolerance, IsOfTheSizeOfTheGradient) {
  const std::vector<double> small = {1e-6, -2e-7, 0};
  EXPECT_LT(gradTolerance(small, 1.0), 1e-9);
  EXPECT_NEAR(gradTolerance(std::vector<double>{1e-6, 3e4}, 1.0), 3e-2, 1e-8);
  EXPECT_NEAR(gradTolerance(std::vector<double>{0.0}, 1e3), 3.6e-7, 1e-8);
}

TensorType inDouble(TensorType type) {
  if (isFloat(type.dtype)) {
    type.dtype = DType::F64;
  }
  return type;
}

class OpGradient : public ::testing::TestWithParam<OpCase> {};

/// A scalar with a full gradient, and the sum of the absolute values of its terms.
struct Loss {
  ir::Value value;
  ir::Value size;
};

/// The sum over outputs of sum(output * random weights).
Loss lossOf(ir::GraphBuilder& b, const std::vector<ir::Value>& outputs) {
  Loss loss{b.scalar(DType::F64, 0.0), b.scalar(DType::F64, 0.0)};
  std::uint64_t seed = 1000;
  for (const ir::Value out : outputs) {
    if (b.dtype(out) != DType::F64) {
      continue;
    }
    const ir::Value weights = b.constant(randomTensor(++seed, b.type(out), -1, 1));
    const ir::Value terms = ops::mul(b, out, weights);
    loss.value = ops::add(b, loss.value, ops::reduceSum(b, terms, {}));
    loss.size = ops::add(b, loss.size, ops::reduceSum(b, ops::abs(b, terms), {}));
  }
  return loss;
}

/// What the loss of `forward` changes by per change of each element of one of its inputs.
std::vector<double> finiteDifferences(const ir::Graph& forward,
                                      ops::TensorMap feeds,
                                      const std::string& input) {
  const HostTensor original = feeds.at(input);
  ops::TensorMap none;
  std::vector<double> differences;
  for (std::int64_t e = 0; e < original.shape().elements(); ++e) {
    const auto lossAt = [&](double delta) {
      HostTensor moved = original.clone();
      moved.set(e, moved.at(e) + delta);
      feeds.insert_or_assign(input, moved);
      return ops::evaluate(forward, feeds, none).at("loss").at(0);
    };
    differences.push_back((lossAt(kStep) - lossAt(-kStep)) / (2 * kStep));
  }
  return differences;
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
  const Loss loss = lossOf(b, build(b, c, inputs));
  graph.addOutput("loss", loss.value);
  const ir::Graph forward = graph;
  graph.addOutput("size", loss.size);
  std::vector<ir::Value> wrt;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (graph.type(inputs[i]).dtype == DType::F64 && c.operands[i].differentiate) {
      wrt.push_back(inputs[i]);
      names.push_back(fmt::format("in{}", i));
    }
  }
  const std::vector<ir::Value> grads = transforms::differentiate(graph, loss.value, wrt);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    graph.addOutput("grad_" + names[i], grads[i]);
  }
  ops::TensorMap none;
  const ops::TensorMap analytic = ops::evaluate(graph, feeds, none);
  for (const std::string& name : names) {
    const HostTensor& gradient = analytic.at("grad_" + name);
    const std::vector<double> differences = finiteDifferences(forward, feeds, name);
    const double most = gradTolerance(differences, analytic.at("size").at(0));
    for (std::size_t e = 0; e < differences.size(); ++e) {
      ASSERT_NEAR(gradient.at(static_cast<std::int64_t>(e)), differences[e], most)
          << c.def.name << " " << c.label << ": element " << e << " of " << name;
    }
  }
}

/// Whether it takes operands in double precision: a body has types of its own.
bool takesDoubles(const OpCase& c) {
  return std::ranges::none_of(c.attrs, [](const ir::NamedAttr& attr) {
    return kindOf(attr.value) == ir::AttrKind::Subgraph;
  });
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
