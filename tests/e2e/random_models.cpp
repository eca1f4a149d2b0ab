#include "tests/e2e/random_models.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "sluice/api/session.h"

namespace sluice::testing {

using nn::Tensor;
using parallel::PipelinedExecution;
using parallel::ShardedExecution;
using parallel::Stage;

namespace {

constexpr std::int64_t kFeatures = 6;
constexpr std::int64_t kClasses = 3;

Tensor activate(std::int64_t which, const Tensor& x) {
  switch (which) {
    case 0:
      return nn::relu(x);
    case 1:
      return nn::tanh(x);
    case 2:
      return nn::gelu(x);
    case 3:
      return nn::sigmoid(x) * 0.5;
    default:
      return x;
  }
}

std::string blockName(std::int64_t block) {
  return "b" + std::to_string(block);
}

}  // namespace

/// What a forward pass has made so far.
struct RandomNet::Trace {
  Tensor x;
  Tensor extra;
  std::vector<Tensor> values;
  std::vector<Tensor> views;
  std::vector<Tensor> outputs;
};

RandomNet::RandomNet(std::uint64_t seed, std::int64_t exchanging) : replicas_(exchanging) {
  Dice dice(seed * 7919 + 1);
  blocks_ = dice.between(2, 5);
  width_ = dice.oneIn(2) ? 8 : 12;
  rows_ = dice.between(2, 5);
  first_ = std::make_unique<nn::Linear>(*this, "first", kFeatures, width_);
  skip_ = std::make_unique<nn::Linear>(*this, "skip", kFeatures, width_);
  extra_ = std::make_unique<nn::Linear>(*this, "extra", kFeatures, width_);
  last_ = std::make_unique<nn::Linear>(*this, "last", width_, kClasses);
  for (std::int64_t i = dice.between(1, 2); i > 0; --i) {
    shared_.push_back(std::make_unique<nn::Linear>(
        *this, "shared" + std::to_string(shared_.size()), width_, width_));
  }
  for (std::int64_t block = 0; block < blocks_; ++block) {
    for (std::int64_t count = dice.between(1, 4); count > 0; --count) {
      Step step{.kind = static_cast<Kind>(dice.below(8)),
                .block = block,
                .other = static_cast<std::size_t>(dice.below(1000)),
                .activation = dice.below(6),
                .output = dice.oneIn(6)};
      if (step.kind == Kind::Layer || step.kind == Kind::Late) {
        step.layer = addLayer(dice);
      }
      steps_.push_back(step);
    }
  }
  if (replicas_ > 1) {
    Dice places(seed * 86028121 + 11);
    addExchanges(places);
  }
}

/// The other steps stay those of the seed.
void RandomNet::addExchanges(Dice& dice) {
  for (std::int64_t count = dice.between(1, 3); count > 0; --count) {
    const auto at = static_cast<std::size_t>(dice.below(std::ssize(steps_)));
    const Step step{.kind = Kind::Exchange,
                    .block = steps_[at].block,
                    .other = static_cast<std::size_t>(dice.below(1000)),
                    .output = dice.oneIn(4)};
    steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(at), step);
  }
}

std::size_t RandomNet::addLayer(Dice& dice) {
  const std::string name = "layer" + std::to_string(layers_.size());
  switch (dice.below(5)) {
    case 0:
      layers_.push_back(std::make_unique<nn::BatchNorm>(*this, name, width_));
      break;
    case 1:
      layers_.push_back(std::make_unique<nn::LayerNorm>(*this, name, width_));
      break;
    case 2:
      layers_.push_back(std::make_unique<nn::Dropout>(*this, name, 0.25));
      break;
    default:
      layers_.push_back(std::make_unique<nn::Linear>(
          *this, name, width_, width_, nn::LinearOptions{.bias = dice.oneIn(2)}));
      if (dice.oneIn(4)) {
        layers_.back()->freeze();
      }
  }
  return layers_.size() - 1;
}

std::vector<TensorType> RandomNet::inputs() const {
  return {{DType::F32, Shape{rows_, kFeatures}},
          {DType::F32, Shape{rows_, kFeatures}},
          {DType::I64, Shape{rows_}}};
}

/// Of the shape of y.
Tensor RandomNet::exchanged(std::size_t which, const Tensor& y) const {
  switch (which % 3) {
    case 0:
      return nn::allReduce(y);
    case 1:
      return nn::mean(nn::allGather(y, replicas_), {0});
    default: {
      // Parts of the sum, gathered without what was padded.
      const Tensor parts = nn::allGather(nn::reduceScatter(y, replicas_), replicas_);
      const Tensor all = nn::reshape(parts, {parts.shape().elements()});
      return nn::reshape(nn::slice(all, 0, 0, rows_ * width_), {rows_, width_});
    }
  }
}

