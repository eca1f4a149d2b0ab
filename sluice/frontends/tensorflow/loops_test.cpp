// Loops on the devices: what a function with its loop computes, returns, enqueues and trains.
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostTensor vectorOf(const std::vector<double>& values) {
  HostTensor tensor(DType::F32, Shape{static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set(static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

/// Elements f32[1] with these values, without end.
data::IterablePtr numbers(const std::vector<double>& values) {
  HostTensor column(DType::F32, Shape{static_cast<std::int64_t>(values.size()), 1});
  for (std::size_t i = 0; i < values.size(); ++i) {
    column.set(static_cast<std::int64_t>(i), values[i]);
  }
  return data::repeat(data::iterate(data::tensorDataset({column})));
}

/// Its loss is w x, so that the gradient is the element of the infeed.
struct LoopProduct : nn::Module {
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  nn::Tensor loss(const nn::Tensor& x) { return nn::sum(w * x); }
};

double trained(const UpdateRule& rule,
               std::int64_t iterations,
               const std::vector<double>& elements,
               int replicas = 1) {
  LoopProduct net;
  data::InfeedQueue infeed(numbers(elements));
  auto train = compile(net, Options().replicationFactor(replicas), [&](const Tensors&) {
    return repeat(
        iterations,
        [&](const Tensors& in) {
          minimize(rule, net.loss(in[0]));
          return Tensors{};
        },
        {},
        &infeed);
  });
  train();
  EXPECT_EQ(infeed.dequeued(), iterations * replicas);
  return net.w.value().at(0);
}

TEST(Repeat, RunsTheTrivialExample) {
  const HostTensor ones = HostTensor::full({DType::F32, Shape{1, 800}}, 1);
  for (const data::OutfeedMode mode : {data::OutfeedMode::All, data::OutfeedMode::Last}) {
    data::InfeedQueue infeed(data::repeat(data::iterate(data::tensorDataset({ones, ones}))));
    data::OutfeedQueue outfeed(mode);
    auto run = compile(Options(), [&](const Tensors&) {
      return repeat(
          10,
          [&](const Tensors& in) {
            enqueue(outfeed, {{"d1", in[0] + in[1]}, {"d2", in[0] - in[1]}});
            return Tensors{};
          },
          {},
          &infeed);
    });
    EXPECT_TRUE(run().empty());
    const auto results = outfeed.dequeueNamed();
    const Shape shape = mode == data::OutfeedMode::All ? Shape{10, 800} : Shape{800};
    EXPECT_EQ(results.at("d1").hash(), HostTensor::full({DType::F32, shape}, 2).hash());
    EXPECT_EQ(results.at("d2").hash(), HostTensor::full({DType::F32, shape}, 0).hash());
    EXPECT_EQ(results.at("d1").shape(), shape);
  }
}

TEST(Repeat, CarriesValuesAndReturnsTheLastOnes) {
  // Fibonacci: a value may become the other one of the next iteration. The third is not carried.
  auto run = compile(Options(), [](const Tensors& inputs) {
    const Tensors last = repeat(10,
                                [](const Tensors& in) {
                                  return Tensors{in[1], in[0] + in[1]};
                                },
                                {inputs[0], inputs[1]});
    return Tensors{last[1], last[0], inputs[2]};
  });
  for (const double first : {1.0, 2.0}) {
    const auto results = run(vectorOf({0, 0}), vectorOf({1, first}), vectorOf({7}));
    ASSERT_EQ(results.size(), 3U);
    EXPECT_THAT(results[0].toDoubles(), ElementsAre(89, 89 * first));
    EXPECT_THAT(results[1].toDoubles(), ElementsAre(55, 55 * first));
    EXPECT_THAT(results[2].toDoubles(), ElementsAre(7));
  }
}

TEST(Repeat, GivesTheBodyCarriedValuesThenTheInfeed) {
  data::InfeedQueue infeed(numbers({1, 2, 3, 4}));
  data::OutfeedQueue outfeed;
  auto run = compile(Options(), [&](const Tensors& inputs) {
    return repeat(
        3,
        [&](const Tensors& in) {
          enqueue(outfeed, Tensors{in[0], in[1]});  // before this iteration's update
          return Tensors{in[0] * 10 + in[1]};
        },
        inputs,
        &infeed);
  });
  EXPECT_EQ(run(vectorOf({5}))[0].at(0), 5123);
  std::vector<HostTensor> seen = outfeed.dequeue();
  EXPECT_THAT(seen[0].toDoubles(), ElementsAre(5, 51, 512));
  EXPECT_THAT(seen[1].toDoubles(), ElementsAre(1, 2, 3));
  // The infeed goes on where the first call left it.
  EXPECT_EQ(run(vectorOf({0}))[0].at(0), 412);
  seen = outfeed.dequeue();
  EXPECT_THAT(seen[1].toDoubles(), ElementsAre(4, 1, 2));
  EXPECT_EQ(seen[0].shape(), (Shape{3, 1}));
}

TEST(Repeat, GivesReplicasElementsOfTheirOwn) {
  for (const data::OutfeedMode mode : {data::OutfeedMode::All, data::OutfeedMode::Last}) {
    data::InfeedQueue infeed(numbers({1, 2, 3, 4, 5, 6}));
    data::OutfeedQueue outfeed(mode);
    auto run = compile(Options().replicationFactor(2), [&](const Tensors& inputs) {
      return repeat(
          3,
          [&](const Tensors& in) {
            const nn::Tensor sum = in[0] + in[1];
            enqueue(outfeed, sum);
            return Tensors{sum};
          },
          inputs,
          &infeed);
    });
    EXPECT_EQ(run(vectorOf({0}))[0].at(0), 1 + 3 + 5);
    const HostTensor sums = outfeed.dequeue()[0];
    if (mode == data::OutfeedMode::All) {
      EXPECT_EQ(sums.shape(), (Shape{3, 2, 1}));
      EXPECT_THAT(sums.toDoubles(), ElementsAre(1, 2, 4, 6, 9, 12));
    } else {
      EXPECT_EQ(sums.shape(), (Shape{2, 1}));
      EXPECT_THAT(sums.toDoubles(), ElementsAre(9, 12));
    }
  }
}

TEST(Repeat, LetsAnotherThreadReadEveryLossInOrder) {
  LoopProduct net;
  data::InfeedQueue infeed(numbers({1}));
  data::OutfeedQueue losses(data::OutfeedMode::All, 2);  // training waits for the reader
  auto train = compile(net, Options(), [&](const Tensors&) {
    return repeat(
        100,
        [&](const Tensors& in) {
          const nn::Tensor loss = net.loss(in[0]);
          enqueue(losses, loss);
          minimize(optim::SGD(0.0078125), loss);
          return Tensors{};
        },
        {},
        &infeed);
  });
  std::vector<double> seen;
  std::thread reader([&] {
    while (seen.size() < 100 && losses.await()) {
      for (const double loss : losses.dequeue()[0].toDoubles()) {
        seen.push_back(loss);
      }
    }
  });
  train();
  reader.join();
  ASSERT_EQ(seen.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(seen[i], 1 - static_cast<double>(i) / 128);
  }
}

TEST(Repeat, TrainsToTheBitsOfATrainingModel) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 3, 2};
    nn::Tensor forward(nn::Tensor x) {
      const nn::Tensor y = nn::tanh(fc(x));
      return nn::mean(y * y);
    }
  };
  HostTensor rows(DType::F32, Shape{24, 3});
  for (std::int64_t i = 0; i < 72; ++i) {
    rows.set(i, static_cast<double>(i * 7 % 11) / 11 - 0.4);
  }
  const optim::SGD sgd(optim::SgdOptions{.lr = 0.5, .momentum = 0.75});
  Net plain;
  Options options = Options().deviceIterations(3);
  options.training.gradientAccumulation(4).accumulationAndReplicationReductionType(Reduction::Sum);
  auto model = trainingModel(plain, options, sgd);
  model(rows);

  Net looped;
  data::InfeedQueue infeed(data::batch(data::iterate(data::tensorDataset({rows})), 2));
  auto train = compile(looped, Options(), [&](const Tensors&) {
    return repeat(
        12,
        [&](const Tensors& in) {
          minimize(GradientAccumulationOptimizerV2(sgd, 4), looped.forward(in[0]));
          return Tensors{};
        },
        {},
        &infeed);
  });
  train();
  EXPECT_EQ(looped.fc.weight.value().hash(), plain.fc.weight.value().hash());
  EXPECT_EQ(train.model().updates(), 3);
}

TEST(Repeat, SharesTheWeightsOfTheModuleWithOtherFunctions) {
  LoopProduct net;
  data::InfeedQueue infeed(numbers({1}));
  auto train = compile(net, Options(), [&](const Tensors& inputs) {
    return repeat(
        2,
        [&](const Tensors& in) {
          const nn::Tensor loss = net.loss(in[1]);
          minimize(optim::SGD(0.25), loss);
          return Tensors{in[0] + loss};
        },
        inputs,
        &infeed);
  });
  auto evaluate = compile(net, Options(), [&](const Tensors& inputs) {
    return repeat(
        3, [&](const Tensors& in) { return Tensors{in[0] + net.w}; }, inputs);
  });
  // Losses 1 and 0.75; then three times what is left of the weight, for two elements.
  EXPECT_EQ(train(vectorOf({0}))[0].at(0), 1.75);
  EXPECT_THAT(evaluate(vectorOf({1, 2}))[0].toDoubles(), ElementsAre(2.5, 3.5));
  EXPECT_EQ(train(vectorOf({0}))[0].at(0), 0.75);
  EXPECT_THAT(evaluate(vectorOf({1, 2}))[0].toDoubles(), ElementsAre(1, 2));
}

TEST(Repeat, EndsWithTheErrorOfTheInfeed) {
  LoopProduct net;
  HostTensor four(DType::F32, Shape{4, 1});
  data::InfeedQueue infeed(data::iterate(data::tensorDataset({four})));
  auto train = compile(net, Options(), [&](const Tensors&) {
    return repeat(
        5,
        [&](const Tensors& in) {
          minimize(optim::SGD(0.5), net.loss(in[0] + 1.0));
          return Tensors{};
        },
        {},
        &infeed);
  });
  EXPECT_THAT(messageOf([&] { train(); }), HasSubstr("its dataset has 4 elements"));
}

TEST(AccumulationOptimizers, AddUpMiniBatchesAndAverageReplicas) {
  const optim::SGD sgd(0.125);
  // One update after 1 + 2 + 3 + 4.
  EXPECT_EQ(trained(GradientAccumulationOptimizerV2(sgd, 4), 4, {1, 2, 3, 4}), 1 - 10.0 / 8);
  EXPECT_EQ(trained(GradientAccumulationOptimizer(sgd, 4), 4, {1, 2, 3, 4}), 1 - 10.0 / 8);
  EXPECT_EQ(
      trained(
          GradientAccumulationOptimizerV2(sgd, 4, {.reduction = Reduction::Mean}), 4, {1, 2, 3, 4}),
      1 - 2.5 / 8);
  // Replica 0 sees 1 + 3, replica 1 sees 2 + 4: their mean is 5.
  const GradientAccumulationOptimizerV2 two(sgd, 2);
  EXPECT_EQ(trained(CrossReplicaOptimizer(two), 2, {1, 2, 3, 4}, 2), 1 - 5.0 / 8);
  EXPECT_EQ(trained(CrossReplicaGradientAccumulationOptimizerV2(sgd, 2), 2, {1, 2, 3, 4}, 2),
            1 - 5.0 / 8);
  EXPECT_EQ(trained(CrossReplicaGradientAccumulationOptimizer(sgd, 2), 2, {1, 2, 3, 4}, 2),
            1 - 5.0 / 8);
  // Two updates with the means 1.5 and 3.5.
  EXPECT_EQ(trained(CrossReplicaOptimizer(sgd), 2, {1, 2, 3, 4}, 2), 1 - 5.0 / 8);
}

TEST(AccumulationOptimizers, HaveTheirLimits) {
  const optim::SGD sgd(0.1);
  const optim::Adam adam(0.1);
  EXPECT_THAT(messageOf([&] { GradientAccumulationOptimizer(adam, 2); }),
              AllOf(HasSubstr("SGD"), HasSubstr("GradientAccumulationOptimizerV2")));
  EXPECT_THAT(messageOf([&] { GradientAccumulationOptimizerV2(adam, 0); }),
              HasSubstr("numMiniBatches"));
  EXPECT_THAT(messageOf([&] {
                GradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2(sgd, 2), 2);
              }),
              HasSubstr("accumulates already"));
  EXPECT_THAT(
      messageOf([&] { CrossReplicaOptimizer rule{UpdateRule(CrossReplicaOptimizer(sgd))}; }),
      HasSubstr("averages over replicas already"));
  EXPECT_THAT(messageOf([&] { trained(GradientAccumulationOptimizerV2(sgd, 3), 4, {1}); }),
              HasSubstr("no multiple of the 3"));
  EXPECT_THAT(messageOf([&] { trained(sgd, 4, {1}, 2); }), HasSubstr("CrossReplicaOptimizer"));
  // Outside of repeat.
  EXPECT_THAT(messageOf([&] { minimize(sgd, nn::Tensor()); }), HasSubstr("compile()"));
  LoopProduct net;
  auto outside = compile(net, Options(), [&](const Tensors& inputs) {
    minimize(GradientAccumulationOptimizerV2(sgd, 2), net.loss(inputs[0]));
    return Tensors{};
  });
  EXPECT_THAT(messageOf([&] { outside(vectorOf({1})); }), HasSubstr("body of repeat"));
}

