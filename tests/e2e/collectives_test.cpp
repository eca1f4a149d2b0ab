// Exchanges between replicas in the forward and backward pass of a micro-batch: values and
// gradients worked out by hand, and the same bits under every strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/networks.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;

HostTensor rows(std::int64_t count, const std::vector<float>& values) {
  return HostTensor::of<float>(Shape{count, std::ssize(values) / count}, values);
}

/// What every replica gets when replica r is given row r.
using Make = std::function<TensorId(Builder&, const TensorId&)>;
std::vector<double> perReplica(std::int64_t replicas, const HostTensor& x, const Make& make) {
  Builder b;
  const TensorId id = b.addInputTensor({x.dtype(), Shape{1, x.shape()[1]}}, "x");
  b.addOutputTensor(make(b, id));
  auto model = inferenceModel(b, Options().replicationFactor(replicas));
  return model.run({x})[0].toDoubles();
}

std::vector<double> reduced(std::int64_t replicas, const HostTensor& x, CollectiveOperator op) {
  return perReplica(replicas, x, [&](Builder& b, const TensorId& id) {
    return b.aiGraphcore().replicatedallreduce(id, op, replicas);
  });
}

TEST(Collectives, ReduceOverTwoAndThreeReplicas) {
  using enum CollectiveOperator;
  const HostTensor two = rows(2, {1, -2, 3, 5});
  EXPECT_THAT(reduced(2, two, Add), ElementsAre(4, 3, 4, 3));
  EXPECT_THAT(reduced(2, two, Mean), ElementsAre(2, 1.5, 2, 1.5));
  EXPECT_THAT(reduced(2, two, Mul), ElementsAre(3, -10, 3, -10));
  EXPECT_THAT(reduced(2, two, Min), ElementsAre(1, -2, 1, -2));
  EXPECT_THAT(reduced(2, two, Max), ElementsAre(3, 5, 3, 5));
  EXPECT_THAT(reduced(2, two, SquareAdd), ElementsAre(10, 29, 10, 29));
  EXPECT_THAT(reduced(2, two, Local), ElementsAre(1, -2, 3, 5));
  const HostTensor three = rows(3, {1, -2, 3, 5, 8, 6});
  EXPECT_THAT(reduced(3, three, Add), ElementsAre(12, 9, 12, 9, 12, 9));
  EXPECT_THAT(reduced(3, three, Mean), ElementsAre(4, 3, 4, 3, 4, 3));
  EXPECT_THAT(reduced(3, three, Max), ElementsAre(8, 6, 8, 6, 8, 6));
  // Sums need not know how many there are.
  EXPECT_THAT(perReplica(3,
                         three,
                         [](Builder& b, const TensorId& x) {
                           return b.aiGraphcore().replicatedallreduce(x);
                         }),
              ElementsAre(12, 9, 12, 9, 12, 9));
}

TEST(Collectives, ReduceBools) {
  using enum CollectiveOperator;
  HostTensor flags(DType::Bool, Shape{2, 3});
  for (const std::int64_t i : {0, 1, 3}) {
    flags.set(i, 1);
  }
  EXPECT_THAT(reduced(2, flags, LogicalAnd), ElementsAre(1, 0, 0, 1, 0, 0));
  EXPECT_THAT(reduced(2, flags, LogicalOr), ElementsAre(1, 1, 0, 1, 1, 0));
}

TEST(Collectives, GatherEveryReplicasElementsInOrder) {
  for (const std::int64_t replicas : {2, 3}) {
    std::vector<float> values;
    std::vector<double> expected;
    for (std::int64_t i = 0; i < 2 * replicas; ++i) {
      values.push_back(static_cast<float>(i));
    }
    for (std::int64_t r = 0; r < replicas; ++r) {
      expected.insert(expected.end(), values.begin(), values.end());
    }
    EXPECT_EQ(perReplica(replicas,
                         rows(replicas, values),
                         [&](Builder& b, const TensorId& x) {
                           return b.aiGraphcore().replicatedallgather(x, replicas);
                         }),
              expected);
  }
}

