#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/modules.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Tensors = std::vector<Tensor>;

MATCHER_P(NearTo, tolerance, "") {
  return std::abs(std::get<0>(arg) - std::get<1>(arg)) <= tolerance;
}

TEST(Linear, MultipliesByTheTransposedWeightAndAddsTheBias) {
  Module root;
  Linear fc(root, "fc", 3, 2);
  fc.weight.setValue(HostTensor::of<float>(Shape{2, 3}, {1, 2, 3, 4, 5, 6}));
  fc.bias->setValue(HostTensor::of<float>(Shape{2}, {10, 20}));
  const HostTensor x = HostTensor::of<float>(Shape{2, 3}, {1, 0, -1, 2, 1, 0});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return fc(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), ElementsAre(8, 18, 14, 33));
}

TEST(Linear, KeepsLeadingAxesAndMayGoWithoutBias) {
  Module root;
  Linear fc(root, "fc", 2, 1, {.bias = false, .dtype = DType::F64});
  EXPECT_EQ(fc.bias, nullptr);
  fc.weight.setValue(HostTensor::of<double>(Shape{1, 2}, {2, -1}));
  const HostTensor x = HostTensor::of<double>(Shape{1, 2, 2}, {1, 2, 3, 4});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return fc(in[0]); }, root);
  EXPECT_EQ(y.shape(), (Shape{1, 2, 1}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(0, 2));
}

TEST(Conv2d, SlidesItsKernelWithStrideAndPadding) {
  Module root;
  Conv2d conv(root, "conv", 1, 1, 2, {.stride = {2}, .padding = {1}});
  conv.weight.setValue(HostTensor::of<float>(Shape{1, 1, 2, 2}, {1, 2, 3, 4}));
  conv.bias->setValue(HostTensor::of<float>(Shape{1}, {100}));
  const HostTensor x = HostTensor::of<float>(Shape{1, 1, 2, 2}, {1, 2, 3, 4});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return conv(in[0]); }, root);
  // The four windows see only the corners: 4*1, 3*2, 2*3, 1*4.
  EXPECT_EQ(y.shape(), (Shape{1, 1, 2, 2}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(104, 106, 106, 104));
}

TEST(Conv1d, SplitsChannelsIntoGroups) {
  Module root;
  Conv1d conv(root, "conv", 2, 2, 2, {.groups = 2, .bias = false});
  EXPECT_EQ(conv.weight.type().shape, (Shape{2, 1, 2}));
  conv.weight.setValue(HostTensor::of<float>(Shape{2, 1, 2}, {1, 1, 1, -1}));
  const HostTensor x = HostTensor::of<float>(Shape{1, 2, 3}, {1, 2, 3, 4, 6, 9});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return conv(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), ElementsAre(3, 5, -2, -3));
}

