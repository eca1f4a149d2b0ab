// pipeline(): the same bits as models with blocks, what the outfeed gets, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Three layers in three stages; the targets pass through all of them.
struct StagedNet : nn::Module {
  nn::Linear a{*this, "a", 4, 6};
  nn::Linear b{*this, "b", 6, 6};
  nn::Linear c{*this, "c", 6, 4};

  Tensors first(const Tensors& in) { return {nn::tanh(a(in[0])), in[1]}; }
  Tensors second(const Tensors& in) { return {nn::tanh(b(in[0])), in[1]}; }
  Tensors third(const Tensors& in) {
    const nn::Tensor y = c(in[0]);
    return {nn::mseLoss(y, in[1]), y};
  }

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    Tensors values = {x, target};
    const auto in = [&](const char* name, auto stage) {
      const nn::Block block(name);
      values = (this->*stage)(values);
    };
    in("b0", &StagedNet::first);
    in("b1", &StagedNet::second);
    in("b2", &StagedNet::third);
    return {values[1], values[0]};
  }

  std::vector<PipelineStage> stages() {
    return {[this](const Tensors& in) { return first(in); },
            [this](const Tensors& in) { return second(in); },
            [this](const Tensors& in) { return third(in); }};
  }
  std::vector<std::uint64_t> weights() {
    return {a.weight.value().hash(), b.weight.value().hash(), c.weight.value().hash()};
  }
};

HostTensor rows(std::int64_t count, int seed) {
  HostTensor x(DType::F32, Shape{count, 4});
  for (std::int64_t i = 0; i < count * 4; ++i) {
    x.set(i, static_cast<double>((i * 7 + seed) % 13) / 13 - 0.4);
  }
  return x;
}

const optim::SGD kSgd(optim::SgdOptions{.lr = 0.25, .momentum = 0.75});

/// The first output is the loss.
OptimizerFunctionOutput firstIsLoss(const Tensors& outputs) {
  return {kSgd, outputs[0]};
}

/// An infeed of mini-batches of two rows.
data::IterablePtr pairs(const HostTensor& x, const HostTensor& y) {
  return data::batch(data::iterate(data::tensorDataset({x, y})), 2);
}

TEST(PipelineFunction, TrainsToTheBitsOfATrainingModelWithBlocks) {
  for (const int replicas : {1, 2}) {
    const HostTensor x = rows(2 * 6 * 2 * replicas, 0);
    const HostTensor y = rows(2 * 6 * 2 * replicas, 5);
    for (const auto& [schedule, text] : {std::pair(PipelineSchedule::Grouped, "grouped"),
                                         std::pair(PipelineSchedule::Interleaved, "interleaved"),
                                         std::pair(PipelineSchedule::Sequential, "sequential")}) {
      StagedNet plain;
      Options options = Options().deviceIterations(2).replicationFactor(replicas);
      options.setExecutionStrategy(
          PipelinedExecution{Stage("b0").device(0), Stage("b1").device(1), Stage("b2").device(2)}
              .schedule(text));
      options.training.gradientAccumulation(6)
          .accumulationAndReplicationReductionType(Reduction::Sum)
          .replicationReductionType(Reduction::Mean);
      auto model = trainingModel(plain, options, kSgd);
      model(x, y);

      StagedNet net;
      data::InfeedQueue infeed(pairs(x, y));
      data::OutfeedQueue outfeed;
      auto train = compile(net, Options().replicationFactor(replicas), [&](const Tensors&) {
        return pipeline(net.stages(),
                        {.gradientAccumulationCount = 6,
                         .repeatCount = 2,
                         .infeed = &infeed,
                         .outfeed = &outfeed,
                         .optimizerFunction = firstIsLoss,
                         .pipelineSchedule = schedule});
      });
      EXPECT_TRUE(train().empty());
      EXPECT_EQ(net.weights(), plain.weights()) << text;
      EXPECT_EQ(train.model().session().numDevices(), 3U);
      EXPECT_EQ(train.model().updates(), 2);
      const std::vector<HostTensor> out = outfeed.dequeue();
      EXPECT_EQ(out[0].shape(), replicas == 1 ? (Shape{12}) : (Shape{12, 2}));
      EXPECT_EQ(out[1].shape(), replicas == 1 ? (Shape{12, 2, 4}) : (Shape{12, 2, 2, 4}));
    }
  }
}