TEST(Collectives, ScatterPartsOfTheSumPaddedWithZeros) {
  const auto scattered = [](std::int64_t replicas, const HostTensor& x, CollectiveOperator op) {
    return perReplica(replicas, x, [&](Builder& b, const TensorId& id) {
      return b.aiGraphcore().replicatedreducescatter(id, replicas, op);
    });
  };
  using enum CollectiveOperator;
  EXPECT_THAT(scattered(2, rows(2, {1, 2, 3, 10, 20, 30}), Add), ElementsAre(11, 22, 33, 0));
  EXPECT_THAT(scattered(2, rows(2, {1, 2, 3, 10, 20, 30}), Mean), ElementsAre(5.5, 11, 16.5, 0));
  EXPECT_THAT(scattered(3, rows(3, {1, 2, 3, 4, 5, 6, 7, 8, 9}), Add), ElementsAre(12, 15, 18));
  EXPECT_THAT(scattered(3, rows(3, {1, 2, 3, 4, 5, 6, 7, 8, 9}), SquareAdd),
              ElementsAre(1 + 16 + 49, 4 + 25 + 64, 9 + 36 + 81));
}

TEST(Collectives, OfOneReplicaAreTheIdentity) {
  using enum CollectiveOperator;
  const HostTensor x = rows(1, {1, -2, 3});
  for (const CollectiveOperator op : {Add, Mean, Mul, Min, Max, Local}) {
    EXPECT_THAT(reduced(1, x, op), ElementsAre(1, -2, 3));
  }
  const auto gathered = [](Builder& b, const TensorId& id) {
    return b.aiGraphcore().replicatedallgather(id, 1);
  };
  EXPECT_THAT(perReplica(1, x, gathered), ElementsAre(1, -2, 3));
  const auto scattered = [](Builder& b, const TensorId& id) {
    return b.aiGraphcore().replicatedreducescatter(id, 1);
  };
  EXPECT_THAT(perReplica(1, x, scattered), ElementsAre(1, -2, 3));
}

TEST(Collectives, AreRefusedForAnotherNumberOfReplicas) {
  const HostTensor x = rows(3, {1, 2, 3, 4, 5, 6});
  const std::string message = messageOf<InvalidArgument>([&] {
    perReplica(3, x, [](Builder& b, const TensorId& id) {
      return b.aiGraphcore().replicatedallgather(id, 2);
    });
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("built for 2 replicas"), HasSubstr("replicationFactor is 3")));
}

/// Multiplies x by w, exchanges the products, and weighs what a replica gets with its row c:
/// everything is linear, so the gradient of w is a sum of products of the inputs.
struct Weighed : nn::Module {
  enum class Kind : std::uint8_t { Reduce, Gather, Scatter };
  Weighed(Kind exchange, std::int64_t count) : kind(exchange), replicas(count) {}

  nn::Parameter& w = addParameter("w", {DType::F32, {}}, ir::Initializer::constant(1));
  Kind kind;
  std::int64_t replicas;

  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x, const nn::Tensor& c) {
    const nn::Tensor product = x * w;
    const nn::Tensor got = kind == Kind::Reduce   ? nn::allReduce(product)
                           : kind == Kind::Gather ? nn::allGather(product, replicas)
                                                  : nn::reduceScatter(product, replicas);
    return {got, nn::sum(nn::reshape(got, {-1}) * nn::reshape(c, {-1}))};
  }
};

/// The gradient of w of the sum over all replicas.
double gradientOf(Weighed::Kind kind, const HostTensor& x, const HostTensor& c) {
  const std::int64_t replicas = x.shape()[0];
  Weighed net(kind, replicas);
  Options options;
  options.replicationFactor(replicas);
  options.training.accumulationAndReplicationReductionType(Reduction::Sum);
  auto model = trainingModel(net, options, optim::SGD(1));
  model.run(std::vector<HostTensor>{x, c});
  for (std::int64_t r = 1; r < replicas; ++r) {
    EXPECT_EQ(model.session().read("w", static_cast<std::size_t>(r)).hash(),
              model.session().read("w").hash());
  }
  return 1 - model.session().read("w").at(0);
}