Tensor RandomNet::apply(const Step& step, const Tensor& y, Trace& trace) {
  const Tensor& earlier = trace.values[step.other % trace.values.size()];
  switch (step.kind) {
    case Kind::Layer:
      return activate(step.activation, (*layers_[step.layer])(y));
    case Kind::Shared:
      return y + activate(step.activation, (*shared_[step.other % shared_.size()])(y));
    case Kind::Residual:
      return y + earlier;
    case Kind::ReadInput:
      return y + (step.other % 2 == 0 ? (*skip_)(trace.x) : (*extra_)(trace.extra));
    case Kind::View: {
      // The first one makes the view; later ones, maybe in other blocks, read the same.
      const Tensor weight(shared_[0]->weight);
      const bool fresh = trace.views.empty() || step.other % 3 == 0;
      if (fresh) {
        trace.views.push_back(nn::reshape(weight, {1, width_ * width_}));
      }
      const Tensor& row = fresh ? trace.views.back() : trace.views[step.other % trace.views.size()];
      return y * (1.0 + nn::slice(row, 1, 0, width_));
    }
    case Kind::Constant: {
      HostTensor values(DType::F32, Shape{width_ / 2, 2});
      for (std::int64_t i = 0; i < width_; ++i) {
        values.set(i, 0.125 * static_cast<double>(i % 5));
      }
      trace.views.push_back(nn::reshape(nn::constant(values), {1, width_}));
      return y + trace.views.back();
    }
    case Kind::Detached:
      return y * nn::sigmoid(nn::detach(earlier));
    case Kind::Late: {
      Tensor late;
      {
        const nn::Block block(blockName(step.block > 0 ? step.block - 1 : 0));
        late = activate(step.activation, (*extra_)(trace.extra));
      }
      return y + (*layers_[step.layer])(late);
    }
    case Kind::Exchange:
      return y + 0.25 * exchanged(step.other, step.other % 2 == 0 ? y : earlier);
  }
  return y;
}

std::vector<Tensor> RandomNet::forward(Tensor x, Tensor extra, Tensor labels) {
  Trace trace{.x = x, .extra = extra, .values = {}, .views = {}, .outputs = {}};
  Tensor y;
  std::size_t next = 0;
  for (std::int64_t b = 0; b < blocks_; ++b) {
    const nn::Block block(blockName(b));
    if (b == 0) {
      y = nn::tanh((*first_)(x));
      trace.values.push_back(y);
    }
    for (; next < steps_.size() && steps_[next].block == b; ++next) {
      y = apply(steps_[next], y, trace);
      trace.values.push_back(y);
      if (steps_[next].output) {
        trace.outputs.push_back(y);
      }
    }
    if (b + 1 == blocks_) {
      y = (*last_)(y);
      trace.outputs.push_back(y);
      trace.outputs.push_back(nn::crossEntropy(y, labels));
    }
  }
  return trace.outputs;
}

RandomTraining::RandomTraining(std::uint64_t seed) {
  Dice dice(seed * 104729 + 2);
  switch (dice.below(4)) {
    case 0:
      optimizer = std::make_unique<optim::SGD>(0.05);
      break;
    case 1:
      optimizer = std::make_unique<optim::SGD>(
          optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weightDecay = 0.01, .nesterov = true});
      break;
    case 2:
      optimizer = std::make_unique<optim::Adam>(0.01);
      break;
    default:
      optimizer = std::make_unique<optim::AdamW>(0.01);
  }
  if (dice.oneIn(2)) {
    optimizer->setMaxGradNorm(0.5);
  }
  accumulation = static_cast<std::int32_t>(dice.between(1, 7));
  reduction = dice.oneIn(2) ? Reduction::Mean : Reduction::Sum;
  validates = dice.oneIn(3);
  validatesFirst = dice.oneIn(2);
  validatesOnOneDevice = dice.oneIn(2);
}

Options oneDeviceOptions(const RandomNet& net, const RandomTraining& training) {
  std::vector<std::string> blocks;
  for (std::int64_t b = 0; b < net.numBlocks(); ++b) {
    blocks.push_back(blockName(b));
  }
  Options options;
  options.training.gradientAccumulation(training.accumulation);
  options.training.accumulationReduction(training.reduction);
  options.setExecutionStrategy(PipelinedExecution({Stage(blocks)}));
  return options;
}

