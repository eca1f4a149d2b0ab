// The Engine against the reference, step by step; its errors, its memory and its threads.
#include "sluice/runtime/engine.h"

#include <atomic>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/ops/linear_ops.h"
#include "sluice/ops/loss_ops.h"
#include "tests/support/allocation_count.h"
#include "tests/support/arena.h"
#include "tests/support/machine.h"
#include "tests/support/random_tensor.h"
#include "tests/support/small_models.h"
#include "tests/support/tensor_types.h"

namespace sluice::runtime {
namespace {

using testing::f32;

using ir::GraphBuilder;
using ir::Value;
using program::LowerOptions;
using sluice::testing::inferenceModel;
using sluice::testing::Machine;
using sluice::testing::MapFeed;
using sluice::testing::MapSink;
using sluice::testing::randomInputs;
using sluice::testing::relativeDifference;
using sluice::testing::RoundReference;
using sluice::testing::tolerance;
using sluice::testing::trainingModel;
using ::testing::HasSubstr;

constexpr std::uint64_t kSeed = 5;

std::vector<ops::TensorMap> inputsOf(const ir::Graph& graph,
                                     std::int64_t count,
                                     std::uint64_t seed) {
  std::vector<ops::TensorMap> inputs;
  for (std::int64_t m = 0; m < count; ++m) {
    inputs.push_back(randomInputs(graph, seed, m));
  }
  return inputs;
}

TEST(Engine, RunsInferenceOverMicroBatchesAndRounds) {
  const ir::Graph graph = inferenceModel();
  for (const int threads : {1, 2}) {
    for (const std::int32_t perRound : {1, 3}) {
      for (const std::int32_t rounds : {1, 4}) {
        Machine machine(threads, kSeed);
        const auto loaded = machine.load(graph, {.microBatchesPerRound = perRound});
        const std::vector<ops::TensorMap> inputs = inputsOf(graph, perRound * rounds, 3);
        const MapSink sink = machine.step(*loaded, inputs);
        RoundReference reference(graph, kSeed);
        const std::vector<ops::TensorMap> expected = reference.round(inputs);
        const auto& got = sink.results.at("y");
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t m = 0; m < got.size(); ++m) {
          EXPECT_EQ(got[m].first, static_cast<std::int64_t>(m));
          EXPECT_LE(relativeDifference(got[m].second, expected[m].at("y")),
                    tolerance(DType::F32, 6));
        }
      }
    }
  }
}

/// A product whose weight is packed first.
ir::Graph packedModel() {
  ir::Graph graph("packed");
  GraphBuilder b(graph);
  graph.addVariable({.name = "w", .type = f32({96, 64})});
  graph.addOutput(
      "y", ops::matmul(b, b.input("x", f32({24, 64})), b.variable("w"), {.transposeB = true}));
  return graph;
}

TEST(Engine, KeepsPackedVariablesUntilTheyChange) {
  const ir::Graph graph = packedModel();
  Machine machine(1, kSeed);
  const auto anew = machine.load(graph);
  const auto keeps = machine.load(graph, {.keepsPacked = true});
  EXPECT_FALSE(anew->program().keepsPacked);
  ASSERT_TRUE(keeps->program().keepsPacked);
  const std::vector<ops::TensorMap> inputs = inputsOf(graph, 2, 3);
  const auto result = [&](LoadedProgram& loaded) {
    return machine.step(loaded, inputs).results.at("y")[0].second;
  };
  const auto setWeights = [&](std::uint64_t seed) {
    machine.state.write("w", sluice::testing::randomTensor(seed, f32({96, 64}), -1, 1));
  };
  setWeights(1);
  const HostTensor first = result(*anew);
  EXPECT_TRUE(result(*keeps).sameBits(first));
  EXPECT_TRUE(result(*keeps).sameBits(first));
  // The copy is used as it is, here with other bytes; so it was not made again.
  sluice::testing::paintTransient(machine.state, 0, std::byte{0});
  EXPECT_FALSE(result(*keeps).sameBits(first));
  setWeights(2);
  const HostTensor second = result(*keeps);
  EXPECT_FALSE(second.sameBits(first));
  // Another program may use the memory.
  EXPECT_TRUE(result(*anew).sameBits(second));
  EXPECT_TRUE(result(*keeps).sameBits(second));
}

/// Three steps of two rounds of training; the variables after each step.
std::vector<ops::TensorMap> train(const ir::Graph& graph, int threads, std::int32_t perRound) {
  Machine machine(threads, kSeed);
  const auto loaded = machine.load(graph, {.microBatchesPerRound = perRound});
  std::vector<ops::TensorMap> history;
  for (std::uint64_t step = 0; step < 3; ++step) {
    machine.step(*loaded, inputsOf(graph, 2 * perRound, step));
    ops::TensorMap& variables = history.emplace_back();
    for (const ir::Variable& variable : graph.variables()) {
      variables.emplace(variable.name, machine.state.read(variable.name));
    }
  }
  return history;
}

TEST(Engine, TrainsLikeTheReferenceWithTheSameBitsOnEveryTeam) {
  for (const char* mode : {"sum", "mean"}) {
    for (const std::int32_t perRound : {1, 4}) {
      SCOPED_TRACE(fmt::format("mode {}, {} micro-batches", mode, perRound));
      const ir::Graph graph = trainingModel(mode);
      const std::vector<ops::TensorMap> one = train(graph, 1, perRound);
      const std::vector<ops::TensorMap> two = train(graph, 2, perRound);
      RoundReference reference(graph, kSeed);
      for (std::uint64_t step = 0; step < 3; ++step) {
        const std::vector<ops::TensorMap> inputs = inputsOf(graph, 2 * perRound, step);
        const std::span<const ops::TensorMap> all(inputs);
        const auto count = static_cast<std::size_t>(perRound);
        reference.round(all.first(count));
        reference.round(all.last(count));
        for (const auto& [name, value] : reference.variables) {
          EXPECT_TRUE(one[step].at(name).sameBits(two[step].at(name))) << name;
          EXPECT_LE(relativeDifference(one[step].at(name), value),
                    (1.0 + static_cast<double>(step)) * tolerance(DType::F32, 24))
              << name << " after step " << step;
        }
      }
    }
  }
}

TEST(Engine, AccumulatesTensorsOfSeveralTilesAndEveryType) {
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32}) {
    for (const char* mode : {"sum", "mean"}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), mode));
      ir::Graph graph("accumulate");
      GraphBuilder b(graph);
      const TensorType type{dtype, {70001}};
      graph.addVariable({.name = "g",
                         .type = type,
                         .role = ir::VariableRole::Accumulator,
                         .initializer = ir::Initializer::constant(7)});
      b.assign("g", b.input("x", type), mode);
      std::vector<ops::TensorMap> inputs;
      for (std::uint64_t m = 0; m < 3; ++m) {
        inputs.push_back({{"x", sluice::testing::randomTensor(m, type, -50, 50)}});
      }
      RoundReference reference(graph, kSeed);
      reference.round(inputs);
      for (const int threads : {1, 2}) {
        Machine machine(threads, kSeed);
        const auto loaded = machine.load(graph, {.microBatchesPerRound = 3});
        machine.step(*loaded, inputs);
        EXPECT_LE(relativeDifference(machine.state.read("g"), reference.variables.at("g")),
                  tolerance(dtype, 3));
      }
    }
  }
}