TEST(Collectives, HaveTheGradientsOfTheSumOverAllReplicas) {
  using enum Weighed::Kind;
  const HostTensor x = rows(3, {1, 2, 3, 4, 5, 6});
  // (1 + 3 + 5) (7 + 0 - 1) + (2 + 4 + 6) (2 + 1 + 3)
  EXPECT_EQ(gradientOf(Reduce, x, rows(3, {7, 2, 0, 1, -1, 3})), 9 * 6 + 12 * 6);
  // Every replica weighs all six products: the columns of c sum to 3, 3, 2, 0, 1 and 4.
  EXPECT_EQ(gradientOf(Gather, x, rows(3, {1, 2, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 2})),
            1 * 3 + 2 * 3 + 3 * 2 + 4 * 0 + 5 * 1 + 6 * 4);
  // Parts of one of the sums 9 and 12: the third replica has only padding.
  EXPECT_EQ(gradientOf(Scatter, x, rows(3, {2, 5, 100})), 2 * 9 + 5 * 12);
  const HostTensor pair = rows(2, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(gradientOf(Reduce, pair, rows(2, {1, 0, 2, 3, 1, 1})), 5 * 4 + 7 * 1 + 9 * 3);
  EXPECT_EQ(gradientOf(Scatter, pair, rows(2, {1, 2, 3, 50})), 5 * 1 + 7 * 2 + 9 * 3);
}

/// Every exchange in the middle of blocks, two in a row, one of a weight, one whose result only the
/// backward pass and an output need, and one that another block reads.
struct Exchanging : nn::Module {
  explicit Exchanging(std::int64_t count) : replicas(count) {}

  std::int64_t replicas;
  nn::Linear first{*this, "first", 6, 16};
  nn::Linear middle{*this, "middle", 16, 16};
  nn::Linear last{*this, "last", 16, 3};
  nn::Parameter& scale = addParameter("scale", {DType::F32, {16}}, ir::Initializer::constant(0.5));

  std::vector<nn::Tensor> forward(nn::Tensor x, const nn::Tensor& labels) {
    nn::Tensor total;
    {
      const nn::Block block("b0");
      x = nn::tanh(first(x));
      total = nn::allReduce(nn::mean(x, {0}));
      x = x + total;
    }
    {
      const nn::Block block("b1");
      x = nn::relu(middle(x)) * nn::allReduce(scale);
      const nn::Tensor all = nn::mean(nn::allGather(nn::mean(x, {0}), replicas), {0});
      x = nn::tanh(x - nn::allReduce(all * all));
    }
    {
      const nn::Block block("b2");
      x = x * total;
    }
    const nn::Block block("b3");
    const nn::Tensor part = nn::reduceScatter(x, replicas);
    const nn::Tensor loss = nn::crossEntropy(last(x), labels) + nn::mean(part * part);
    return {nn::allReduce(loss), loss};
  }
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 6}}, {DType::I64, Shape{4}}};
  }
};

Bits trainExchanging(const Options& options) {
  constexpr std::int64_t kUpdates = 3;
  Exchanging net(options.replicationFactor());
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::int64_t perCall = model.microBatchesPerStep() * options.replicationFactor();
  Bits bits;
  for (std::int64_t call = 0; model.updates() < kUpdates; ++call) {
    const std::vector<HostTensor> results =
        model.run(makeInputs(Exchanging::inputs(), call * perCall, perCall));
    for (std::size_t i = 0; i < results.size(); ++i) {
      bits["output " + std::to_string(i)] = results[i].hash();
    }
  }
  Session& session = model.session();
  for (const program::PlacedVariable& placed : session.state().plan().variables()) {
    const std::string& name = placed.variable.name;
    if (placed.variable.role == ir::VariableRole::Accumulator) {
      continue;
    }
    bits[name] = session.read(name).hash();
    for (std::size_t r = 1; r < session.numReplicas(); ++r) {
      EXPECT_EQ(session.read(name, r).hash(), bits[name]) << name << " of replica " << r;
    }
  }
  return bits;
}

