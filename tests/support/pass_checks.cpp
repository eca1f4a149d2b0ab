#include "tests/support/pass_checks.h"

#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sluice/ir/graph.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/reduction_ops.h"

namespace sluice::transforms {
namespace {

using ir::Value;

HostTensor randomTensor(const std::string& name, const TensorType& type, std::uint64_t seed) {
  return ir::initialValue(
      {name, type, ir::VariableRole::Buffer, true, ir::Initializer::uniform(-2.0, 2.0)}, seed);
}

class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed), graph_("random"), b_(graph_) {}

  ir::Graph make(int size) {
    for (int i = 0; i < 2; ++i) {
      graph_.addVariable({fmt::format("v{}", i),
                          {DType::F32, Shape{4, 4}},
                          ir::VariableRole::Buffer,
                          true,
                          ir::Initializer::uniform(-1, 1)});
    }
    values_.push_back(b_.input("x", {DType::F32, Shape{4, 4}}));
    values_.push_back(b_.input("row", {DType::F32, Shape{4}}));
    for (int i = 0; i < size; ++i) {
      if (i == size / 2) {
        b_.place.pass = ir::Pass::Backward;
      }
      b_.place.stage = below(8) == 0 ? 1 : 0;
      addOp();
    }
    for (int i = 0; i < 3; ++i) {
      graph_.addOutput(fmt::format("out{}", i), any());
    }
    return std::move(graph_);
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  Value any() { return values_[below(values_.size())]; }
  /// One of the last few, so that chains arise.
  Value recent() {
    return values_[values_.size() - 1 - below(std::min<std::size_t>(4, values_.size()))];
  }
  Value square() {
    for (int i = 0; i < 20; ++i) {
      if (const Value v = recent(); b_.shape(v) == Shape{4, 4}) {
        return v;
      }
    }
    return values_.front();
  }
  std::string anyVariable() { return fmt::format("v{}", below(2)); }

  void addOp() {
    switch (below(12)) {
      case 0:
        values_.push_back(ops::reduceSum(b_, recent(), {}, true));
        break;
      case 1:
        values_.push_back(b_.variable(anyVariable()));
        break;
      case 2:
        b_.assign(anyVariable(), square());
        break;
      case 3:
        values_.push_back(ops::matmul(b_, square(), square()));
        break;
      case 4:
        values_.push_back(b_.scalar(DType::F32, static_cast<double>(below(3))));
        break;
      case 5:
      case 6:
        values_.push_back(ops::mul(b_, square(), recent()));
        break;
      case 7:
        values_.push_back(ops::neg(b_, any()));
        break;
      case 8:
        values_.push_back(ops::exp(b_, recent()));
        break;
      default:
        values_.push_back(ops::add(b_, square(), any()));
    }
    if (b_.shape(values_.back()).rank() > 2 || b_.shape(values_.back()).elements() > 16) {
      values_.pop_back();
    }
  }

  std::mt19937_64 random_;
  ir::Graph graph_;
  ir::GraphBuilder b_;
  std::vector<Value> values_;
};

}  // namespace

ir::Graph parseGraph(std::string_view text) {
  return ir::parse(text, ops::opSet());
}

ops::TensorMap runGraph(const ir::Graph& graph, std::uint64_t seed) {
  ops::TensorMap inputs;
  for (const ir::OpId id : graph.inputs()) {
    const ir::Op& op = graph.op(id);
    inputs.emplace(op.name, randomTensor(op.name, op.outputs[0], seed));
  }
  ops::TensorMap variables;
  for (const ir::Variable& variable : graph.variables()) {
    // With one replica the part is the whole as a vector.
    variables.emplace(variable.name, initialValue(variable, seed).reshaped(variable.type.shape));
  }
  ops::TensorMap results = ops::evaluate(graph, inputs, variables, {.seed = seed});
  for (const auto& [name, value] : variables) {
    results.emplace("var " + name, value);
  }
  return results;
}

void expectSameValues(const ir::Graph& before, const ir::Graph& after, std::uint64_t seed) {
  const ops::TensorMap expected = runGraph(before, seed);
  const ops::TensorMap found = runGraph(after, seed);
  ASSERT_EQ(expected.size(), found.size());
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(value.sameBits(found.at(name))) << name << " changed:\n"
                                                << print(before) << print(after);
  }
}

void expectPass(const Pass& pass, std::string_view before, std::string_view after) {
  const ir::Graph original = parseGraph(before);
  ir::Graph graph = original;
  EXPECT_TRUE(pass(graph));
  verify(graph);
  EXPECT_EQ(print(graph), print(parseGraph(after)));
  expectSameValues(original, graph, 1);
  ir::Graph again = graph;
  EXPECT_FALSE(pass(again)) << "a second run changed the graph";
  EXPECT_EQ(print(again), print(graph));
}

void expectUnchanged(const Pass& pass, std::string_view text) {
  ir::Graph graph = parseGraph(text);
  EXPECT_FALSE(pass(graph));
  EXPECT_EQ(print(graph), print(parseGraph(text)));
}

ir::Graph randomGraph(std::uint64_t seed, int size) {
  return RandomGraph(seed).make(size);
}

}  // namespace sluice::transforms
