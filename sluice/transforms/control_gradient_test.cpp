// Gradients of loops and branches. The oracle of a loop is its unrolled form, which must have the
// same bits; that of a branch is the body that was chosen.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/printer.h"
#include "sluice/ir/verify.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/body.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/interpreter.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/logic_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/transforms/autodiff.h"
#include "sluice/transforms/decompose.h"
#include "tests/support/message_of.h"
#include "tests/support/pass_checks.h"

namespace sluice::transforms {
namespace {

using ir::GraphBuilder;
using ir::Value;
using ops::LoopParts;
using sluice::testing::messageOf;
using ::testing::HasSubstr;
using Values = std::vector<Value>;

using Build = std::function<Values(GraphBuilder&, const Values&)>;

ir::GraphRef bodyOf(const std::vector<TensorType>& inputs, const Build& build) {
  ir::Graph body("body");
  GraphBuilder b(body);
  Values values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(b.input(fmt::format("in{}", i), inputs[i]));
  }
  const Values results = build(b, values);
  for (std::size_t i = 0; i < results.size(); ++i) {
    body.addOutput(fmt::format("out{}", i), results[i]);
  }
  return std::make_shared<const ir::Graph>(std::move(body));
}

TensorType f32(Shape shape) {
  return {DType::F32, std::move(shape)};
}

/// A graph with inputs in0, in1 ... and a scalar output "loss".
struct Case {
  std::vector<TensorType> inputs;
  Build build;  ///< returns the loss
};

ir::Graph graphOf(const Case& c) {
  ir::Graph graph("case");
  GraphBuilder b(graph);
  Values values;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    values.push_back(b.input(fmt::format("in{}", i), c.inputs[i]));
  }
  graph.addOutput("loss", c.build(b, values)[0]);
  return graph;
}

/// Appends the gradients of all float inputs as outputs, and evaluates everything.
ops::TensorMap valuesAndGradients(ir::Graph graph) {
  Values wrt;
  for (const ir::OpId id : graph.inputs()) {
    if (isFloat(graph.op(id).outputs[0].dtype)) {
      wrt.push_back(graph.op(id).out());
    }
  }
  const Values grads = differentiate(graph, graph.outputs()[0].value, wrt);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    graph.addOutput("grad_" + graph.op(wrt[i].op).name, grads[i]);
  }
  verify(graph);
  return runGraph(graph, 7);
}

bool unroll(ir::Graph& graph) {
  return decompose(graph, [](const ir::Op& op) { return !op.is(ops::kLoop); });
}

void expectBitsOfUnrolled(const Case& c) {
  const ir::Graph rolled = graphOf(c);
  ir::Graph unrolled = rolled;
  ASSERT_TRUE(unroll(unrolled));
  const ops::TensorMap expected = valuesAndGradients(unrolled);
  const ops::TensorMap found = valuesAndGradients(rolled);
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(found.at(name).sameBits(tensor)) << name;
  }
}

Value sumOf(GraphBuilder& b, const Values& values) {
  Value total = ops::reduceSum(b, ops::square(b, values[0]), {});
  for (std::size_t i = 1; i < values.size(); ++i) {
    total = ops::add(b, total, ops::reduceSum(b, ops::square(b, values[i]), {}));
  }
  return total;
}

/// A cell that uses its weight twice: (h, x, w) -> tanh(tanh(h w + x) w), and that as a row.
ir::GraphRef cell() {
  return bodyOf({f32({2, 3}), f32({2, 3}), f32({3, 3})}, [](GraphBuilder& b, const Values& in) {
    const Value inner = ops::tanh(b, ops::add(b, ops::matmul(b, in[0], in[2]), in[1]));
    const Value h = ops::tanh(b, ops::matmul(b, inner, in[2]));
    return Values{h, ops::mul(b, h, inner)};
  });
}

LoopParts cellLoop(const Values& in, bool reverse = false) {
  return {.body = cell(),
          .count = 5,
          .carried = {in[0]},
          .scanned = {in[1]},
          .fixed = {in[2]},
          .reverse = reverse};
}

