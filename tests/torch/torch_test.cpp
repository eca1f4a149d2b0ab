// Layers, losses, optimizers and a training run give what PyTorch gives. Gradients are compared
// through one step of SGD with learning rate 1; the input of a layer is a parameter, so its
// gradient is among them.
#include <functional>

#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"
#include "tests/torch/peer.h"

namespace sluice::testing {
namespace {

using nlohmann::json;

// Both sides compute in float32 and add in another order.
constexpr double kOneStep = 5e-5;
constexpr double kManySteps = 5e-4;

const json kGradientStep = {{"rule", "SGD"}, {"lr", 1.0}};

/// Something applied to a parameter x.
struct Probe : nn::Module {
  explicit Probe(const Shape& shape)
      : x(addParameter("x",
                       {DType::F32, shape},
                       ir::Initializer::of(randomTensor(1, {DType::F32, shape}, -1, 1)))) {}
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor c) {
    const nn::Tensor y = apply(x);
    return {y, nn::sum(y * c)};
  }

  nn::Parameter& x;
  std::function<nn::Tensor(const nn::Tensor&)> apply;
};

/// Cross-entropy of a parameter.
struct LossProbe : Probe {
  using Probe::Probe;
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor labels) {
    return {nn::logSoftmax(x, 1), nn::crossEntropy(x, labels, options)};
  }
  nn::CrossEntropyOptions options;
};

struct Linear : nn::Module {
  nn::Linear fc{*this, "fc", 6, 3};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    const nn::Tensor y = fc(x);
    return {y, nn::mseLoss(y, target)};
  }
};

Tensors stateOf(const nn::Module& net) {
  Tensors state;
  for (const auto& list : {net.parameters(), net.buffers()}) {
    for (const nn::Parameter* parameter : list) {
      state.emplace(parameter->fullName(), parameter->value().clone());
    }
  }
  return state;
}

/// Biases and scales that start as zeros and ones would hide mistakes.
void randomize(const nn::Module& net) {
  std::uint64_t seed = 100;
  for (nn::Parameter* parameter : net.parameters()) {
    if (parameter->type().shape.rank() == 1) {
      parameter->setValue(randomTensor(++seed, parameter->type(), 0.2, 1.0));
    }
  }
}

struct Run {
  std::vector<std::pair<std::string, HostTensor>> inputs;  ///< in the order of forward
  json model;
  json optimizer = kGradientStep;
  int steps = 1;
  double tolerance = kOneStep;
};

/// Trains both from the same state and compares outputs, losses and the state at the end.
void expectLikeTorch(const nn::Module& net, Model& model, const Run& run) {
  const PeerJob job{.model = run.model,
                    .optimizer = run.optimizer,
                    .steps = run.steps,
                    .state = stateOf(net),
                    .inputs = {run.inputs.begin(), run.inputs.end()}};
  const std::optional<PeerResult> torch = runInTorch(job);
  if (!torch) {
    GTEST_SKIP() << "PyTorch cannot be imported by /usr/bin/python3: install python3-torch";
  }
  std::vector<HostTensor> inputs;
  for (const auto& [name, tensor] : run.inputs) {
    inputs.push_back(tensor);
  }
  for (int step = 0; step < run.steps; ++step) {
    const std::vector<HostTensor> outputs = model.run(inputs);
    if (step == 0) {
      ASSERT_EQ(outputs[0].shape(), torch->output.shape());
      EXPECT_LE(relativeDifference(outputs[0], torch->output), run.tolerance) << "output";
    }
    EXPECT_NEAR(outputs[1].at(0),
                torch->losses.at(step),
                run.tolerance * std::max(1.0, std::abs(torch->losses.at(step))))
        << "loss of step " << step;
  }
  for (const auto& [name, value] : stateOf(net)) {
    EXPECT_FALSE(run.optimizer == kGradientStep && net.find(name)->trainable() &&
                 value.sameBits(job.state.at(name)))
        << name << " has no gradient";
    EXPECT_LE(relativeDifference(value, torch->state.at(name)), run.tolerance) << name;
  }
}

/// `weights` is the output's shape.
void expectLayerLikeTorch(Probe& probe, const Shape& weights, const json& model) {
  randomize(probe);
  auto training = trainingModel(probe, Options(), optim::SGD(1.0));
  expectLikeTorch(
      probe,
      training,
      {.inputs = {{"c", randomTensor(2, {DType::F32, weights}, -1, 1)}}, .model = model});
}

json layer(const char* kind, json args, json kwargs = json::object()) {
  return {{"layer", {{"kind", kind}, {"args", args}, {"kwargs", kwargs}}}};
}

json function(const char* name, json kwargs) {
  return {{"function", {{"name", name}, {"kwargs", kwargs}}}};
}