TEST(Conv3d, TakesAKernelPerAxis) {
  Module root;
  Conv3d conv(root, "conv", 1, 1, Extents{1, 2, 3}, {.bias = false});
  EXPECT_EQ(conv.kind(), "Conv3d");
  conv.weight.setValue(HostTensor::full(conv.weight.type(), 1.0));
  const HostTensor x = HostTensor::of<float>(Shape{1, 1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return conv(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), ElementsAre(24, 30));
}

TEST(Embedding, TakesRowsByIndex) {
  Module root;
  Embedding table(root, "table", 3, 2);
  table.weight.setValue(HostTensor::of<float>(Shape{3, 2}, {0, 1, 10, 11, 20, 21}));
  const HostTensor indices = HostTensor::of<std::int64_t>(Shape{2, 1}, {2, 0});
  const HostTensor y = evaluated(
      {indices}, [&](const Tensors& in) { return table(in[0]); }, root);
  EXPECT_EQ(y.shape(), (Shape{2, 1, 2}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(20, 21, 0, 1));
}

TEST(BatchNorm, TracksRunningStatisticsOverTwoSteps) {
  Module root;
  BatchNorm bn(root, "bn", 2, {.eps = 0.0, .dtype = DType::F64});
  ops::TensorMap state = stateOf(root);
  const auto step = [&](const HostTensor& x) {
    return evaluated(
        {x}, [&](const Tensors& in) { return bn(in[0]); }, state, TraceMode::Training);
  };
  // Channel 0: 1, 3 (mean 2, unbiased variance 2); channel 1: 0, 8 (mean 4, unbiased variance 32).
  const HostTensor y = step(HostTensor::of<double>(Shape{2, 2}, {1, 0, 3, 8}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(state.at("bn.running_mean").toDoubles(), Pointwise(NearTo(1e-12), {0.2, 0.4}));
  EXPECT_THAT(state.at("bn.running_var").toDoubles(),
              Pointwise(NearTo(1e-12), {0.9 + 0.2, 0.9 + 3.2}));
  // Channel 0: 5, 5 would have variance 0; 4, 6 has mean 5 and unbiased variance 2.
  step(HostTensor::of<double>(Shape{2, 2}, {4, 1, 6, 1.5}));
  EXPECT_THAT(state.at("bn.running_mean").toDoubles(),
              Pointwise(NearTo(1e-12), {0.9 * 0.2 + 0.5, 0.9 * 0.4 + 0.125}));
  EXPECT_THAT(state.at("bn.running_var").toDoubles(),
              Pointwise(NearTo(1e-12), {0.9 * 1.1 + 0.2, 0.9 * 4.1 + 0.0125}));
  EXPECT_EQ(state.at("bn.num_batches_tracked").at(0), 2.0);
}

TEST(BatchNorm, UsesTheRunningStatisticsOutsideTraining) {
  Module root;
  BatchNorm bn(root, "bn", 1, {.eps = 0.0});
  bn.runningMean.setValue(HostTensor::of<float>(Shape{1}, {3}));
  bn.runningVariance.setValue(HostTensor::of<float>(Shape{1}, {4}));
  bn.weight.setValue(HostTensor::of<float>(Shape{1}, {10}));
  bn.bias.setValue(HostTensor::of<float>(Shape{1}, {1}));
  const HostTensor x = HostTensor::of<float>(Shape{2, 1, 1}, {5, 3});
  const auto apply = [&](const Tensors& in) { return bn(in[0]); };
  EXPECT_THAT(evaluated({x}, apply, root).toDoubles(), ElementsAre(11, 1));
  // A module set to eval keeps its statistics in a training model, too.
  bn.eval();
  ops::TensorMap state = stateOf(root);
  EXPECT_THAT(evaluated({x}, apply, state, TraceMode::Training).toDoubles(), ElementsAre(11, 1));
  EXPECT_EQ(state.at("bn.running_mean").at(0), 3.0);
}

TEST(BatchNorm, AppliedTwiceInATraceTracksBoth) {
  Module root;
  BatchNorm bn(root, "bn", 1, {.eps = 0.0, .momentum = 0.5, .dtype = DType::F64});
  ops::TensorMap state = stateOf(root);
  const HostTensor a = HostTensor::of<double>(Shape{2, 1}, {1, 3});
  const HostTensor b = HostTensor::of<double>(Shape{2, 1}, {4, 8});
  evaluated(
      {a, b},
      [&](const Tensors& in) {
        const Tensor first = bn(in[0]);
        return first + bn(in[1]);
      },
      state,
      TraceMode::Training);
  EXPECT_NEAR(state.at("bn.running_mean").at(0), (0.0 * 0.5 + 2 * 0.5) * 0.5 + 6 * 0.5, 1e-12);
  EXPECT_EQ(state.at("bn.num_batches_tracked").at(0), 2.0);
}

TEST(LayerNorm, NormalizesTheLastAxes) {
  Module root;
  LayerNorm norm(root, "norm", Extents{1, 2}, {.eps = 0.0});
  norm.weight.setValue(HostTensor::of<float>(Shape{1, 2}, {1, 2}));
  norm.bias.setValue(HostTensor::of<float>(Shape{1, 2}, {0, 5}));
  const HostTensor x = HostTensor::of<float>(Shape{2, 1, 2}, {1, 3, -2, -6});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return norm(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), ElementsAre(-1, 7, 1, 3));
}

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  Module root;
  RmsNorm norm(root, "norm", 2, {.eps = 0.0, .dtype = DType::F64});
  const HostTensor x = HostTensor::of<double>(Shape{1, 2}, {1, 7});  // mean square 25
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return norm(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), Pointwise(NearTo(1e-12), {0.2, 1.4}));
}

TEST(GroupNorm, NormalizesGroupsOfChannels) {
  Module root;
  GroupNorm norm(root, "norm", 2, 4, {.eps = 0.0, .dtype = DType::F64});
  const HostTensor x = HostTensor::of<double>(Shape{1, 4}, {1, 3, 10, 30});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return norm(in[0]); }, root);
  EXPECT_THAT(y.toDoubles(), Pointwise(NearTo(1e-12), {-1.0, 1.0, -1.0, 1.0}));
}