/// What three stages leave, and where their program keeps things.
struct StagedResult {
  std::vector<std::uint64_t> weights;
  std::size_t remote = 0;       ///< variables in remote memory
  std::size_t parts = 0;        ///< variables of which every replica keeps a part
  std::size_t activations = 0;  ///< bytes of them in remote memory
};

StagedResult trainStages(PipelineOptions options,
                         const Options& given,
                         std::int64_t accumulation = 4) {
  StagedNet net;
  data::InfeedQueue infeed(pairs(rows(32, 0), rows(32, 5)));
  options.gradientAccumulationCount = accumulation;
  options.repeatCount = 8 / accumulation;
  options.infeed = &infeed;
  options.optimizerFunction = firstIsLoss;
  auto run = compile(net, given, [&](const Tensors&) {
    std::vector<PipelineStage> stages = net.stages();
    stages[2] = [&](const Tensors& in) { return Tensors{net.third(in)[0]}; };
    return pipeline(stages, options);
  });
  run();
  StagedResult trained{.weights = net.weights(),
                       .activations = run.model().program().remote.transientBytes};
  for (const program::PlacedVariable& placed : run.model().session().state().plan().variables()) {
    trained.remote += placed.device == program::kRemote ? 1 : 0;
    trained.parts += placed.variable.split ? 1 : 0;
  }
  return trained;
}

TEST(PipelineFunction, OffloadsShardsAndRecomputesWithoutChangingABit) {
  const Options two = Options().replicationFactor(2);
  const StagedResult byDefault = trainStages({}, two);
  const StagedResult onChip = trainStages({.offloadWeightUpdateVariables = false}, two);
  EXPECT_EQ(onChip.weights, byDefault.weights);
  EXPECT_EQ(onChip.remote, 0U);
  EXPECT_EQ(byDefault.remote, 6U);  // a velocity of each weight and bias
  Options said = two;
  said.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(true));
  EXPECT_EQ(trainStages({}, said).remote, 0U);
  const StagedResult accumulators = trainStages({.offloadGradientAccumulationBuffers = true}, two);
  EXPECT_EQ(accumulators.weights, byDefault.weights);
  EXPECT_EQ(accumulators.remote, 12U);
  const StagedResult offloaded = trainStages({.offloadWeights = true}, two);
  EXPECT_EQ(offloaded.weights, byDefault.weights);
  EXPECT_EQ(offloaded.remote, 12U);
  for (const RecomputationMode mode : {RecomputationMode::RecomputeThenBackpropagate,
                                       RecomputationMode::RecomputeAndBackpropagateInterleaved}) {
    EXPECT_EQ(trainStages({.recomputationMode = mode}, two).weights, byDefault.weights);
  }
}

TEST(PipelineFunction, ReplicasShareStateAndWeights) {
  Options small = Options().replicationFactor(2);
  const TensorLocationSettings all =
      TensorLocationSettings().minElementsForReplicatedTensorSharding(2);
  small.tensorLocations.setOptimizerLocation(all).setWeightLocation(all);
  const StagedResult whole = trainStages({}, small);
  EXPECT_EQ(whole.parts, 0U);
  const StagedResult state = trainStages({.replicatedOptimizerStateSharding = true}, small);
  EXPECT_EQ(state.weights, whole.weights);
  EXPECT_EQ(state.parts, 6U);
  const StagedResult weights = trainStages({.replicatedWeightSharding = true}, small);
  EXPECT_EQ(weights.weights, whole.weights);
  EXPECT_EQ(weights.parts, 6U);
}

