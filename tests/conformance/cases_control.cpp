// Control flow.
#include <memory>

#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/control_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/reduction_ops.h"
#include "sluice/ops/shape_ops.h"
#include "tests/conformance/op_case.h"

namespace sluice::testing {

using namespace ops;  // NOLINT(google-build-using-namespace): the table reads better

namespace {

ir::GraphRef bodyOf(std::vector<TensorType> inputs,
                    std::vector<Value> (*build)(GraphBuilder&, const std::vector<Value>&)) {
  ir::Graph body("body");
  GraphBuilder b(body);
  std::vector<Value> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(b.input("in" + std::to_string(i), inputs[i]));
  }
  const std::vector<Value> results = build(b, values);
  for (std::size_t i = 0; i < results.size(); ++i) {
    body.addOutput("out" + std::to_string(i), results[i]);
  }
  return std::make_shared<const ir::Graph>(std::move(body));
}

TensorType type(Shape shape) {
  return {DType::F32, std::move(shape)};
}

/// (h, x, w) -> tanh(h w + x); that, and the old h, as rows.
ir::GraphRef cell(std::int64_t batch, std::int64_t size) {
  const Shape state{batch, size};
  return bodyOf({type(state), type(state), type(Shape{size, size})},
                [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
                  const Value h = tanh(b, add(b, matmul(b, in[0], in[2]), in[1]));
                  return {h, h, in[0]};
                });
}

/// (x, y) -> y, x + y.
ir::GraphRef fibonacci() {
  return bodyOf({type({3}), type({3})},
                [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
                  return {in[1], add(b, in[0], in[1])};
                });
}

/// (x, y) -> y, x, and the sum of a product of fixed values as a row.
ir::GraphRef turns() {
  return bodyOf({type({3}), type({3}), type({3})},
                [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
                  return {in[1], in[0], exp(b, in[2]), reshape(b, in[0], Shape{3, 1})};
                });
}

/// A loop in a loop: (x, y) -> (x + 2 y).
ir::GraphRef nested() {
  return bodyOf({type({4}), type({4})},
                [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
                  const ir::GraphRef inner = bodyOf(
                      {type({4}), type({4})}, [](GraphBuilder& c, const std::vector<Value>& each) {
                        return std::vector<Value>{add(c, each[0], each[1])};
                      });
                  return loop(b, {.body = inner, .count = 2, .carried = {in[0]}, .fixed = {in[1]}});
                });
}

ir::GraphRef either(bool yes) {
  const std::vector<TensorType> types = {type({3, 5}), type({5, 5})};
  if (yes) {
    return bodyOf(types, [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
      return {matmul(b, in[0], in[1]), in[0]};
    });
  }
  return bodyOf(types, [](GraphBuilder& b, const std::vector<Value>& in) -> std::vector<Value> {
    const Value e = exp(b, in[0]);
    return {e, e};
  });
}

Operand condition(bool value) {
  return {{DType::Bool, Shape{}}, 0, 0, HostTensor::scalar(value)};
}

}  // namespace

std::vector<OpCase> controlCases() {
  const ir::Attrs one = {{"body", cell(2, 3)}, {"count", 5}, {"carried", 1}, {"scanned", 1}};
  ir::Attrs back = one;
  back.set({"reverse", true});
  return {
      {kBranch,
       {condition(true), f32({3, 5}), f32({5, 5})},
       {{"then", either(true)}, {"else", either(false)}},
       "then",
       false,
       5},
      {kBranch,
       {condition(false), f32({3, 5}), f32({5, 5})},
       {{"then", either(true)}, {"else", either(false)}},
       "else",
       false},
      {kLoop, {f32({2, 3}), f32({5, 2, 3}), f32({3, 3})}, one, "", false, 15},
      {kLoop, {f32({2, 3}), f32({5, 2, 3}), f32({3, 3})}, back, "reverse", false, 15},
      {kLoop,
       {f32({4, 16}), f32({7, 4, 16}), f32({16, 16}, -0.2, 0.2)},
       {{"body", cell(4, 16)}, {"count", 7}, {"carried", 1}, {"scanned", 1}},
       "aligned",
       false,
       112},
      {kLoop,
       {f32({3}), f32({3})},
       {{"body", fibonacci()}, {"count", 6}, {"carried", 2}},
       "fibonacci",
       false},
      {kLoop,
       {f32({3}), f32({3}), f32({3})},
       {{"body", turns()}, {"count", 3}, {"carried", 2}},
       "turns",
       false},
      {kLoop,
       {f32({3}), f32({3}), f32({3})},
       {{"body", turns()}, {"count", 0}, {"carried", 2}},
       "nothing",
       false},
      {kLoop,
       {f32({4}), f32({4})},
       {{"body", nested()}, {"count", 3}, {"carried", 1}},
       "nested",
       false},
  };
}

}  // namespace sluice::testing