std::vector<std::int64_t> drained(const program::DrainRule& rule) {
  const ir::Graph graph = inferenceModel();
  Machine machine;
  const auto loaded = machine.load(graph, {.microBatchesPerRound = 3, .drainRule = rule});
  const std::vector<ops::TensorMap> inputs = inputsOf(graph, 6, 3);
  const MapSink sink = machine.step(*loaded, inputs);
  RoundReference reference(graph, kSeed);
  const std::vector<ops::TensorMap> expected = reference.round(inputs);
  std::vector<std::int64_t> microBatches;
  for (const auto& [microBatch, value] : sink.results.at("y")) {
    microBatches.push_back(microBatch);
    EXPECT_LE(relativeDifference(value, expected[static_cast<std::size_t>(microBatch)].at("y")),
              tolerance(DType::F32, 6));
  }
  return microBatches;
}

TEST(Engine, DrainsWhatTheRuleSays) {
  EXPECT_THAT(drained({}), ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(drained({.every = 2}), ::testing::ElementsAre(1, 3, 5));
  EXPECT_THAT(drained({.every = 4}), ::testing::ElementsAre(3));
  EXPECT_THAT(drained({.finalOnly = true}), ::testing::ElementsAre(5));
}

TEST(Engine, RestoresConstantsWhenProgramsTakeTurns) {
  const auto model = [](std::int64_t size, double constant) {
    ir::Graph graph("model");
    GraphBuilder b(graph);
    const Value x = b.input("x", f32({size}));
    graph.addOutput("y", ops::add(b, x, b.constant(HostTensor::full(f32({size}), constant))));
    return graph;
  };
  Machine machine;
  const auto small = machine.load(model(3, 10));
  const auto large = machine.load(model(300, 20));
  const auto value = [&](LoadedProgram& loaded, std::int64_t size) {
    return machine.step(loaded, {{{"x", HostTensor::full(f32({size}), 1)}}})
        .results.at("y")[0]
        .second.at(size - 1);
  };
  EXPECT_EQ(value(*small, 3), 11);
  EXPECT_EQ(value(*large, 300), 21);
  EXPECT_EQ(value(*small, 3), 11);
  EXPECT_EQ(value(*small, 3), 11);
  EXPECT_EQ(value(*large, 300), 21);
}

/// Negative log-likelihood of given labels: a kernel that can refuse its data.
ir::Graph lossModel() {
  ir::Graph graph("loss");
  GraphBuilder b(graph);
  const Value scores = b.input("scores", f32({2, 3}));
  const Value labels = b.input("labels", {DType::I32, {2}});
  graph.addOutput("loss", ops::nllLoss(b, scores, labels));
  return graph;
}

ops::TensorMap lossInputs(std::int32_t label) {
  return {{"scores", HostTensor::of<float>({2, 3}, {-1, -2, -3, -4, -5, -6})},
          {"labels", HostTensor::of<std::int32_t>({2}, {0, label})}};
}

TEST(Engine, PassesAKernelsErrorOnAndWorksAfterwards) {
  for (const int threads : {1, 2}) {
    Machine machine(threads);
    const auto loaded = machine.load(lossModel(), {.microBatchesPerRound = 2});
    std::vector<ops::TensorMap> inputs(6, lossInputs(2));
    inputs[3] = lossInputs(7);
    for (int attempt = 0; attempt < 3; ++attempt) {
      try {
        machine.step(*loaded, inputs);
        FAIL() << "label 7 of 3 classes was accepted";
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.message(), HasSubstr("7"));
        EXPECT_THAT(error.location(), HasSubstr("run of micro-batch 1, round 1, device 0"));
        EXPECT_THAT(error.location(), HasSubstr("nll_loss"));
      }
      const MapSink sink = machine.step(*loaded, {lossInputs(2), lossInputs(1)});
      EXPECT_EQ(sink.results.at("loss")[0].second.at(0), 3.5);
      EXPECT_EQ(sink.results.at("loss")[1].second.at(0), 3.0);
    }
  }
}

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(Engine, PassesTheHostsErrorsOnAndWorksAfterwards) {
  class BadFeed : public MapFeed {
   public:
    using MapFeed::MapFeed;
    const void* take(std::int32_t input, std::int64_t microBatch) override {
      if (microBatch == 4) {
        throw Refusal("no more data");
      }
      return MapFeed::take(input, microBatch);
    }
  };
  class BadSink : public MapSink {
   public:
    using MapSink::MapSink;
    void put(std::int32_t, std::int64_t microBatch, const void*) override {
      if (microBatch == 3) {
        raise<FileError>("the disk is full");
      }
    }
  };
  Machine machine;
  const auto loaded = machine.load(lossModel(), {.microBatchesPerRound = 2});
  const std::vector<ops::TensorMap> inputs(8, lossInputs(2));
  BadFeed badFeed(loaded->program(), inputs);
  BadSink badSink(loaded->program());
  MapFeed feed(loaded->program(), inputs);
  MapSink sink(loaded->program());
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_THROW(machine.engine.run(*loaded, {.feed = badFeed, .sink = sink, .rounds = 4}),
                 Refusal);
    try {
      machine.engine.run(*loaded, {.feed = feed, .sink = badSink, .rounds = 4});
      FAIL() << "the sink's error was lost";
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("drain of micro-batch 1, round 1"));
    }
    MapSink good(loaded->program());
    machine.engine.run(*loaded, {.feed = feed, .sink = good, .rounds = 4});
    ASSERT_EQ(good.results.at("loss").size(), 8U);
    EXPECT_EQ(good.results.at("loss")[7].second.at(0), 3.5);
  }
}