TEST(AccumulationOptimizers, AccumulateInTheTypeTheyAreTold) {
  const auto accumulator = [](optim::SGD sgd, const AccumulationOptions& options) {
    LoopProduct net;
    data::InfeedQueue infeed(numbers({1}));
    auto train = compile(net, Options(), [&](const Tensors&) {
      return repeat(
          2,
          [&](const Tensors& in) {
            minimize(GradientAccumulationOptimizerV2(sgd, 2, options), net.loss(in[0]));
            return Tensors{};
          },
          {},
          &infeed);
    });
    train();
    return train.model().session().read("w.accumulator").dtype();
  };
  const optim::SGD sgd(0.1);
  EXPECT_EQ(accumulator(sgd, {}), DType::F32);
  EXPECT_THAT(messageOf([&] { accumulator(sgd, {.dtype = DType::F16}); }), HasSubstr("cast"));
  optim::SGD casting(0.1);
  casting.castGradients();
  EXPECT_EQ(accumulator(casting, {.dtype = DType::F16}), DType::F16);
}

/// What the first call of a function says that is given f32[1].
std::string refusal(const nn::Body& function, const Options& options = Options()) {
  auto run = compile(options, function);
  return messageOf<Error>([&] { run(vectorOf({1})); });
}

TEST(Compile, RefusesFunctionsThatAreNoLoop) {
  const auto same = [](const Tensors& in) { return in; };
  EXPECT_THAT(refusal(same), HasSubstr("neither repeat() nor pipeline()"));
  EXPECT_THAT(refusal([&](const Tensors& in) { return repeat(0, same, in); }),
              HasSubstr("at least 1, got 0"));
  EXPECT_THAT(refusal([&](const Tensors& in) { return repeat(2, same, repeat(2, same, in)); }),
              HasSubstr("has a repeat already"));
  EXPECT_THAT(refusal([&](const Tensors& in) {
                return repeat(
                    2, [&](const Tensors& x) { return repeat(2, same, x); }, in);
              }),
              HasSubstr("forLoop"));
  EXPECT_THAT(refusal([&](const Tensors& in) {
                return repeat(
                    2, [](const Tensors&) { return Tensors{}; }, in);
              }),
              HasSubstr("returns 0 values"));
  EXPECT_THAT(refusal([&](const Tensors& in) {
                return repeat(
                    2,
                    [](const Tensors& x) {
                      return Tensors{nn::reshape(x[0], {1, 1})};
                    },
                    in);
              }),
              AllOf(HasSubstr("f32[1]"), HasSubstr("f32[1, 1]")));
  EXPECT_THAT(messageOf([] { repeat(2, [](const Tensors& in) { return in; }); }),
              HasSubstr("compile()"));
  auto nothing = compile(Options(), [&](const Tensors& in) { return repeat(2, same, in); });
  EXPECT_THAT(messageOf([&] { nothing(); }), HasSubstr("nothing comes out"));
}