TEST(Dropout, IsOffOutsideTrainingAndKeepsTheMeanInIt) {
  Module root;
  Dropout drop(root, "drop", 0.25);
  const HostTensor x = HostTensor::full({DType::F32, Shape{4000}}, 3.0);
  const auto apply = [&](const Tensors& in) { return drop(in[0]); };
  EXPECT_TRUE(evaluated({x}, apply, root).sameBits(x));
  ops::TensorMap state;
  int kept = 0;
  for (const double value : evaluated({x}, apply, state, TraceMode::Training).toDoubles()) {
    EXPECT_TRUE(value == 0.0 || value == 4.0);
    kept += value != 0.0 ? 1 : 0;
  }
  EXPECT_NEAR(kept, 3000, 140);  // 5 deviations of the binomial distribution
  drop.eval();
  EXPECT_TRUE(evaluated({x}, apply, state, TraceMode::Training).sameBits(x));
}

TEST(LstmCell, EqualsAPlainLoopOverTwoSteps) {
  constexpr std::size_t kIn = 3;
  constexpr std::size_t kHidden = 2;
  Module root;
  LstmCell cell(root, "cell", kIn, kHidden, {.dtype = DType::F64});
  const HostTensor x0 = waves({DType::F64, Shape{1, kIn}}, 1);
  const HostTensor x1 = waves({DType::F64, Shape{1, kIn}}, 2);
  const HostTensor result = evaluated(
      {x0, x1},
      [&](const Tensors& in) {
        LstmState state = cell(in[0], cell.zeroState(1));
        state = cell(in[1], state);
        return concat({state.h, state.c}, 1);
      },
      root);

  const std::vector<double> wi = cell.weightIh.value().toDoubles();
  const std::vector<double> wh = cell.weightHh.value().toDoubles();
  const std::vector<double> bi = cell.biasIh->value().toDoubles();
  const std::vector<double> bh = cell.biasHh->value().toDoubles();
  std::vector<double> h(kHidden, 0.0);
  std::vector<double> c(kHidden, 0.0);
  for (const HostTensor& x : {x0, x1}) {
    std::vector<double> gates(4 * kHidden);
    for (std::size_t g = 0; g < gates.size(); ++g) {
      gates[g] = bi[g] + bh[g];
      for (std::size_t i = 0; i < kIn; ++i) {
        gates[g] += wi[g * kIn + i] * x.at(static_cast<std::int64_t>(i));
      }
      for (std::size_t i = 0; i < kHidden; ++i) {
        gates[g] += wh[g * kHidden + i] * h[i];
      }
    }
    const auto sigma = [](double v) { return 1.0 / (1.0 + std::exp(-v)); };
    for (std::size_t i = 0; i < kHidden; ++i) {
      c[i] = sigma(gates[kHidden + i]) * c[i] + sigma(gates[i]) * std::tanh(gates[2 * kHidden + i]);
      h[i] = sigma(gates[3 * kHidden + i]) * std::tanh(c[i]);
    }
  }
  EXPECT_THAT(result.toDoubles(), Pointwise(NearTo(1e-12), {h[0], h[1], c[0], c[1]}));
}