TEST(PipelineFunction, OffloadsActivations) {
  const StagedResult kept = trainStages({}, Options(), 8);
  EXPECT_EQ(kept.activations, 0U);
  const StagedResult offloaded = trainStages({.offloadActivations = true}, Options(), 8);
  EXPECT_EQ(offloaded.weights, kept.weights);
  EXPECT_GT(offloaded.activations, 0U);
}

/// Three stages of two layers each, so that a stage has an activation that it does not pass on.
struct DeepStages : nn::Module {
  nn::ModuleList<nn::Linear> layers{*this, "layers"};

  DeepStages() {
    for (int i = 0; i < 6; ++i) {
      layers.emplace(4, 4);
    }
  }
  Tensors stage(std::size_t number, const Tensors& in) {
    const nn::Tensor h = nn::tanh(layers[2 * number](in[0]));
    const nn::Tensor y = nn::tanh(layers[2 * number + 1](h));
    return number < 2 ? Tensors{y, in[1]} : Tensors{nn::mseLoss(y, in[1])};
  }
};

struct DeepStagesRun {
  std::vector<std::uint64_t> weights;
  std::vector<std::size_t> repeated;  ///< by stage: kernels that make a value again
};

DeepStagesRun trainDeepStages(RecomputationMode mode, const Options& given = Options()) {
  DeepStages net;
  data::InfeedQueue infeed(pairs(rows(12, 0), rows(12, 5)));
  auto run = compile(net, given, [&](const Tensors&) {
    return pipeline({[&](const Tensors& in) { return net.stage(0, in); },
                     [&](const Tensors& in) { return net.stage(1, in); },
                     [&](const Tensors& in) { return net.stage(2, in); }},
                    {.gradientAccumulationCount = 6,
                     .infeed = &infeed,
                     .optimizerFunction = firstIsLoss,
                     .recomputationMode = mode});
  });
  run();
  DeepStagesRun result{.weights = {}, .repeated = std::vector<std::size_t>(3)};
  for (const nn::Parameter* parameter : net.parameters()) {
    result.weights.push_back(parameter->value().hash());
  }
  for (const program::Segment& segment : run.model().program().segments) {
    for (const device::KernelCall& call : segment.calls) {
      result.repeated[static_cast<std::size_t>(segment.stage)] +=
          call.name.starts_with("again/") ? 1 : 0;
    }
  }
  return result;
}

TEST(PipelineFunction, RecomputesWhatItsModeSays) {
  const DeepStagesRun kept = trainDeepStages(RecomputationMode::Auto);
  EXPECT_THAT(kept.repeated, ElementsAre(0, 0, 0));
  // The first layer of each stage; the last stage runs its backward pass at once.
  const DeepStagesRun stages = trainDeepStages(RecomputationMode::RecomputeThenBackpropagate);
  EXPECT_THAT(stages.repeated, ElementsAre(1, 1, 0));
  EXPECT_EQ(stages.weights, kept.weights);
  // The last stage as well.
  const DeepStagesRun parts =
      trainDeepStages(RecomputationMode::RecomputeAndBackpropagateInterleaved);
  EXPECT_EQ(parts.repeated[0], 1U);
  EXPECT_EQ(parts.repeated[1], 1U);
  EXPECT_GE(parts.repeated[2], 1U);
  EXPECT_EQ(parts.weights, kept.weights);
  // Auto follows the options.
  EXPECT_THAT(
      trainDeepStages(RecomputationMode::Auto, Options().recomputation(Recomputation::Pipeline))
          .repeated,
      ElementsAre(1, 1, 0));
}

/// loss = (w1 w0 x - 1)^2 / 2, one weight per stage.
struct StagedWeights : nn::Module {
  nn::Parameter& w0 = addParameter("w0", {DType::F64, {1}}, ir::Initializer::constant(0.5));
  nn::Parameter& w1 = addParameter("w1", {DType::F64, {1}}, ir::Initializer::constant(0.5));
};