TEST(Compile, CompilesBeforeTheFirstCallIfAsked) {
  int traces = 0;
  auto run = compile(Options(), [&](const Tensors& inputs) {
    ++traces;
    return repeat(
        2, [](const Tensors& in) { return Tensors{in[0] * 3.0}; }, inputs);
  });
  EXPECT_THAT(messageOf([&] { static_cast<void>(run.model()); }), HasSubstr("first call"));
  const std::vector<HostTensor> inputs = {vectorOf({1})};
  run.compile(inputs);
  EXPECT_TRUE(run.model().isCompiled());
  const int once = traces;
  run.compile(inputs);
  EXPECT_EQ(run(vectorOf({2}))[0].at(0), 18);
  EXPECT_EQ(traces, once);
  EXPECT_THAT(messageOf([&] { run.compile({}); }), HasSubstr("was compiled for (f32[1]), got ()"));
}

TEST(Compile, ComputesOnceBeforeAndOnceBehindTheLoop) {
  int runs = 0;
  const nn::Body counted = [&](const Tensors& in) {
    ++runs;  // traces
    return Tensors{in[0] * 2.0};
  };
  auto run = compile(Options(), [&](const Tensors& inputs) {
    const nn::Tensor start = counted(inputs)[0] + 1.0;  // 2x + 1, carried
    const nn::Tensor step = inputs[0] * inputs[1];      // xy, captured
    const nn::Tensor once = nn::exp(inputs[1]);         // read behind the loop only
    const Tensors last = repeat(4,
                                [&](const Tensors& in) {
                                  return Tensors{in[0] + step, in[1] + inputs[0]};
                                },
                                {start, inputs[0]});
    return Tensors{last[0] * last[1] - once, last[1], step, inputs[1], last[0] - start};
  });
  for (const double x : {3.0, -1.0, 3.0}) {
    const double y = 2;
    const auto results = run(vectorOf({x}), vectorOf({y}));
    ASSERT_EQ(results.size(), 5U);
    EXPECT_FLOAT_EQ(static_cast<float>(results[0].at(0)),
                    static_cast<float>((2 * x + 1 + 4 * x * y) * 5 * x - std::exp(y)));
    EXPECT_EQ(results[1].at(0), 5 * x);  // the captured input is not the carried one
    EXPECT_EQ(results[2].at(0), x * y);
    EXPECT_EQ(results[3].at(0), y);
    EXPECT_EQ(results[4].at(0), 4 * x * y);
  }
  // Nothing of it is in the loop: its program adds twice per iteration.
  const std::string loop = program::print(run.model().program());
  EXPECT_THAT(loop, ::testing::Not(HasSubstr("exp")));
  EXPECT_THAT(loop, ::testing::Not(HasSubstr("mul")));
}