TEST(RecurrentCell, RefusesOtherShapes) {
  Module root;
  GRUCell cell(root, "cell", 3, 2);
  const auto call = [&](const Shape& x, const Shape& state) {
    evaluated(
        {HostTensor(DType::F32, x), HostTensor(DType::F32, state)},
        [&](const Tensors& in) { return cell(in[0], in[1]); },
        root);
  };
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                call(Shape{4, 5}, Shape{4, 2});
              }),
              HasSubstr("[batch, 3]"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                call(Shape{4, 3}, Shape{4, 3});
              }),
              HasSubstr("a state [4, 2]"));
  EXPECT_THAT(messageOf<InvalidArgument>([&] { RNNCell(root, "none", 3, 0); }),
              HasSubstr("the hidden size"));
}

TEST(TransformerStack, RefusesNoLayersAndADecoderWithoutMemory) {
  Module root;
  EXPECT_THAT(messageOf<InvalidArgument>([&] { TransformerEncoder(root, "none", 0, 8, 2); }),
              HasSubstr("the number of layers"));
  TransformerDecoder decoder(root, "decoder", 2, 8, 2);
  EXPECT_EQ(decoder.size(), 2U);
  EXPECT_THAT(messageOf<InvalidArgument>([&] {
                evaluated(
                    {HostTensor(DType::F32, Shape{3, 1, 8})},
                    [&](const Tensors& in) { return decoder.forward(in[0]); },
                    root);
              }),
              HasSubstr("decoder(x, memory)"));
}

TEST(LstmCell, RunsASequenceWithTheBitsOfSingleSteps) {
  constexpr std::int64_t kSteps = 5;
  Module root;
  LstmCell cell(root, "cell", 3, 2);
  const HostTensor x = waves({DType::F32, Shape{kSteps, 2, 3}}, 1);
  const auto outputs = [&](bool bySequence, const LoopOptions& options) {
    return evaluated(
        {x},
        [&](const Tensors& in) {
          LstmState state = cell.zeroState(2);
          if (bySequence) {
            const LstmSequence all = cell.sequence(in[0], state, options);
            return concat({all.outputs, reshape(all.last.c, {1, 2, 2})}, 0);
          }
          Tensors steps;
          for (std::int64_t t = 0; t < kSteps; ++t) {
            const std::int64_t at = options.reverse ? kSteps - 1 - t : t;
            state = cell(reshape(slice(in[0], 0, at, at + 1), {2, 3}), state);
            steps.insert(options.reverse ? steps.begin() : steps.end(),
                         reshape(state.h, {1, 2, 2}));
          }
          steps.push_back(reshape(state.c, {1, 2, 2}));
          return concat(steps, 0);
        },
        root);
  };
  for (const bool reverse : {false, true}) {
    const HostTensor expected = outputs(false, {.reverse = reverse});
    EXPECT_TRUE(outputs(true, {.rollFrom = 1, .reverse = reverse}).sameBits(expected));
    EXPECT_TRUE(outputs(true, {.rollFrom = 9, .reverse = reverse}).sameBits(expected));
  }
  EXPECT_THAT(
      messageOf([&] {
        evaluated(
            {x.reshaped({10, 3})},
            [&](const Tensors& in) { return cell.sequence(in[0], cell.zeroState(2)).outputs; },
            root);
      }),
      HasSubstr("expected a sequence"));
}

TEST(Sequential, AppliesPoolingFlattenAndActivationsInOrder) {
  Module root;
  Sequential net(root, "net");
  net.add<MaxPool2d>(2).add<ReLU>().add<Flatten>();
  const HostTensor x = HostTensor::of<float>(Shape{1, 2, 2, 2}, {1, 5, -2, 3, -1, -2, -3, -4});
  const HostTensor y = evaluated(
      {x}, [&](const Tensors& in) { return net(in[0]); }, root);
  EXPECT_EQ(y.shape(), (Shape{1, 2}));
  EXPECT_THAT(y.toDoubles(), ElementsAre(5, 0));
}