std::pair<double, double> trainStagedWeights(bool continuous) {
  StagedWeights net;
  data::InfeedQueue infeed(
      data::iterate(data::tensorDataset({HostTensor::of<double>({5, 1}, {1, 2, -1, 0.5, 1.5})})));
  auto run = compile(net, Options(), [&](const Tensors&) {
    return pipeline({[&](const Tensors& in) { return Tensors{in[0] * net.w0}; },
                     [&](const Tensors& in) {
                       const nn::Tensor error = in[0] * net.w1 - 1.0;
                       return Tensors{nn::sum(error * error) * 0.5};
                     }},
                    {.gradientAccumulationCount = 1,
                     .repeatCount = 5,
                     .infeed = &infeed,
                     .optimizerFunction =
                         [](const Tensors& out) {
                           return OptimizerFunctionOutput{optim::SGD(0.1), out[0]};
                         },
                     .continuousWeightUpdates = continuous});
  });
  run();
  EXPECT_EQ(run.model().updates(), 5);
  return {net.w0.value().at(0), net.w1.value().at(0)};
}

TEST(PipelineFunction, UpdatesContinuouslyOnlyIfAsked) {
  // The last row of the table of stale weights, and five steps of plain SGD.
  const auto [stale0, stale1] = trainStagedWeights(true);
  EXPECT_NEAR(stale0, 0.576630199992744, 1e-12);
  EXPECT_NEAR(stale1, 0.5882910164108814, 1e-12);
  const auto [exact0, exact1] = trainStagedWeights(false);
  EXPECT_NEAR(exact0, 0.5729418697279538, 1e-12);
  EXPECT_NEAR(exact1, 0.5729418697279538, 1e-12);
}

/// The loss is w x: the gradient is the element of the infeed.
struct StagedProduct : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
};

data::IterablePtr stagedNumbers(const std::vector<double>& values) {
  HostTensor column(DType::F32, Shape{static_cast<std::int64_t>(values.size()), 1});
  for (std::size_t i = 0; i < values.size(); ++i) {
    column.set(static_cast<std::int64_t>(i), values[i]);
  }
  return data::repeat(data::iterate(data::tensorDataset({column})));
}

struct ProductRun {
  double weight;
  std::vector<HostTensor> outfeed;
};

/// Stage 0 passes its values on, stage 1 multiplies by w; SGD with a rate of 1/8.
ProductRun trainProduct(PipelineOptions options,
                        const std::vector<double>& elements,
                        const Options& given = Options()) {
  StagedProduct net;
  data::InfeedQueue infeed(stagedNumbers(elements));
  data::OutfeedQueue outfeed;
  options.infeed = &infeed;
  options.outfeed = &outfeed;
  options.optimizerFunction = [](const Tensors& out) {
    return OptimizerFunctionOutput{optim::SGD(0.125), nn::sum(out[0])};
  };
  auto train = compile(net, given, [&](const Tensors&) {
    return pipeline({[](const Tensors& in) { return Tensors{in[0] * 2.0}; },
                     [&](const Tensors& in) { return Tensors{net.w * in[0]}; }},
                    options);
  });
  train();
  return {net.w.value().at(0), outfeed.dequeue()};
}

TEST(PipelineFunction, SumsOverMiniBatchesAndAveragesOverReplicas) {
  // Gradients are twice the elements: 2 + 4 + 6 + 8.
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 4}, {1, 2, 3, 4}).weight, 1 - 20.0 / 8);
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 4, .reductionMethod = Reduction::Mean},
                         {1, 2, 3, 4})
                .weight,
            1 - 5.0 / 8);
  // Replica 0 sums 2 + 6, replica 1 sums 4 + 8; the mean is 10, the sum 20.
  Options options = Options().replicationFactor(2);
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 2}, {1, 2, 3, 4}, options).weight,
            1 - 10.0 / 8);
  options.training.replicationReductionType(Reduction::Sum);
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 2}, {1, 2, 3, 4}, options).weight,
            1 - 20.0 / 8);
  // Each mini-batch is two elements, one after the other.
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 2,
                          .deviceMapping = {0, 0},
                          .pipelineSchedule = PipelineSchedule::Sequential,
                          .batchSerializationIterations = 2},
                         {1, 2, 3, 4})
                .weight,
            1 - 20.0 / 8);
}