/// The first byte above everything that a step changed in an arena painted beforehand, and whether
/// anything above the plan was touched. Two paints, because a value may look like one of them.
std::size_t highWaterMark(const ir::Graph& graph, const LowerOptions& options, std::size_t* plan) {
  constexpr std::size_t kMargin = 4096;
  std::size_t highest = 0;
  for (const std::byte paint : {std::byte{0xA5}, std::byte{0x5A}}) {
    Machine machine(2);
    const auto loaded = machine.load(graph, options);
    *plan = loaded->program().devices[0].transientBytes;
    machine.state.reserveTransient(0, *plan + kMargin);
    sluice::testing::paintTransient(machine.state, 0, paint);
    machine.step(*loaded, inputsOf(graph, 2 * options.microBatchesPerRound, 3));
    const std::vector<std::byte> arena = sluice::testing::readTransient(machine.state, 0);
    for (std::size_t i = 0; i < arena.size(); ++i) {
      if (arena[i] != paint) {
        highest = std::max(highest, i + 1);
      }
    }
  }
  return highest;
}

ir::Graph elementwiseModel() {
  ir::Graph graph("elementwise");
  GraphBuilder b(graph);
  graph.addVariable({.name = "sum", .type = f32({37}), .role = ir::VariableRole::Accumulator});
  const Value x = b.input("x", f32({37}));
  const Value y = ops::mul(b, x, b.constant(HostTensor::full(f32({37}), 3)));
  const Value z = ops::exp(b, ops::sub(b, x, y));
  b.assign("sum", z, "sum");
  graph.addOutput("y", y);
  graph.addOutput("w", ops::mul(b, z, y));
  return graph;
}