const std::vector<TensorType> kCellInputs = {f32({2, 3}), f32({5, 2, 3}), f32({3, 3})};

TEST(LoopGradient, HasTheBitsOfTheUnrolledForm) {
  for (const bool reverse : {false, true}) {
    expectBitsOfUnrolled({kCellInputs, [&](GraphBuilder& b, const Values& in) {
                            return Values{sumOf(b, ops::loop(b, cellLoop(in, reverse)))};
                          }});
  }
}

TEST(LoopGradient, NeedsNotAllResults) {
  for (const std::size_t result : {0, 1}) {
    expectBitsOfUnrolled({kCellInputs, [&](GraphBuilder& b, const Values& in) {
                            return Values{sumOf(b, {ops::loop(b, cellLoop(in))[result]})};
                          }});
  }
}

TEST(LoopGradient, GoesOnWithTheSumsOfUsesOutside) {
  expectBitsOfUnrolled({kCellInputs, [](GraphBuilder& b, const Values& in) {
                          const Value before = ops::matmul(b, in[0], in[2]);
                          Values results = ops::loop(b, cellLoop({before, in[1], in[2]}));
                          Values again = ops::loop(b, cellLoop({results[0], results[1], in[2]}));
                          again.push_back(ops::matmul(b, again[0], in[2]));
                          again.push_back(ops::mul(b, in[1], again[1]));
                          return Values{sumOf(b, again)};
                        }});
}

TEST(LoopGradient, TellsApartTheRolesOfOneValue) {
  // x is the initial value of both carried values, and fixed twice.
  const ir::GraphRef body =
      bodyOf(std::vector<TensorType>(4, f32({3})), [](GraphBuilder& b, const Values& in) {
        const Value x = ops::mul(b, in[0], in[2]);
        const Value y = ops::add(b, ops::mul(b, in[1], in[3]), x);
        return Values{ops::tanh(b, y), ops::sin(b, x)};
      });
  expectBitsOfUnrolled(
      {{f32({3})}, [&](GraphBuilder& b, const Values& in) {
         return Values{sumOf(
             b,
             ops::loop(
                 b,
                 {.body = body, .count = 4, .carried = {in[0], in[0]}, .fixed = {in[0], in[0]}}))};
       }});
}

TEST(LoopGradient, FollowsValuesThatArePassedOn) {
  // One value carried twice, one carried on to another place, a fixed one, one that stays.
  const ir::GraphRef body =
      bodyOf(std::vector<TensorType>(6, f32({3})), [](GraphBuilder& b, const Values& in) {
        const Value x = ops::sin(b, ops::mul(b, in[0], ops::add(b, in[1], in[5])));
        const Value y = ops::mul(b, ops::mul(b, x, in[2]), ops::add(b, in[3], in[4]));
        const Value z = ops::tanh(b, ops::add(b, y, ops::mul(b, x, in[0])));
        return Values{z, z, in[0], in[5], in[4], in[5], z};
      });
  expectBitsOfUnrolled(
      {std::vector<TensorType>(6, f32({3})), [&](GraphBuilder& b, const Values& in) {
         const LoopParts parts{
             .body = body, .count = 6, .carried = {in.begin(), in.begin() + 5}, .fixed = {in[5]}};
         return Values{sumOf(b, ops::loop(b, parts))};
       }});
}

TEST(LoopGradient, WorksInsideALoop) {
  const ir::GraphRef body =
      bodyOf({f32({2, 3}), f32({5, 2, 3}), f32({3, 3})}, [](GraphBuilder& b, const Values& in) {
        const Values inner = ops::loop(b, cellLoop(in));
        return Values{ops::sin(b, inner[0]), inner[1]};
      });
  expectBitsOfUnrolled(
      {kCellInputs, [&](GraphBuilder& b, const Values& in) {
         const LoopParts parts{
             .body = body, .count = 3, .carried = {in[0]}, .fixed = {in[1], in[2]}};
         return Values{sumOf(b, ops::loop(b, parts))};
       }});
}

