#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/sequence.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;
using Matrix = std::vector<std::vector<double>>;

Matrix matrix(const HostTensor& tensor, std::int64_t rows, std::int64_t columns) {
  Matrix result;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<double>& row = result.emplace_back();
    for (std::int64_t c = 0; c < columns; ++c) {
      row.push_back(tensor.at(r * columns + c));
    }
  }
  return result;
}

/// Row `first + j` of w, for j below `count`, times each row of x, plus the bias.
Matrix project(const Matrix& x,
               const Matrix& w,
               const HostTensor& bias,
               std::size_t first,
               std::size_t count) {
  Matrix y;
  for (const std::vector<double>& row : x) {
    std::vector<double>& out = y.emplace_back();
    for (std::size_t j = first; j < first + count; ++j) {
      double sum = bias.at(static_cast<std::int64_t>(j));
      for (std::size_t i = 0; i < row.size(); ++i) {
        sum += w[j][i] * row[i];
      }
      out.push_back(sum);
    }
  }
  return y;
}

/// Attention of a single example by loops.
Matrix attention(const MultiHeadAttention& module,
                 const Matrix& queries,
                 const Matrix& keys,
                 std::size_t heads,
                 bool causal) {
  const std::size_t embedding = queries[0].size();
  const auto e = static_cast<std::int64_t>(embedding);
  const Matrix w = matrix(module.inProjWeight.value(), 3 * e, e);
  const HostTensor bias = module.inProjBias->value();
  const Matrix q = project(queries, w, bias, 0, embedding);
  const Matrix k = project(keys, w, bias, embedding, embedding);
  const Matrix v = project(keys, w, bias, 2 * embedding, embedding);
  Matrix mixed(queries.size(), std::vector<double>(embedding, 0.0));
  const std::size_t size = embedding / heads;
  for (std::size_t head = 0; head < embedding; head += size) {
    for (std::size_t i = 0; i < queries.size(); ++i) {
      const std::size_t visible = causal ? i + 1 : keys.size();
      std::vector<double> p(visible, 0.0);
      double total = 0.0;
      for (std::size_t j = 0; j < visible; ++j) {
        for (std::size_t d = head; d < head + size; ++d) {
          p[j] += q[i][d] * k[j][d];
        }
        p[j] = std::exp(p[j] / std::sqrt(static_cast<double>(size)));
        total += p[j];
      }
      for (std::size_t j = 0; j < visible; ++j) {
        for (std::size_t d = head; d < head + size; ++d) {
          mixed[i][d] += p[j] / total * v[j][d];
        }
      }
    }
  }
  const Matrix out = matrix(module.outProj.weight.value(), e, e);
  return project(mixed, out, module.outProj.bias->value(), 0, embedding);
}

void expectNear(const HostTensor& actual, const Matrix& expected) {
  std::int64_t i = 0;
  for (const std::vector<double>& row : expected) {
    for (const double value : row) {
      EXPECT_NEAR(actual.at(i++), value, 1e-12);
    }
  }
  EXPECT_EQ(actual.shape().elements(), i);
}

/// A module with biases that are not zero.
struct AttentionNet : Module {
  explicit AttentionNet(bool causal)
      : attention(*this, "attention", 4, 2, {.causal = causal, .dtype = DType::F64}) {
    attention.inProjBias->setValue(waves(attention.inProjBias->type(), 3));
    attention.outProj.bias->setValue(waves(attention.outProj.bias->type(), 4));
  }
  MultiHeadAttention attention;
};

TEST(MultiHeadAttention, EqualsPlainLoops) {
  const HostTensor x = waves({DType::F64, Shape{1, 3, 4}}, 1);
  for (const bool causal : {false, true}) {
    AttentionNet net(causal);
    const HostTensor y = evaluated(
        {x}, [&](const Tensors& in) { return net.attention(in[0]); }, net);
    expectNear(y, attention(net.attention, matrix(x, 3, 4), matrix(x, 3, 4), 2, causal));
  }
}

TEST(MultiHeadAttention, AttendsToAnotherSequence) {
  AttentionNet net(false);
  const HostTensor q = waves({DType::F64, Shape{1, 2, 4}}, 1);
  const HostTensor k = waves({DType::F64, Shape{1, 5, 4}}, 2);
  const HostTensor y = evaluated(
      {q, k}, [&](const Tensors& in) { return net.attention.attend(in[0], in[1], in[1]); }, net);
  expectNear(y, attention(net.attention, matrix(q, 2, 4), matrix(k, 5, 4), 2, false));
}

TEST(MultiHeadAttention, AMaskHidesKeys) {
  AttentionNet net(false);
  const HostTensor q = waves({DType::F64, Shape{1, 2, 4}}, 1);
  const HostTensor k = waves({DType::F64, Shape{1, 3, 4}}, 2);
  const HostTensor mask = HostTensor::of<bool>(Shape{1, 3}, {true, true, false});
  const HostTensor y = evaluated(
      {q, k, mask},
      [&](const Tensors& in) { return net.attention.attend(in[0], in[1], in[1], in[2]); },
      net);
  expectNear(y, attention(net.attention, matrix(q, 2, 4), matrix(k, 2, 4), 2, false));
}

TEST(MultiHeadAttention, HasPyTorchsParameters) {
  AttentionNet net(false);
  std::vector<std::string> names;
  for (const Parameter* parameter : net.parameters()) {
    names.push_back(parameter->fullName());
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("attention.in_proj_weight",
                                     "attention.in_proj_bias",
                                     "attention.out_proj.weight",
                                     "attention.out_proj.bias"));
}

TEST(MultiHeadAttention, RefusesOtherShapes) {
  AttentionNet net(false);
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  const Tensor x = tracer.input("x", {DType::F64, Shape{2, 4}});
  EXPECT_THAT(messageOf([&] { net.attention(x); }), HasSubstr("attention"));
  EXPECT_THAT(messageOf([&] { net.attention.attend(x, x, x); }), HasSubstr("the query"));
  const Tensor q = tracer.input("q", {DType::F64, Shape{1, 2, 4}});
  EXPECT_THAT(messageOf([&] { scaledDotProductAttention(q, q, q, {.scale = -1.0}); }),
              HasSubstr("scale"));
}

}  // namespace
}  // namespace sluice::nn