Options randomOptions(std::uint64_t seed, const RandomNet& net, const RandomTraining& training) {
  Dice dice(seed * 15485863 + 3);
  std::vector<Stage> stages;
  std::vector<std::string> blocks;
  for (std::int64_t b = 0; b < net.numBlocks(); ++b) {
    blocks.push_back(blockName(b));
    if (b + 1 == net.numBlocks() || !dice.oneIn(4)) {
      stages.emplace_back(blocks);
      blocks.clear();
    }
  }
  const auto devices = dice.between(1, static_cast<std::int64_t>(stages.size()));
  const bool plain = dice.oneIn(2);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].device(plain ? static_cast<std::int64_t>(s) : dice.below(devices + 1));
  }
  Options options = oneDeviceOptions(net, training);
  constexpr std::int64_t kKinds = 9;
  const std::int64_t kind = dice.below(kKinds + 1);
  if (kind == kKinds) {
    options.setExecutionStrategy(ShardedExecution(stages));
  } else {
    options.setExecutionStrategy(
        PipelinedExecution(stages).schedule(static_cast<parallel::PipelineKind>(kind)));
  }
  options.deviceIterations(dice.between(1, 3));
  options.threads(dice.between(1, 2));
  options.fusion(dice.oneIn(2));
  return options;
}

namespace {

TensorLocationSettings randomLocation(Dice& dice) {
  TensorLocationSettings settings;
  const std::int64_t where = dice.below(3);
  settings.useOnChipStorage(where == 0 ? std::nullopt : std::optional(where == 1));
  return settings.minElementsForOffChip(dice.oneIn(3) ? 8 : 2);
}

/// The stages of a strategy as phases, some of them of several.
std::vector<Phase> randomPhases(Dice& dice, std::span<const Stage> stages) {
  std::vector<Phase> phases;
  std::vector<Stage> open;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    open.push_back(stages[s]);
    if (s + 1 == stages.size() || !dice.oneIn(4)) {
      phases.emplace_back(open);
      open.clear();
    }
  }
  return phases;
}

}  // namespace

namespace {

/// Without phases, activations leave only stages that hold more than two micro-batches. With GPipe
/// all stages do.
void letActivationsLeave(Options& options, std::int32_t accumulation) {
  const std::span<const Stage> given = options.executionStrategy().stages();
  const std::vector<Stage> stages(given.begin(), given.end());
  const bool several = std::ranges::adjacent_find(stages, [](const Stage& a, const Stage& b) {
                         return a.device() != b.device();
                       }) != stages.end();
  if (several && accumulation > 2) {
    options.setExecutionStrategy(PipelinedExecution(stages).schedule("gpipe"));
  } else {
    options.tensorLocations.setActivationLocation(TensorLocationSettings());
  }
}

}  // namespace

Options randomStreaming(std::uint64_t seed, const RandomNet& net, const RandomTraining& training) {
  Options options = randomOptions(seed, net, training);
  Dice dice(seed * 32452843 + 5);
  const auto liveness = static_cast<Liveness>(dice.below(4));
  const auto order = static_cast<PhaseOrder>(dice.below(3));
  const bool separate = dice.oneIn(4);
  const std::int64_t kind = dice.below(4);
  const std::vector<Phase> phases = dice.oneIn(5)
                                        ? std::vector<Phase>{Phase::automatic(dice.between(1, 5))}
                                        : randomPhases(dice, options.executionStrategy().stages());
  Dice turns(seed * 15485863 + 7);
  const auto configure = [&](auto execution) {
    execution.setTensorsLiveness(liveness)
        .order(order)
        .useSeparateBackwardPhase(separate)
        .io(static_cast<IoSchedule>(turns.below(3)))
        .schedule(static_cast<PhaseSchedule>(turns.below(4)));
    options.setExecutionStrategy(execution);
  };
  if (kind < 2) {
    configure(SerialPhasedExecution(phases));
  } else if (kind == 2) {
    configure(ParallelPhasedExecution(phases));
  }
  options.tensorLocations.setActivationLocation(randomLocation(dice))
      .setWeightLocation(randomLocation(dice))
      .setOptimizerLocation(randomLocation(dice))
      .setAccumulatorLocation(randomLocation(dice));
  if (kind == 3 && options.tensorLocations.plan().activation.onChip == false) {
    letActivationsLeave(options, training.accumulation);
  }
  options.recomputation(static_cast<Recomputation>(dice.below(6)));
  return options;
}