TEST(Pooling, AveragesWindowsAndWholeImages) {
  Module root;
  AvgPool2d avg(root, "avg", 2, {.padding = 1});
  GlobalAvgPool global(root, "global");
  const HostTensor x = HostTensor::of<float>(Shape{1, 1, 2, 2}, {4, 8, 12, 16});
  EXPECT_THAT(evaluated(
                  {x}, [&](const Tensors& in) { return avg(in[0]); }, root)
                  .toDoubles(),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(evaluated(
                  {x}, [&](const Tensors& in) { return global(in[0]); }, root)
                  .toDoubles(),
              ElementsAre(10));
}

TEST(Layers, ErrorsNameTheModule) {
  Module root;
  Sequential net(root, "net");
  net.add<Linear>(3, 2).add<Conv2d>(3, 4, 3).add<BatchNorm>(5).add<LayerNorm>(6).add<Embedding>(3,
                                                                                                4);
  net.add<GroupNorm>(2, 4).add<RmsNorm>(7).add<MaxPool2d>(2);
  LstmCell cell(root, "cell", 3, 2);
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{1, 5}});
  EXPECT_THAT(messageOf([&] { net[0](x); }), AllOf(HasSubstr("net.0"), HasSubstr("f32[1, 5]")));
  EXPECT_THAT(messageOf([&] { net[1](x); }), AllOf(HasSubstr("net.1"), HasSubstr("[batch, 3,")));
  EXPECT_THAT(messageOf([&] { net[2](x); }), AllOf(HasSubstr("net.2"), HasSubstr("more than one")));
  EXPECT_THAT(messageOf([&] { net[3](x); }), AllOf(HasSubstr("net.3"), HasSubstr("[6]")));
  EXPECT_THAT(messageOf([&] { net[4](x); }), AllOf(HasSubstr("net.4"), HasSubstr("integer")));
  EXPECT_THAT(messageOf([&] { net[5](x); }), AllOf(HasSubstr("net.5"), HasSubstr("4")));
  EXPECT_THAT(messageOf([&] { net[6](x); }), AllOf(HasSubstr("net.6"), HasSubstr("[7]")));
  EXPECT_THAT(messageOf([&] { net[7](x); }), AllOf(HasSubstr("net.7"), HasSubstr("height")));
  EXPECT_THAT(messageOf([&] { net(x); }), HasSubstr("net.0"));
  EXPECT_THAT(messageOf([&] { cell(x, cell.zeroState(1)); }), HasSubstr("cell"));
  const Tensor in = tracer.input("in", {DType::F32, Shape{1, 3}});
  EXPECT_THAT(messageOf([&] { cell(in, cell.zeroState(2)); }), HasSubstr("states"));
}

TEST(Layers, RefuseSizesThatMakeNoSense) {
  Module root;
  EXPECT_THAT(messageOf([&] { Linear l(root, "a", 3, -1); }), HasSubstr("outputs"));
  EXPECT_THAT(messageOf([&] { Conv2d l(root, "a", 3, 4, 0); }), HasSubstr("kernel"));
  EXPECT_THAT(messageOf([&] {
                Conv2d l(root, "a", 3, 4, Extents{1, 2, 3});
              }),
              HasSubstr("extents"));
  EXPECT_THAT(messageOf([&] { Conv2d l(root, "a", 3, 4, 1, {.groups = 2}); }), HasSubstr("groups"));
  EXPECT_THAT(messageOf([&] { Embedding l(root, "a", 0, 4); }), HasSubstr("embeddings"));
  EXPECT_THAT(messageOf([&] { BatchNorm l(root, "a", 0); }), HasSubstr("extent"));
  EXPECT_THAT(messageOf([&] { BatchNorm l(root, "a", 1, {.momentum = 2.0}); }),
              HasSubstr("momentum"));
  EXPECT_THAT(messageOf([&] { LayerNorm l(root, "a", Extents{}); }), HasSubstr("extents"));
  EXPECT_THAT(messageOf([&] { GroupNorm l(root, "a", 3, 4); }), HasSubstr("groups"));
  EXPECT_THAT(messageOf([&] { Dropout l(root, "a", 1.0); }), HasSubstr("probability"));
  EXPECT_THAT(messageOf([&] { LstmCell l(root, "a", 0, 3); }), HasSubstr("input size"));
  EXPECT_THAT(messageOf([&] { MultiHeadAttention l(root, "a", 6, 4); }), HasSubstr("heads"));
  EXPECT_EQ(root.children().size(), 0U);
}