TEST(Engine, UsesAsManyBytesAsThePlanSays) {
  std::size_t plan = 0;
  const std::size_t mark = highWaterMark(elementwiseModel(), {.microBatchesPerRound = 3}, &plan);
  const std::size_t alignment = Machine().device->info().alignment;
  EXPECT_EQ((mark + alignment - 1) / alignment * alignment, plan);
  EXPECT_GT(plan, 0U);
  EXPECT_LE(highWaterMark(trainingModel(), {.microBatchesPerRound = 4}, &plan), plan);
  EXPECT_LE(highWaterMark(trainingModel("mean", 64), {}, &plan), plan);
}

/// One tensor for every micro-batch, and no memory of what was drained.
class FixedFeed : public HostFeed {
 public:
  explicit FixedFeed(HostTensor value) : value_(std::move(value)) {}
  const void* take(std::int32_t, std::int64_t) override { return value_.bytes(); }

 private:
  HostTensor value_;
};

class CountingSink : public HostSink {
 public:
  void put(std::int32_t, std::int64_t, const void*) override { ++count; }
  std::int64_t count = 0;
};

TEST(Engine, AllocatesNothingInSteadyState) {
  if (sluice::testing::deviceKind() != "cpu") {
    GTEST_SKIP() << "of its own kernels and lanes; other kinds keep lists of commands";
  }
  for (const int threads : {1, 2}) {
    Machine machine(threads);
    const auto loaded = machine.load(elementwiseModel(), {.microBatchesPerRound = 3});
    FixedFeed feed(HostTensor::full(f32({37}), 0.5));
    CountingSink sink;
    const StepArgs args{.feed = feed, .sink = sink, .rounds = 5};
    machine.engine.run(*loaded, args);
    const std::int64_t before = sluice::testing::allocationCount();
    machine.engine.run(*loaded, args);
    machine.engine.run(*loaded, args);
    EXPECT_EQ(sluice::testing::allocationCount() - before, 0);
    EXPECT_EQ(sink.count, 3 * 5 * 3 * 2);  // steps, rounds, micro-batches, outputs
  }
}

