// Weights in parts whose first value is a tensor: every route by which a model gets one, with the
// bits of replicas that keep whole weights.
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/onnx/files.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"

namespace sluice {
namespace {

using parallel::PipelinedExecution;
using parallel::SerialPhasedExecution;
using parallel::Stage;
using testing::Bits;
using testing::makeInputs;
using testing::ResidualMlp;

/// Whether replicas keep parts of the weights.
enum class Parts : bool { No, Yes };

Options withParts(Options options, std::int64_t replicas, Parts parts) {
  options.replicationFactor(replicas);
  options.training.gradientAccumulation(2);
  if (parts == Parts::Yes) {
    options.tensorLocations.setWeightLocation(TensorLocationSettings()
                                                  .useReplicatedTensorSharding(true)
                                                  .minElementsForReplicatedTensorSharding(1));
  }
  return options;
}

std::vector<Strategy> shardedStrategies() {
  return {Strategy(PipelinedExecution{Stage("b0", "b1"), "b2", Stage("b3", "b4")}),
          Strategy(SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"})};
}

/// Other values than the initialisers give, exact in every format.
HostTensor steps(const TensorType& type) {
  HostTensor value(type);
  for (std::int64_t i = 0; i < type.shape.elements(); ++i) {
    value.set(i, static_cast<double>((i * 7) % 31 - 15) / 64);
  }
  return value;
}

Bits weightsOf(Session& session) {
  Bits bits;
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    if (placed.variable.role == ir::VariableRole::Weight) {
      bits[placed.variable.name] = session.read(placed.variable.name).hash();
    }
  }
  return bits;
}

/// Each replica has its elements of the value, and zeros after the last one.
void expectParts(Session& session, const std::string& name, const HostTensor& whole) {
  const Session::Values values = session.copyValues();
  std::int64_t element = 0;
  for (const auto& replica : values) {
    const HostTensor& part = replica.at(name);
    EXPECT_EQ(part.shape().elements(),
              ir::partOf(whole.shape().elements(), static_cast<std::int64_t>(values.size())));
    for (std::int64_t i = 0; i < part.shape().elements(); ++i, ++element) {
      EXPECT_EQ(part.at(i), element < whole.shape().elements() ? whole.at(element) : 0.0) << name;
    }
  }
}

/// Trains from what `start` gives the module or the model before the first compile.
template <class Start>
Bits trainedFrom(const Options& options, const Start& start, Parts parts) {
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  start(net, model);
  const std::int64_t count = model.microBatchesPerStep() * options.replicationFactor();
  model.compile(makeInputs(ResidualMlp::inputs(), 0, count));
  if (parts == Parts::Yes) {
    for (const nn::Parameter* parameter : net.parameters()) {
      expectParts(model.session(), parameter->fullName(), steps(parameter->variable().type));
    }
  }
  for (std::int64_t call = 0; call < 2; ++call) {
    model.run(makeInputs(ResidualMlp::inputs(), call * count, count));
  }
  return weightsOf(model.session());
}

template <class Start>
void expectSameFrom(const Start& start) {
  for (const std::int64_t replicas : {2, 3}) {
    for (const Strategy& strategy : shardedStrategies()) {
      SCOPED_TRACE(strategy.str() + " replicas " + std::to_string(replicas));
      const Options base = Options().setExecutionStrategy(strategy);
      EXPECT_EQ(testing::difference(
                    trainedFrom(withParts(base, replicas, Parts::No), start, Parts::No),
                    trainedFrom(withParts(base, replicas, Parts::Yes), start, Parts::Yes)),
                "");
    }
  }
}

TEST(ShardedValues, OfParametersAreSetBeforeTheFirstCompile) {
  expectSameFrom([](ResidualMlp& net, const auto& /*model*/) {
    for (nn::Parameter* parameter : net.parameters()) {
      parameter->setValue(steps(parameter->variable().type));
    }
  });
}

TEST(ShardedValues, OfAStateDictAreLoadedBeforeTheFirstCompile) {
  expectSameFrom([](ResidualMlp& net, auto& model) {
    NamedTensors state;
    for (const nn::Parameter* parameter : net.parameters()) {
      state.emplace(parameter->fullName(), steps(parameter->variable().type));
    }
    model.loadStateDict(state);
  });
}

/// One model after the other, by the same module.
Bits trainedTwice(const Options& options) {
  ResidualMlp net;
  const std::int64_t count = 2 * options.replicationFactor();
  for (std::int64_t call = 0; call < 2; ++call) {
    auto model = trainingModel(net, options, optim::SGD(0.05));
    model.run(makeInputs(ResidualMlp::inputs(), call * count, count));
    model.destroy();
  }
  Bits bits;
  for (const nn::Parameter* parameter : net.parameters()) {
    bits[parameter->fullName()] = parameter->value().hash();
  }
  return bits;
}

TEST(ShardedValues, StayWithAModuleThatIsWrappedAgain) {
  for (const std::int64_t replicas : {2, 3}) {
    for (const Strategy& strategy : shardedStrategies()) {
      SCOPED_TRACE(strategy.str() + " replicas " + std::to_string(replicas));
      const Options base = Options().setExecutionStrategy(strategy);
      EXPECT_EQ(testing::difference(trainedTwice(withParts(base, replicas, Parts::No)),
                                    trainedTwice(withParts(base, replicas, Parts::Yes))),
                "");
    }
  }
}

/// Two layers whose weights have 15 and 10 elements; `place` makes the scope of a layer.
template <class Place>
TensorId addShardedLayers(Builder& b, const Place& place) {
  TensorId x = b.addInputTensor({DType::F32, Shape{2, 3}}, "x");
  const std::vector<Shape> shapes = {Shape{3, 5}, Shape{5, 2}};
  for (std::size_t layer = 0; layer < shapes.size(); ++layer) {
    [[maybe_unused]] const auto scope = place(b, static_cast<std::int64_t>(layer));
    const TensorId w = b.addInitializedInputTensor(steps({DType::F32, shapes[layer]}),
                                                   "w" + std::to_string(layer));
    x = b.aiOnnx().tanh(b.aiOnnx().matmul(x, w));
    if (layer == 1) {
      b.addOutputTensor(x);
      x = b.aiGraphcore().identityloss(b.aiOnnx().mul(x, x));
    }
  }
  return x;
}

Bits trainedBuilder(Builder& b, const TensorId& loss, const Options& options, Parts parts) {
  auto model = trainingModel(b, loss, options, optim::AdamW(0.01));
  const HostTensor x =
      steps({DType::F32, Shape{4 * options.replicationFactor(), 3}});  // two micro-batches each
  model.compile(std::vector{x});
  if (parts == Parts::Yes) {
    expectParts(model.session(), "w0", steps({DType::F32, Shape{3, 5}}));
    expectParts(model.session(), "w1", steps({DType::F32, Shape{5, 2}}));
  }
  model.run({x});
  model.run({x});
  return weightsOf(model.session());
}

template <class Place>
void expectSameOfBuilder(const Options& base, const Place& place) {
  for (const std::int64_t replicas : {2, 3}) {
    const auto run = [&](Parts parts) {
      Builder b;
      const TensorId loss = addShardedLayers(b, place);
      return trainedBuilder(b, loss, withParts(base, replicas, parts), parts);
    };
    EXPECT_EQ(testing::difference(run(Parts::No), run(Parts::Yes)), "");
  }
}

TEST(ShardedValues, OfABuildersInitializedTensors) {
  expectSameOfBuilder(Options().virtualGraphMode(VirtualGraphMode::Manual).enablePipelining(true),
                      [](Builder& b, std::int64_t layer) { return b.virtualGraph(layer); });
  expectSameOfBuilder(
      Options().virtualGraphMode(VirtualGraphMode::ExecutionPhases).executionPhases(2),
      [](Builder& b, std::int64_t layer) { return b.executionPhase(layer); });
}

TEST(ShardedValues, OfTheInitializersOfAnOnnxFile) {
  Builder written;
  written.addOutputTensor(addShardedLayers(written, [](Builder&, std::int64_t) { return 0; }));
  const std::string bytes = written.getModelProto();
  const Options pipelined = Options()
                                .virtualGraphMode(VirtualGraphMode::Auto)
                                .enablePipelining(true)
                                .devicesPerReplica(2);
  const Options phased =
      Options().virtualGraphMode(VirtualGraphMode::ExecutionPhases).executionPhases(2);
  for (const std::int64_t replicas : {2, 3}) {
    for (const Options& base : {pipelined, phased}) {
      const auto run = [&](Parts parts) {
        Builder b(onnx::importModelBytes(std::as_bytes(std::span(bytes))));
        const TensorId loss = b.graph().outputs().back().name;
        return trainedBuilder(b, loss, withParts(base, replicas, parts), parts);
      };
      EXPECT_EQ(testing::difference(run(Parts::No), run(Parts::Yes)), "");
    }
  }
}

}  // namespace
}  // namespace sluice