TEST(LoopGradient, IsOneLoopForOneLoop) {
  ir::Graph graph = graphOf({kCellInputs, [](GraphBuilder& b, const Values& in) {
                               return Values{sumOf(b, ops::loop(b, cellLoop(in)))};
                             }});
  const std::size_t before = graph.numOps();
  const Values wrt = {graph.op(graph.inputs()[2]).out()};
  differentiate(graph, graph.outputs()[0].value, wrt);
  std::vector<const ir::Op*> loops;
  for (const ir::OpId id : graph.order()) {
    if (graph.op(id).is(ops::kLoop)) {
      loops.push_back(&graph.op(id));
    }
  }
  ASSERT_EQ(loops.size(), 2U);
  EXPECT_EQ(loops[1]->place.pass, ir::Pass::Backward);
  EXPECT_TRUE(loops[1]->attrs.flag("reverse"));
  EXPECT_EQ(loops[1]->outputs[1], f32({3, 3})) << "the sum of the weight's gradients is carried";
  EXPECT_LT(graph.numOps() - before, 20U);
}

TEST(LoopGradient, OfNoIterationsPassesOn) {
  expectBitsOfUnrolled(
      {{f32({2, 3}), f32({0, 2, 3}), f32({3, 3})}, [](GraphBuilder& b, const Values& in) {
         LoopParts parts = cellLoop(in);
         parts.count = 0;
         return Values{sumOf(b, ops::loop(b, parts))};
       }});
}

/// branch(x, y, w) by the sign of a sum.
Case branchCase(bool chooses) {
  const std::vector<TensorType> types = {f32({2, 3}), f32({3, 3}), f32({2, 3})};
  const ir::GraphRef yes = bodyOf(types, [](GraphBuilder& b, const Values& in) {
    const Value y = ops::tanh(b, ops::matmul(b, in[0], in[1]));
    return Values{y, ops::mul(b, y, in[0])};
  });
  const ir::GraphRef no = bodyOf(types, [](GraphBuilder& b, const Values& in) {
    return Values{ops::exp(b, in[2]), in[0]};
  });
  return {types, [=](GraphBuilder& b, const Values& in) {
            const Value big = ops::reduceSum(b, ops::square(b, in[0]), {});
            const Value zero = b.scalar(DType::F32, 0);
            const Value condition = chooses ? ops::greater(b, big, zero) : ops::less(b, big, zero);
            Values results = ops::branch(b, condition, in, yes, no);
            results.push_back(ops::mul(b, in[0], results[1]));
            return Values{sumOf(b, results)};
          }};
}

TEST(BranchGradient, IsThatOfTheBodyThatWasChosen) {
  for (const bool chooses : {false, true}) {
    const ir::Graph whole = graphOf(branchCase(chooses));
    ir::Graph chosen = whole;
    replaceByParts(chosen, [&](GraphBuilder& b, const ir::Op& op) -> Values {
      if (!op.is(ops::kBranch)) {
        return {};
      }
      const ir::Graph& body = op.attrs.subgraph(chooses ? "then" : "else");
      return ops::inlineBody(b, body, std::span<const Value>(op.inputs).subspan(1));
    });
    const ops::TensorMap expected = valuesAndGradients(chosen);
    const ops::TensorMap found = valuesAndGradients(whole);
    for (const auto& [name, tensor] : expected) {
      for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
        EXPECT_NEAR(found.at(name).at(i), tensor.at(i), 1e-5) << name << ", element " << i;
      }
    }
  }
}

TEST(Loop, IsUnrolledOnlyUpToALimit) {
  ir::Graph graph = graphOf(
      {{f32({3})}, [](GraphBuilder& b, const Values& in) {
         const ir::GraphRef body = bodyOf({f32({3})}, [](GraphBuilder& c, const Values& each) {
           return Values{ops::sin(c, each[0])};
         });
         const LoopParts parts{.body = body, .count = ops::kMaxUnrolled + 1, .carried = {in[0]}};
         return Values{sumOf(b, ops::loop(b, parts))};
       }});
  EXPECT_THAT(messageOf<Unsupported>([&] { unroll(graph); }), HasSubstr("10001 iterations"));
}

}  // namespace
}  // namespace sluice::transforms