TEST(PipelineFunction, FeedsTheOutfeedOutputsLossesOrSums) {
  const PipelineOptions options = {.gradientAccumulationCount = 2, .repeatCount = 2};
  // The weight is 1, then 1 - (2 + 4) / 8.
  const std::vector<HostTensor> all = trainProduct(options, {1, 2, 3, 4}).outfeed;
  EXPECT_EQ(all[0].shape(), (Shape{4, 1}));
  EXPECT_THAT(all[0].toDoubles(), ElementsAre(2, 4, 1.5, 2));
  PipelineOptions loss = options;
  loss.outfeedLoss = true;
  const std::vector<HostTensor> losses = trainProduct(loss, {1, 2, 3, 4}).outfeed;
  EXPECT_EQ(losses[0].shape(), Shape{4});
  EXPECT_THAT(losses[0].toDoubles(), ElementsAre(2, 4, 1.5, 2));
  PipelineOptions sum = options;
  sum.accumulateOutfeed = true;
  const std::vector<HostTensor> sums = trainProduct(sum, {1, 2, 3, 4}).outfeed;
  EXPECT_EQ(sums[0].shape(), (Shape{2, 1}));
  EXPECT_THAT(sums[0].toDoubles(), ElementsAre(6, 3.5));
}

/// Inference on the infeed 1, 2, 3, 4.
HostTensor infer(const std::vector<PipelineStage>& stages,
                 PipelineOptions options,
                 std::size_t* devices = nullptr) {
  data::InfeedQueue infeed(stagedNumbers({1, 2, 3, 4}));
  data::OutfeedQueue outfeed;
  options.infeed = &infeed;
  options.outfeed = &outfeed;
  options.gradientAccumulationCount = 4;
  auto run = compile(Options(), [&](const Tensors& inputs) {
    options.inputs = inputs;
    return pipeline(stages, options);
  });
  HostTensor ten = HostTensor::full({DType::F32, Shape{1}}, 10);
  run(ten);
  if (devices != nullptr) {
    *devices = run.model().session().numDevices();
  }
  return outfeed.dequeue()[0];
}

TEST(PipelineFunction, ThreadsValuesFromStageToStage) {
  // Stage 0 gets the input, then the infeed; stage 2 exactly what stage 1 returned.
  const std::vector<PipelineStage> stages = {[](const Tensors& in) {
                                               return Tensors{in[0] + in[1], in[1], in[0] * 1.0};
                                             },
                                             [](const Tensors& in) {
                                               EXPECT_EQ(in.size(), 3U);
                                               return Tensors{in[0] * in[1] - in[2]};
                                             },
                                             [](const Tensors& in) {
                                               EXPECT_EQ(in.size(), 1U);
                                               return Tensors{in[0] * 2.0};
                                             }};
  std::size_t devices = 0;
  EXPECT_THAT(infer(stages, {}, &devices).toDoubles(), ElementsAre(2, 28, 58, 92));
  EXPECT_EQ(devices, 3U);
  EXPECT_THAT(infer(stages, {.deviceMapping = {1, 0, 1}}, &devices).toDoubles(),
              ElementsAre(2, 28, 58, 92));
  EXPECT_EQ(devices, 2U);
}

/// The largest distance between the stagedNumbers of two devices between which activations or
/// gradients travel.
std::int32_t longestPath(const std::vector<StageDevices>& mapping) {
  StagedNet net;
  const data::DatasetPtr samples = data::tensorDataset({rows(8, 1), rows(8, 2)});
  data::InfeedQueue infeed(data::iterate(data::batch(samples, 2)));
  auto train = compile(net, Options(), [&](const Tensors&) {
    return pipeline(net.stages(),
                    {.gradientAccumulationCount = 4,
                     .infeed = &infeed,
                     .optimizerFunction =
                         [](const Tensors& out) {
                           return OptimizerFunctionOutput{kSgd, out[0]};
                         },
                     .deviceMapping = mapping});
  });
  train();
  std::int32_t longest = 0;
  const program::Program& program = train.model().program();
  for (const program::Transfer& transfer : program.transfers) {
    if (!transfer.oncePerRound) {
      const std::int32_t from = program.buffer(transfer.from).device;
      longest = std::max(longest, std::abs(from - program.buffer(transfer.to).device));
    }
  }
  return longest;
}