Options exchanging(std::int64_t replicas, std::int64_t accumulation) {
  Options options;
  options.replicationFactor(replicas).verifyPrograms(true);
  options.training.gradientAccumulation(accumulation);
  options.setExecutionStrategy(PipelinedExecution({Stage("b0", "b1", "b2", "b3")}));
  options.outputMode(OutputMode::All);
  return options;
}

class Exchanges
    : public ::testing::TestWithParam<std::tuple<std::int64_t /*replicas*/, std::int64_t>> {
 protected:
  Options options() const { return exchanging(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(Exchanges, GiveTheSameBitsInPipelines) {
  const Bits expected = trainExchanging(options());
  for (const int threads : {1, 2, 3}) {
    EXPECT_EQ(trainExchanging(options().threads(threads)), expected) << threads;
  }
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe", "popart"}) {
    Options other = options();
    other.setExecutionStrategy(
        PipelinedExecution{"b0", "b1", Stage("b2", "b3")}.schedule(schedule));
    EXPECT_EQ(trainExchanging(other), expected) << schedule;
    Options again = other.clone();
    again.recomputation(Recomputation::Pipeline);
    EXPECT_EQ(trainExchanging(again), expected) << schedule;
  }
}

TEST_P(Exchanges, GiveTheSameBitsInShardsAndAtBarriers) {
  const Bits expected = trainExchanging(options());
  Options sharded = options();
  sharded.setExecutionStrategy(ShardedExecution{Stage("b0", "b1"), Stage("b2", "b3")});
  EXPECT_EQ(trainExchanging(sharded), expected);
  Options barriers = options();
  barriers.setExecutionStrategy(PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3")});
  EXPECT_EQ(trainExchanging(barriers.barriers(true)), expected);
}

TEST_P(Exchanges, GiveTheSameBitsWithTensorsInRemoteMemory) {
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  const Bits expected = trainExchanging(options());
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
    Options other = options();
    other.setExecutionStrategy(
        PipelinedExecution{"b0", "b1", Stage("b2", "b3")}.schedule(schedule));
    other.tensorLocations.setOptimizerLocation(off).setWeightLocation(off);
    other.tensorLocations.setAccumulatorLocation(off);
    if (std::get<1>(GetParam()) > 2) {  // the activations of fewer cannot leave
      other.tensorLocations.setActivationLocation(off);
    }
    EXPECT_EQ(trainExchanging(other), expected) << schedule;
  }
}

TEST_P(Exchanges, GiveTheSameBitsInPhases) {
  const Bits expected = trainExchanging(options());
  const std::vector<Phase> phases = {"b0", "b1", "b2", "b3"};
  for (const Liveness liveness : {Liveness::AlwaysLive,
                                  Liveness::OffChipAfterFwd,
                                  Liveness::OffChipAfterFwdNoOverlap,
                                  Liveness::OffChipAfterEachPhase}) {
    for (const PhaseOrder order : {PhaseOrder::PhaseMajor, PhaseOrder::MicroBatchMajor}) {
      for (const Strategy& strategy :
           {Strategy(SerialPhasedExecution(phases).setTensorsLiveness(liveness).order(order)),
            Strategy(ParallelPhasedExecution(phases).setTensorsLiveness(liveness).order(order))}) {
        Options phased = options();
        phased.setExecutionStrategy(strategy);
        EXPECT_EQ(trainExchanging(phased), expected) << phased.str();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas,
                         Exchanges,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(1, 4)));

}  // namespace
}  // namespace sluice