namespace {

/// Optimizers are copied by their own clone(); this hands one to trainingModel.
struct Rule {
  const optim::Optimizer& optimizer;
  std::unique_ptr<optim::Optimizer> clone() const { return optimizer.clone(); }
};

void addOutputs(Bits& bits,
                const std::string& prefix,
                const std::vector<HostTensor>& outputs,
                std::int64_t first,
                std::int64_t count) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const std::int64_t size = outputs[o].shape().elements() / count;
    const HostTensor perMicroBatch = outputs[o].reshaped(Shape{count, size});
    for (std::int64_t m = 0; m < count; ++m) {
      bits[fmt::format("{} {} of micro-batch {}", prefix, o, first + m)] =
          perMicroBatch.rows(m, 1).hash();
    }
  }
}

}  // namespace

Bits runRandomNet(std::uint64_t seed, const Options& given, std::int64_t updates, bool exchanges) {
  RandomNet net(seed, exchanges ? given.replicationFactor() : 1);
  const RandomTraining training(seed);
  Options options = given;
  options.outputMode(OutputMode::All);
  auto model = trainingModel(net, options, Rule{*training.optimizer});
  Options alone = options;
  alone.training.gradientAccumulation(1);
  // Running statistics stay on the device of the first program, where training must update them.
  if (training.validatesOnOneDevice && (!training.validatesFirst || net.buffers().empty())) {
    alone.setExecutionStrategy(oneDeviceOptions(net, training).executionStrategy());
  }
  auto validation = inferenceModel(net, alone);
  Bits bits;
  std::int64_t microBatch = 0;
  std::int64_t validated = 0;
  const auto validate = [&] {
    const std::int64_t count = validation.microBatchesPerStep() * options.replicationFactor();
    addOutputs(bits,
               "validated",
               validation.run(makeInputs(net.inputs(), 500 + validated, count)),
               validated,
               count);
    validated += count;
  };
  if (training.validates && training.validatesFirst) {
    validate();
  }
  while (model.updates() < updates) {
    const std::int64_t count = model.microBatchesPerStep() * options.replicationFactor();
    addOutputs(
        bits, "output", model.run(makeInputs(net.inputs(), microBatch, count)), microBatch, count);
    microBatch += count;
  }
  if (training.validates) {
    validate();
  }
  bits.merge(bitsOf(model.session()));
  return bits;
}

namespace {

/// Tensors of either class in parts, wherever they are.
void shareBetweenReplicas(std::uint64_t seed, Options& options) {
  Dice dice(seed * 49979687 + 7);
  options.replicationFactor(dice.between(2, 3));
  const auto shared = [&](const TensorLocationSettings& settings) {
    TensorLocationSettings parts = settings;
    return parts.useReplicatedTensorSharding(!dice.oneIn(3))
        .minElementsForReplicatedTensorSharding(dice.oneIn(2) ? 1 : 20);
  };
  TensorLocationOptions& at = options.tensorLocations;
  at.setWeightLocation(shared(at.weight())).setOptimizerLocation(shared(at.optimizer()));
}

}  // namespace

std::string compareRandomNet(std::uint64_t seed, Variety variety) {
  const RandomNet net(seed);
  const RandomTraining training(seed);
  const bool streams = variety != Variety::Devices;
  Options options =
      streams ? randomStreaming(seed, net, training) : randomOptions(seed, net, training);
  if (variety == Variety::Replicas || variety == Variety::Exchanges) {
    shareBetweenReplicas(seed, options);
  }
  const bool exchanges = variety == Variety::Exchanges;
  // Outputs are compared by the number of their micro-batch, so both make calls of equal size.
  const Options one = oneDeviceOptions(net, training)
                          .deviceIterations(options.deviceIterations())
                          .replicationFactor(options.replicationFactor());
  std::string different;
  try {
    const Bits expected = runRandomNet(seed, one, 3, exchanges);
    const Bits got = runRandomNet(seed, options, 3, exchanges);
    for (const auto& [name, hash] : expected) {
      if (streams && name.ends_with(".accumulator")) {
        continue;  // begins anew in every round
      }
      const auto other = got.find(name);
      if (other == got.end() || other->second != hash) {
        different += name + "; ";
      }
    }
    different += expected.size() == got.size() ? "" : "the number of values; ";
  } catch (const std::exception& error) {
    different = error.what();
  }
  return different.empty() ? ""
                           : fmt::format("seed {}: {}\n{} blocks, optimizer {}, {}\n{}",
                                         seed,
                                         different,
                                         net.numBlocks(),
                                         training.optimizer->name(),
                                         options.executionStrategy().str(),
                                         options.str());
}

}  // namespace sluice::testing