TEST(RecurrentLayers, AreRefusedWhatDoesNotFit) {
  Module root;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const auto input = [&](const char* name, const Shape& shape) {
    return tracer.input(name, {DType::F32, shape});
  };
  const Tensor x = input("x", {5, 2, 3});
  const Tensor wide = input("wide", {5, 2, 4});
  const Tensor state = input("state", {1, 2, 3});
  GRU gru(root, "gru", 3, 4);
  EXPECT_THAT(messageOf([&] { gru(wide); }), AllOf(HasSubstr("gru"), HasSubstr("steps, batch")));
  EXPECT_THAT(messageOf([&] { gru(x, {state}); }), HasSubstr("[1, 2, 4]"));
  EXPECT_THAT(messageOf([&] { gru(x, {.c = input("c", {1, 2, 4})}); }), HasSubstr("no cell state"));
  EXPECT_THAT(messageOf([&] { LSTM(root, "a", 0, 4); }), HasSubstr("input size"));
  EXPECT_THAT(messageOf([&] { LSTM(root, "b", 3, 4, {.numLayers = 0}); }), HasSubstr("numLayers"));
  EXPECT_THAT(messageOf([&] { RNN(root, "c", 3, 4, {.dropout = 1.0}); }), HasSubstr("dropout"));
}

TEST(TransformerLayers, AreRefusedWhatDoesNotFit) {
  Module root;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const auto input = [&](const char* name, DType dtype, const Shape& shape) {
    return tracer.input(name, {dtype, shape});
  };
  const Tensor x = input("x", DType::F32, {5, 2, 8});
  const Tensor bad = input("bad", DType::Bool, {3, 3});
  MultiheadAttention attention(root, "attention", 8, 2);
  EXPECT_THAT(messageOf([&] { attention(x, x, x, {.attention = bad}); }), HasSubstr("[5, 5]"));
  EXPECT_THAT(messageOf([&] { attention(x, x, x, {.keyPadding = bad}); }), HasSubstr("[2, 5]"));
  EXPECT_THAT(messageOf([&] { attention(x, slice(x, 2, 0, 4), x); }), HasSubstr("a key"));
  EXPECT_THAT(messageOf([&] { MultiheadAttention(root, "a", 8, 3); }), HasSubstr("divide"));
  TransformerDecoderLayer decoder(root, "decoder", 8, 2);
  EXPECT_THAT(messageOf([&] { decoder.forward(x); }), HasSubstr("layer(x, memory)"));
  EXPECT_THAT(messageOf([&] { rotaryEmbedding(slice(x, 2, 0, 3)); }), HasSubstr("even"));
  EXPECT_THAT(messageOf([&] { rotaryEmbedding(x, {.base = 0}); }), HasSubstr("base"));
}

TEST(InstanceNorm, NeedsItsChannels) {
  Module root;
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Training);
  const Tensor x = tracer.input("x", {DType::F32, Shape{2, 3, 4}});
  InstanceNorm1d norm(root, "norm", 4);
  EXPECT_THAT(messageOf([&] { norm(x); }), HasSubstr("4"));
  EXPECT_THAT(messageOf([&] { InstanceNorm1d(root, "none", 0); }), HasSubstr("channels"));
  ConvTranspose1d conv(root, "conv", 4, 2, 3);
  EXPECT_THAT(messageOf([&] { conv(x); }), HasSubstr("conv"));
  EXPECT_THAT(messageOf([&] { ConvTranspose1d(root, "c", 4, 3, 3, {.groups = 2}); }),
              HasSubstr("ConvTranspose1d"));
  EXPECT_THAT(messageOf([&] { Dropout2d(root, "d", 1.0); }), HasSubstr("Dropout2d"));
  EXPECT_THAT(messageOf([&] { PReLU(root, "p", 0); }), HasSubstr("slopes"));
}

}  // namespace
}  // namespace sluice::nn