TEST(Compile, ReadsTheTrainedWeightsBehindTheLoop) {
  LoopProduct net;
  data::InfeedQueue infeed(numbers({1}));
  for (const int replicas : {1, 2}) {
    net.w.setValue(vectorOf({1}));
    auto train = compile(net, Options().replicationFactor(replicas), [&](const Tensors& inputs) {
      const nn::Tensor before = net.w * inputs[0];
      const nn::Tensor scale = nn::square(inputs[0]);
      repeat(
          2,
          [&](const Tensors& in) {
            minimize(CrossReplicaOptimizer(optim::SGD(0.25)), net.loss(in[0] * scale));
            return Tensors{};
          },
          {},
          &infeed);
      return Tensors{before, net.w * inputs[0], net.w};
    });
    // Two updates by 0.25 x 2 x 2.
    const auto results = train(vectorOf({2}));
    EXPECT_EQ(results[0].at(0), 2);
    EXPECT_EQ(results[1].at(0), -2);
    EXPECT_EQ(results[2].at(0), -1);
    EXPECT_EQ(net.w.value().at(0), -1);
    const auto again = train(vectorOf({1}));
    EXPECT_EQ(again[0].at(0), -1);
    EXPECT_EQ(again[1].at(0), -1.5);
  }
}

TEST(Compile, FeedsAPipelineWhatIsComputedBefore) {
  data::InfeedQueue infeed(numbers({1, 2}));
  data::OutfeedQueue outfeed;
  auto run = compile(Options(), [&](const Tensors& inputs) {
    const nn::Tensor ten = inputs[0] * 10.0;
    return pipeline(
        {[](const Tensors& in) { return Tensors{in[0] + in[1]}; },
         [](const Tensors& in) { return Tensors{in[0] * 2.0}; }},
        {.gradientAccumulationCount = 2, .inputs = {ten}, .infeed = &infeed, .outfeed = &outfeed});
  });
  run(vectorOf({1}));
  EXPECT_THAT(outfeed.dequeue()[0].toDoubles(), ElementsAre(22, 24));
}