TEST(PipelineFunction, PutsConsecutiveStagesOnNeighbouringDevicesByDefault) {
  EXPECT_EQ(longestPath({}), 1);
  EXPECT_EQ(longestPath({0, 1, 2}), 1);
  EXPECT_EQ(longestPath({0, 2, 1}), 2);
}

TEST(PipelineFunction, RunsConcurrentStagesOnTheSameArguments) {
  const nn::Body add = [](const Tensors& in) { return Tensors{in[0] + in[1]}; };
  const nn::Body subtract = [](const Tensors& in) { return Tensors{in[0] - in[1], in[0] * 3.0}; };
  const std::vector<PipelineStage> stages = {[](const Tensors& in) {
                                               return Tensors{in[0] + 0.5, in[1] * 1.0};
                                             },
                                             {add, subtract},
                                             [](const Tensors& in) {
                                               EXPECT_EQ(in.size(), 3U);
                                               return Tensors{in[0] * 100.0 + in[1] * 10.0 + in[2]};
                                             }};
  // For 1: 11.5 and 9.5 and 31.5.
  std::size_t devices = 0;
  EXPECT_EQ(infer(stages, {}, &devices).at(0), 1150 + 95 + 31.5);
  EXPECT_EQ(devices, 4U);
  EXPECT_EQ(infer(stages, {.deviceMapping = {0, {1, 2}, 0}}, &devices).at(0), 1150 + 95 + 31.5);
  EXPECT_EQ(devices, 3U);
  const std::vector<StageDevices> mapping = {0, StageDevices(std::vector{1, 0}), 1};
  EXPECT_EQ(infer(stages, {.deviceMapping = mapping}, &devices).at(0), 1150 + 95 + 31.5);
  EXPECT_EQ(devices, 2U);
  EXPECT_EQ(PipelineStage(std::vector{add, subtract}).functions().size(), 2U);
}

TEST(PipelineFunction, RefusesWhatDoesNotGoTogether) {
  const PipelineStage stage = [](const Tensors& in) { return Tensors{in[0] + 1.0}; };
  const auto refusal = [&](const std::vector<PipelineStage>& stages,
                           PipelineOptions options,
                           const Options& given = Options()) {
    StagedProduct net;
    auto run = compile(net, given, [&](const Tensors& inputs) {
      options.inputs = inputs;
      return pipeline(stages, options);
    });
    return messageOf([&] { run(HostTensor::full({DType::F32, Shape{1}}, 1)); });
  };
  data::OutfeedQueue all;
  data::OutfeedQueue last(data::OutfeedMode::Last);
  const PipelineOptions four = {.gradientAccumulationCount = 4, .outfeed = &all};
  EXPECT_THAT(refusal({stage}, four), HasSubstr("at least two stages"));
  EXPECT_THAT(refusal({stage, stage}, {}), HasSubstr("gradientAccumulationCount"));
  PipelineOptions options = four;
  options.repeatCount = 0;
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("repeatCount"));
  options = four;
  options.deviceMapping = {0};
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("1 entries for 2 stages"));
  options.deviceMapping = {0, {1, 2}};
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("1 functions and 2 devices"));
  options.deviceMapping = {0, -1};
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("-1"));
  options = four;
  options.outfeedLoss = true;
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("outfeedLoss needs"));
  options = four;
  options.accumulateOutfeed = true;
  options.outfeed = &last;
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("mode All"));
  options = four;
  options.batchSerializationIterations = 2;
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("Sequential schedule"));
  options = four;
  options.pipelineSchedule = PipelineSchedule::Interleaved;
  options.recomputationMode = RecomputationMode::RecomputeAndBackpropagateInterleaved;
  EXPECT_THAT(refusal({stage, stage}, options), HasSubstr("not with Interleaved"));
  EXPECT_THAT(refusal({stage, stage}, {.gradientAccumulationCount = 4}),
              HasSubstr("nothing comes out"));
  EXPECT_THAT(refusal({stage, stage}, four, Options().setExecutionStrategy(ShardedExecution())),
              HasSubstr("ShardedExecution"));
  EXPECT_THAT(messageOf([&] { pipeline({stage, stage}, four); }), HasSubstr("compile()"));
}