TEST(LikeTorch, ConvolutionWithGroupsDilationPaddingAndStride) {
  Probe probe(Shape{3, 8, 13, 11});
  nn::Conv2d conv(probe,
                  "layer",
                  8,
                  12,
                  {3, 2},
                  {.stride = {2, 1}, .padding = {2, 1}, .dilation = {2, 3}, .groups = 4});
  probe.apply = [&](const nn::Tensor& x) { return conv(x); };
  expectLayerLikeTorch(
      probe,
      Shape{3, 12, 7, 10},
      layer("Conv2d",
            {8, 12, {3, 2}},
            {{"stride", {2, 1}}, {"padding", {2, 1}}, {"dilation", {2, 3}}, {"groups", 4}}));
}

TEST(LikeTorch, ConvolutionOfOneAxisAndOfThree) {
  Probe line(Shape{2, 3, 20});
  nn::Conv1d conv1(line, "layer", 3, 5, 4, {.padding = {2}});
  line.apply = [&](const nn::Tensor& x) { return conv1(x); };
  expectLayerLikeTorch(line, Shape{2, 5, 21}, layer("Conv1d", {3, 5, 4}, {{"padding", 2}}));
  Probe cube(Shape{2, 3, 6, 5, 7});
  nn::Conv3d conv3(cube, "layer", 3, 4, 3, {.padding = {1}, .bias = false});
  cube.apply = [&](const nn::Tensor& x) { return conv3(x); };
  expectLayerLikeTorch(
      cube, Shape{2, 4, 6, 5, 7}, layer("Conv3d", {3, 4, 3}, {{"padding", 1}, {"bias", false}}));
}

TEST(LikeTorch, Pooling) {
  Probe largest(Shape{2, 5, 11, 9});
  largest.apply = [](const nn::Tensor& x) { return nn::maxPool2d(x, 3, 2, 1); };
  expectLayerLikeTorch(largest, Shape{2, 5, 6, 5}, layer("MaxPool2d", {3, 2, 1}));
  Probe mean(Shape{2, 5, 11, 9});
  mean.apply = [](const nn::Tensor& x) { return nn::avgPool2d(x, 3, 2, 1); };
  expectLayerLikeTorch(mean, Shape{2, 5, 6, 5}, layer("AvgPool2d", {3, 2, 1}));
}

TEST(LikeTorch, BatchNormWithItsRunningStatistics) {
  Probe probe(Shape{4, 6, 5, 3});
  nn::BatchNorm2d norm(probe, "layer", 6, {.eps = 1e-3, .momentum = 0.3});
  probe.apply = [&](const nn::Tensor& x) { return norm(x); };
  expectLayerLikeTorch(
      probe, Shape{4, 6, 5, 3}, layer("BatchNorm2d", {6}, {{"eps", 1e-3}, {"momentum", 0.3}}));
}

TEST(LikeTorch, LayerNormAndGroupNorm) {
  Probe rows(Shape{4, 3, 5, 8});
  nn::LayerNorm layerNorm(rows, "layer", nn::Extents{5, 8});
  rows.apply = [&](const nn::Tensor& x) { return layerNorm(x); };
  expectLayerLikeTorch(rows, Shape{4, 3, 5, 8}, layer("LayerNorm", {{5, 8}}));
  Probe groups(Shape{4, 6, 5, 3});
  nn::GroupNorm groupNorm(groups, "layer", 3, 6);
  groups.apply = [&](const nn::Tensor& x) { return groupNorm(x); };
  expectLayerLikeTorch(groups, Shape{4, 6, 5, 3}, layer("GroupNorm", {3, 6}));
}

TEST(LikeTorch, Softmax) {
  Probe probe(Shape{7, 13, 4});
  probe.apply = [](const nn::Tensor& x) { return nn::softmax(x, 1); };
  expectLayerLikeTorch(probe, Shape{7, 13, 4}, function("softmax", {{"dim", 1}}));
}

TEST(LikeTorch, GeluByErfAndByTanh) {
  for (const char* approximate : {"none", "tanh"}) {
    Probe probe(Shape{9, 31});
    probe.apply = [&](const nn::Tensor& x) { return nn::gelu(x, approximate); };
    expectLayerLikeTorch(probe, Shape{9, 31}, function("gelu", {{"approximate", approximate}}));
  }
}

TEST(LikeTorch, CrossEntropyWithSmoothingAndAnIgnoredLabel) {
  LossProbe probe(Shape{12, 10});
  probe.options = {.ignoreIndex = 4, .labelSmoothing = 0.15};
  HostTensor labels = randomTensor(5, {DType::I64, Shape{12}}, 0, 10);
  labels.set(3, 4);
  auto training = trainingModel(probe, Options(), optim::SGD(1.0));
  expectLikeTorch(
      probe,
      training,
      {.inputs = {{"labels", labels}},
       .model = {{"loss", {{"kwargs", {{"ignore_index", 4}, {"label_smoothing", 0.15}}}}}}});
}

TEST(LikeTorch, TwoStepsOfAnLstmCell) {
  Probe probe(Shape{5, 7});
  nn::LstmCell cell(probe, "layer", 7, 6);
  probe.apply = [&](const nn::Tensor& x) {
    const nn::LstmState state = cell(x, cell(x, cell.zeroState(5)));
    return nn::concat({state.h, state.c}, 1);
  };
  expectLayerLikeTorch(probe, Shape{5, 12}, layer("LSTMCell", {7, 6}));
}