TEST(Compile, RefusesWhatCannotBeTakenOutOfTheLoop) {
  EXPECT_THAT(refusal([](const Tensors& inputs) {
                nn::Tensor inner;
                const Tensors last = repeat(
                    2,
                    [&](const Tensors& in) {
                      inner = in[0] * 3.0;
                      return Tensors{inner + 1.0};
                    },
                    inputs);
                return Tensors{last[0] + inner};
              }),
              AllOf(HasSubstr("value of the loop's body"), HasSubstr("does not return it")));
  struct Counter : nn::Module {
    nn::Parameter& count = addBuffer("count", {DType::F32, Shape{1}}, ir::Initializer::constant(0));
    nn::Dropout dropout{*this, "dropout", 0.5};
    nn::Parameter& w = addParameter("w", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
  };
  Counter net;
  auto writes = compile(net, Options(), [&](const Tensors& inputs) {
    net.count += 1.0;
    return repeat(
        2, [](const Tensors& in) { return in; }, inputs);
  });
  EXPECT_THAT(messageOf<Unsupported>([&] { writes(vectorOf({1})); }),
              AllOf(HasSubstr("'count'"), HasSubstr("before the loop")));
  auto drops = compile(net, Options(), [&](const Tensors& inputs) {
    const nn::Tensor x = net.dropout(inputs[0]);
    return repeat(
        2,
        [&](const Tensors& in) {
          minimize(optim::SGD(0.5), nn::sum(net.w * x));
          return in;
        },
        inputs);
  });
  EXPECT_THAT(messageOf<Unsupported>([&] { drops(vectorOf({1})); }),
              HasSubstr("not the same when training"));
}

TEST(Compile, RefusesOptionsThatCountForItself) {
  const auto loop = [](const Tensors& in) {
    return repeat(
        2, [](const Tensors& x) { return x; }, in);
  };
  EXPECT_THAT(refusal(loop, Options().deviceIterations(2)), HasSubstr("deviceIterations"));
  EXPECT_THAT(refusal(loop, Options().outputMode(OutputMode::Sum)), HasSubstr("outputMode"));
  Options accumulating;
  accumulating.training.gradientAccumulation(2);
  EXPECT_THAT(refusal(loop, accumulating), HasSubstr("gradientAccumulation"));
  auto run = compile(Options(), loop);
  EXPECT_THAT(messageOf([&] { run.model(); }), HasSubstr("before its first call"));
  run(vectorOf({1}));
  EXPECT_THAT(messageOf([&] {
                run(vectorOf({1, 2}));
              }),
              AllOf(HasSubstr("(f32[1])"), HasSubstr("(f32[2])")));
}

TEST(Enqueue, IsRefusedTwiceAndOutsideOfTheBody) {
  data::OutfeedQueue outfeed;
  const auto inBody = [&](const std::function<void(nn::Tensor)>& act) {
    return refusal([act](const Tensors& inputs) {
      return repeat(
          2,
          [&](const Tensors& in) {
            act(in[0]);
            return in;
          },
          inputs);
    });
  };
  EXPECT_THAT(inBody([&](const nn::Tensor& x) {
                enqueue(outfeed, x);
                enqueue(outfeed, x);
              }),
              HasSubstr("enqueues once"));
  EXPECT_THAT(inBody([&](const nn::Tensor&) { enqueue(outfeed, Tensors{}); }),
              HasSubstr("no tensor"));
  EXPECT_THAT(refusal([&](const Tensors& in) {
                enqueue(outfeed, in[0]);
                return in;
              }),
              HasSubstr("body of repeat"));
  EXPECT_THAT(messageOf([&] { outfeed.dequeue(); }), HasSubstr("nothing was enqueued"));
  EXPECT_THAT(inBody([&](const nn::Tensor& x) {
                minimize(optim::SGD(0.1), x);
                minimize(optim::SGD(0.1), x);
              }),
              HasSubstr("minimizes a loss already"));
}

}  // namespace
}  // namespace sluice