TEST(PipelineFunction, RefusesWrappedOptimizersAndOtherLosses) {
  const optim::SGD sgd(0.1);
  const auto refusal = [&](const OptimizerFunction& function) {
    StagedProduct net;
    auto run = compile(net, Options(), [&](const Tensors& inputs) {
      return pipeline(
          {[](const Tensors& in) { return Tensors{in[0] * 2.0}; },
           [&](const Tensors& in) { return Tensors{net.w * in[0]}; }},
          {.gradientAccumulationCount = 4, .inputs = inputs, .optimizerFunction = function});
    });
    return messageOf([&] { run(HostTensor::full({DType::F32, Shape{1}}, 1)); });
  };
  const auto wrapped = [&](const UpdateRule& rule) {
    return refusal([rule](const Tensors& out) {
      return OptimizerFunctionOutput{rule, nn::sum(out[0])};
    });
  };
  EXPECT_THAT(wrapped(GradientAccumulationOptimizerV2(sgd, 2)),
              HasSubstr("GradientAccumulationOptimizerV2 is for repeat()"));
  EXPECT_THAT(wrapped(GradientAccumulationOptimizer(sgd, 2)),
              HasSubstr("GradientAccumulationOptimizer is for repeat()"));
  EXPECT_THAT(wrapped(CrossReplicaOptimizer(sgd)),
              HasSubstr("CrossReplicaOptimizer is for repeat()"));
  EXPECT_THAT(refusal([&](const Tensors& out) {
                return OptimizerFunctionOutput{sgd, out[0]};
              }),
              AllOf(HasSubstr("float scalar"), HasSubstr("f32[1]")));
}

TEST(PipelineFunction, WantsMultiplesUnderTheRulesOfTheIpu) {
  const Options rules = Options().enforceIpuRules(true);
  EXPECT_THAT(messageOf([&] { trainProduct({.gradientAccumulationCount = 6}, {1}, rules); }),
              HasSubstr("a multiple of 4, got 6"));
  EXPECT_EQ(trainProduct({.gradientAccumulationCount = 4}, {1}, rules).weight, 1 - 8.0 / 8);
}

TEST(PipelineFunction, PutsSeveralStagesOnADeviceUnlessTheRulesForbidIt) {
  const HostTensor x = rows(12, 0);
  const HostTensor y = rows(12, 5);
  const auto train = [&](const std::vector<StageDevices>& mapping, bool rules) {
    StagedNet net;
    data::InfeedQueue infeed(pairs(x, y));
    data::OutfeedQueue outfeed;
    auto run = compile(net, Options().enforceIpuRules(rules), [&](const Tensors&) {
      return pipeline(net.stages(),
                      {.gradientAccumulationCount = 6,
                       .infeed = &infeed,
                       .outfeed = &outfeed,
                       .optimizerFunction = firstIsLoss,
                       .deviceMapping = mapping,
                       .pipelineSchedule = PipelineSchedule::Interleaved,
                       .gradientAccumulationDtype = optim::AccumulationType(
                           [](const ir::Variable& weight) { return weight.type.dtype; })});
    });
    run();
    return net.weights();
  };
  EXPECT_EQ(train({0, 1, 0}, false), train({}, false));
  EXPECT_THAT(messageOf([&] { train({0, 1, 0}, true); }), HasSubstr("more than one on device 0"));
}

}  // namespace
}  // namespace sluice