std::atomic<int> threadsStarted{0};
std::atomic<int> threadsEnded{0};

/// Notices the end of every thread that calls it.
void watchThread() {
  struct Watch {
    Watch() { ++threadsStarted; }
    ~Watch() { ++threadsEnded; }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    void touch() {}
  };
  thread_local Watch watch;
  watch.touch();
}

TEST(Engine, EndsItsThreadsWhenItIsDestroyed) {
  const auto device = devices::makeDevice({});
  ModelState state({device.get()}, kSeed);
  {
    const Engine idle(state);  // may go before its threads have begun
  }
  {
    Engine engine(state, {.beforeTask = [](std::size_t, std::int64_t) { watchThread(); }});
    program::StatePlan plan;
    const auto loaded = engine.load(
        program::lower(inferenceModel(), plan, {.targets = {program::targetOf(*device)}}));
    state.adopt(plan);
    FixedFeed feed(HostTensor::full(f32({4, 6}), 0.5));
    CountingSink sink;
    engine.run(*loaded, {.feed = feed, .sink = sink});
    EXPECT_EQ(sink.count, 1);
  }
  EXPECT_EQ(threadsStarted.load(), 2);  // a worker, and one for the host's lanes
  EXPECT_EQ(threadsEnded.load(), 2);
}

TEST(ModelState, ReadsAndWritesVariablesByName) {
  Machine machine;
  machine.load(inferenceModel());
  const HostTensor value = HostTensor::of<float>({3}, {1, 2, 3});
  machine.state.write("bias", value);
  EXPECT_TRUE(machine.state.read("bias").sameBits(value));
  EXPECT_TRUE(machine.state.contains("w"));
  EXPECT_FALSE(machine.state.contains("v"));
  try {
    machine.state.read("v");
    FAIL() << "read an unknown variable";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr("no variable 'v'"));
  }
  try {
    machine.state.write("bias", HostTensor(DType::F32, {4}));
    FAIL() << "wrote a value of another type";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.message(), HasSubstr("f32[3]"));
  }
}

TEST(ModelState, KeepsValuesWhenAProgramBringsNewVariables) {
  Machine machine(1, kSeed);
  machine.load(inferenceModel());
  const HostTensor w = HostTensor::full(f32({6, 3}), 0.75);
  machine.state.write("w", w);
  machine.load(trainingModel());
  EXPECT_TRUE(machine.state.read("w").sameBits(w));
  EXPECT_EQ(machine.state.read("bias").at(0), 0.25);
  EXPECT_EQ(machine.state.read("m.w").at(17), 0.0);
}

}  // namespace
}  // namespace sluice::runtime