TEST(LikeTorch, CausalMultiHeadAttention) {
  Probe probe(Shape{3, 9, 16});
  nn::MultiHeadAttention attention(probe, "layer", 16, 4, {.causal = true});
  probe.apply = [&](const nn::Tensor& x) { return attention(x); };
  expectLayerLikeTorch(
      probe, Shape{3, 9, 16}, layer("MultiheadAttention", {16, 4}, {{"batch_first", true}}));
}

template <class Rule>
void expectTenStepsLikeTorch(const Rule& rule, const json& optimizer) {
  Linear net;
  randomize(net);
  auto training = trainingModel(net, Options(), rule);
  expectLikeTorch(net,
                  training,
                  {.inputs = {{"images", randomTensor(3, {DType::F32, {8, 6}}, -1, 1)},
                              {"targets", randomTensor(4, {DType::F32, {8, 3}}, -1, 1)}},
                   .model = {{"network", "linear"}},
                   .optimizer = optimizer,
                   .steps = 10,
                   .tolerance = kOneStep});
}

TEST(LikeTorch, TenStepsOfSgd) {
  expectTenStepsLikeTorch(optim::SGD({.lr = 0.1, .weightDecay = 0.05}),
                          {{"rule", "SGD"}, {"lr", 0.1}, {"weight_decay", 0.05}});
  expectTenStepsLikeTorch(
      optim::SGD({.lr = 0.05, .momentum = 0.9, .weightDecay = 0.05, .nesterov = true}),
      {{"rule", "SGD"},
       {"lr", 0.05},
       {"momentum", 0.9},
       {"weight_decay", 0.05},
       {"nesterov", true}});
}

TEST(LikeTorch, TenStepsOfAdamAndAdamW) {
  const json hypers = {{"lr", 0.01}, {"betas", {0.8, 0.95}}, {"eps", 1e-6}, {"weight_decay", 0.1}};
  const optim::AdamOptions options{
      .lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weightDecay = 0.1};
  json adam = hypers;
  adam["rule"] = "Adam";
  expectTenStepsLikeTorch(optim::Adam(options), adam);
  json adamW = hypers;
  adamW["rule"] = "AdamW";
  expectTenStepsLikeTorch(optim::AdamW(options), adamW);
}

TEST(LikeTorch, TenStepsOfSgdWithDampeningWhereAsked) {
  expectTenStepsLikeTorch(optim::SGD({.lr = 0.05,
                                      .momentum = 0.9,
                                      .dampening = 0.3,
                                      .weightDecay = 0.05,
                                      .torchCompatible = true}),
                          {{"rule", "SGD"},
                           {"lr", 0.05},
                           {"momentum", 0.9},
                           {"dampening", 0.3},
                           {"weight_decay", 0.05}});
  expectTenStepsLikeTorch(optim::SGD({.lr = 0.05, .dampening = 0.3, .torchCompatible = true}),
                          {{"rule", "SGD"}, {"lr", 0.05}, {"dampening", 0.3}});
}

TEST(LikeTorch, TenStepsOfCombinedSgd) {
  expectTenStepsLikeTorch(
      optim::SGD({.lr = 0.05,
                  .momentum = 0.9,
                  .weightDecay = 0.05,
                  .useCombinedAccum = true,
                  .velocityScaling = 8,
                  .lossScaling = 128}),
      {{"rule", "SGD"}, {"lr", 0.05}, {"momentum", 0.9}, {"weight_decay", 0.05}});
}

TEST(LikeTorch, TenStepsOfRmsProp) {
  for (const bool centered : {false, true}) {
    for (const double momentum : {0.0, 0.6}) {
      expectTenStepsLikeTorch(optim::RMSprop({.lr = 0.01,
                                              .alpha = 0.9,
                                              .eps = 1e-4,
                                              .weightDecay = 0.05,
                                              .momentum = momentum,
                                              .centered = centered}),
                              {{"rule", "RMSprop"},
                               {"lr", 0.01},
                               {"alpha", 0.9},
                               {"eps", 1e-4},
                               {"weight_decay", 0.05},
                               {"momentum", momentum},
                               {"centered", centered}});
    }
  }
}

TEST(LikeTorch, FiveUpdatesOfTheMnistNetwork) {
  MnistNetwork net;
  auto training = trainingModel(net, Options(), optim::AdamW(1e-3));
  expectLikeTorch(net,
                  training,
                  {.inputs = {{"images", randomTensor(6, {DType::F32, {40, 1, 28, 28}}, -1, 1)},
                              {"labels", randomTensor(7, {DType::I64, {40}}, 0, 10)}},
                   .model = {{"network", "mnist"}},
                   .optimizer = {{"rule", "AdamW"}, {"lr", 1e-3}},
                   .steps = 5,
                   .tolerance = kManySteps});
}

}  // namespace
}  // namespace sluice::testing
