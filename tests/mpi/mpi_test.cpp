// Models in several processes. Every process runs every test, all of them together (mpirun -n 2 to
// 4): what one process alone computes is what all must compute.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/api/step.h"
#include "sluice/profile/trace_file.h"
#include "sluice/runtime/process_world.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/random_models.h"
#include "tests/mpi/common_folder.h"
#include "tests/support/communicator_checks.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using parallel::ParallelPhasedExecution;
using parallel::Phase;
using parallel::PipelinedExecution;
using parallel::SerialPhasedExecution;
using parallel::ShardedExecution;
using parallel::Stage;
using parallel::Strategy;
using testing::Bits;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::CommonFolder;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::ResidualMlp;

std::int32_t processes() {
  return runtime::ProcessWorld::open()->size();
}

class OverKinds : public ::testing::TestWithParam<std::string> {};

TEST_P(OverKinds, TheCommunicatorDoesWhatAllDo) {
  const auto communicator = runtime::ProcessWorld::open()->makeCommunicator();
  testing::Rank rank(*communicator, GetParam());
  testing::checkMessages(rank);
  testing::checkCollectives(rank);
  testing::checkSums(rank);
}

INSTANTIATE_TEST_SUITE_P(Mpi, OverKinds, ::testing::Values("cpu", "far"));

TEST(MpiCommunicator, CarriesMessagesOfAnySizeInOrder) {
  const auto c = runtime::ProcessWorld::open()->makeCommunicator();
  const std::vector<std::size_t> sizes = {0, 1, 4096, 4097, 100, 3'000'000, 5, 70'000};
  const auto content = [](std::size_t size, std::int32_t rank) {
    runtime::MessageBytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
      bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank));
    }
    return bytes;
  };
  for (std::int32_t r = 0; r < c->size(); ++r) {
    for (const std::size_t size : sizes) {
      if (r != c->rank()) {
        c->post(r, 1, content(size, c->rank()));
      }
    }
  }
  for (std::int32_t r = 0; r < c->size(); ++r) {
    for (const std::size_t size : sizes) {
      if (r != c->rank()) {
        EXPECT_TRUE(c->take(r, 1, size) == content(size, r)) << size << " from " << r;
      }
    }
  }
}

TEST(MpiCommunicator, KeepsCommunicatorsApart) {
  const auto a = runtime::ProcessWorld::open()->makeCommunicator();
  const auto b = runtime::ProcessWorld::open()->makeCommunicator();
  const std::int32_t next = (a->rank() + 1) % a->size();
  const std::int32_t before = (a->rank() + a->size() - 1) % a->size();
  a->post(next, 1, runtime::MessageBytes(1));
  b->post(next, 1, runtime::MessageBytes(2));
  EXPECT_EQ(b->take(before, 1).size(), 2U);
  EXPECT_EQ(a->take(before, 1).size(), 1U);
}

/// Joins tensors along the first dimension.
HostTensor joined(const std::vector<HostTensor>& parts) {
  std::vector<std::int64_t> dims = parts[0].shape().dims();
  dims[0] *= static_cast<std::int64_t>(parts.size());
  HostTensor whole(TensorType{parts[0].dtype(), Shape(dims)});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::memcpy(whole.bytes() + i * parts[i].byteCount(), parts[i].bytes(), parts[i].byteCount());
  }
  return whole;
}

/// The inputs of the replicas of this process, out of those of all.
std::vector<HostTensor> ownInputs(const std::vector<TensorType>& types,
                                  std::int64_t first,
                                  std::int64_t count,
                                  const Options& options) {
  const std::int64_t replicas = options.replicationFactor();
  std::vector<std::vector<HostTensor>> parts(types.size());
  for (std::int64_t m = first; m < first + count; m += options.allReplicas()) {
    const std::vector<HostTensor> own =
        makeInputs(types, m + options.distributed.firstReplica(replicas), replicas);
    for (std::size_t i = 0; i < types.size(); ++i) {
      parts[i].push_back(own[i]);
    }
  }
  std::vector<HostTensor> inputs;
  for (const std::vector<HostTensor>& each : parts) {
    inputs.push_back(joined(each));
  }
  return inputs;
}

/// What a training leaves: losses of all calls, weights, optimizer state, statistics.
template <class Net>
Bits trained(const Options& options) {
  Net net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::int64_t perCall = model.microBatchesPerStep() * options.allReplicas();
  const std::int64_t here = model.microBatchesPerStep() * options.replicationFactor();
  Bits bits;
  for (std::int64_t call = 0; call < 3; ++call) {
    const std::vector<HostTensor> outputs =
        model.run(here == perCall ? makeInputs(Net::inputs(), call * perCall, perCall)
                                  : ownInputs(Net::inputs(), call * perCall, perCall, options));
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      bits[fmt::format("output {} of call {}", o, call)] = outputs[o].hash();
    }
  }
  for (const auto& [name, value] : model.stateDict()) {
    bits[name] = value.hash();
  }
  for (const auto& [section, tensors] : model.optimizerStateDict()) {
    for (const auto& [name, value] : tensors) {
      bits[fmt::format("{}/{}", section, name)] = value.hash();
    }
  }
  return bits;
}

Options alone(const Options& options) {
  Options one = options.clone();
  one.distributed.disable();
  return one;
}

Options shared(const Options& options) {
  Options all = options.clone();
  all.distributed.shareModel(true);
  return all;
}

Options under(const Strategy& strategy, std::int64_t replicas = 1) {
  Options options;
  options.replicationFactor(replicas).outputMode(OutputMode::All);
  options.training.gradientAccumulation(4);
  options.setExecutionStrategy(strategy);
  return options;
}

const Stage kWhole("b0", "b1", "b2", "b3", "b4");
const std::vector<Stage> kFour = {Stage("b0", "b1"), Stage("b2"), Stage("b3"), Stage("b4")};

template <class Net>
class SharedModel : public ::testing::Test {};
using Networks = ::testing::Types<BlockedCnn, ResidualMlp, BlockedGpt>;
TYPED_TEST_SUITE(SharedModel, Networks);

TYPED_TEST(SharedModel, PipelinesHaveTheBitsOfOneProcess) {
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const char* device : {"cpu", "far"}) {
      SCOPED_TRACE(fmt::format("{} on {}", schedule, device));
      Options options = under(PipelinedExecution(kFour).schedule(schedule));
      options.device(device);
      EXPECT_EQ(trained<TypeParam>(shared(options)), trained<TypeParam>(alone(options)));
    }
  }
}

TYPED_TEST(SharedModel, ReplicasHaveTheBitsOfOneProcess) {
  for (const char* device : {"cpu", "far"}) {
    Options options = under(PipelinedExecution({kWhole}), 2 * processes());
    options.device(device);
    EXPECT_EQ(trained<TypeParam>(shared(options)), trained<TypeParam>(alone(options))) << device;
  }
}

TYPED_TEST(SharedModel, ReplicatedPipelinesHaveTheBitsOfOneProcess) {
  if (processes() == 3) {
    GTEST_SKIP() << "three processes have no pairs";
  }
  for (const char* device : {"cpu", "far"}) {
    Options options = under(PipelinedExecution(Stage("b0", "b1", "b2"), Stage("b3", "b4")), 2);
    options.device(device).deviceIterations(2);
    EXPECT_EQ(trained<TypeParam>(shared(options)), trained<TypeParam>(alone(options))) << device;
  }
}

/// Weights and state of a process with replicas of its own; outputs are those of its replicas.
Bits withoutOutputs(Bits bits) {
  std::erase_if(bits, [](const auto& entry) { return entry.first.starts_with("output "); });
  return bits;
}

/// Replicas of all processes in one.
Options together(const Options& options) {
  Options one = options.clone();
  one.replicationFactor(options.allReplicas());
  one.distributed.disable();
  return one;
}

TYPED_TEST(SharedModel, OwnReplicasHaveTheBitsOfOneProcess) {
  for (const char* device : {"cpu", "far"}) {
    Options options = under(PipelinedExecution(Stage("b0", "b1", "b2"), Stage("b3", "b4")), 2);
    options.device(device);
    EXPECT_EQ(withoutOutputs(trained<TypeParam>(options)),
              withoutOutputs(trained<TypeParam>(together(options))))
        << device;
  }
}

/// Optimizer state, or weights as well, in parts; on the devices or not.
Options inParts(Options options, bool weights, bool onChip) {
  const auto parts = TensorLocationSettings()
                         .useOnChipStorage(onChip)
                         .useReplicatedTensorSharding(true)
                         .minElementsForReplicatedTensorSharding(1);
  options.tensorLocations.setOptimizerLocation(parts);
  if (weights) {
    options.tensorLocations.setWeightLocation(parts);
  }
  return options;
}

TYPED_TEST(SharedModel, StateInPartsHasTheBitsOfOneProcess) {
  for (const char* device : {"cpu", "far"}) {
    for (const bool weights : {false, true}) {
      for (const bool onChip : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, weights {}, on chip {}", device, weights, onChip));
        Options shares = inParts(under(PipelinedExecution({kWhole}), processes()), weights, onChip);
        shares.device(device);
        EXPECT_EQ(trained<TypeParam>(shared(shares)), trained<TypeParam>(alone(shares)));
        Options own = inParts(under(PipelinedExecution({kWhole}), 2), weights, onChip);
        own.device(device);
        EXPECT_EQ(withoutOutputs(trained<TypeParam>(own)),
                  withoutOutputs(trained<TypeParam>(together(own))));
      }
    }
  }
}

TYPED_TEST(SharedModel, PhasesHaveTheBitsOfOneProcess) {
  const SerialPhasedExecution phases({Phase("b0", "b1"), Phase("b2"), Phase("b3", "b4")});
  for (const char* device : {"cpu", "far"}) {
    Options options = under(phases, processes());
    options.device(device);
    EXPECT_EQ(trained<TypeParam>(shared(options)), trained<TypeParam>(alone(options))) << device;
  }
}

TEST(MpiModel, InferenceReturnsAllResultsInAllProcesses) {
  ResidualMlp net;
  Options options = under(PipelinedExecution(kFour));
  options.training.gradientAccumulation(1);
  options.deviceIterations(4);
  const auto results = [&](const Options& given) {
    auto model = inferenceModel(net, given);
    std::vector<std::uint64_t> hashes;
    for (const HostTensor& output : model.run(makeInputs(ResidualMlp::inputs(), 0, 4))) {
      hashes.push_back(output.hash());
    }
    model.destroy();
    return hashes;
  };
  EXPECT_EQ(results(shared(options)), results(alone(options)));
}

/// Weights that differ between processes: constants are those of the first one, too, and again when
/// they have changed.
TEST(MpiModel, ConstantWeightsAreThoseOfTheFirstProcess) {
  struct Scaled : nn::Module {
    nn::Linear first{*this, "first", 2, 2, {.bias = false}};
    nn::Linear last{*this, "last", 2, 2, {.bias = false}};
    nn::Tensor forward(nn::Tensor x) {
      {
        const nn::Block block("b0", 0);
        x = first(x);
      }
      const nn::Block block("b1", 1);
      return last(x);
    }
  };
  const auto set = [](Scaled& net, double value) {
    for (nn::Parameter* weight : net.parameters()) {
      weight->setValue(HostTensor::full(weight->type(), value));
    }
  };
  const double mine = runtime::ProcessWorld::open()->rank();
  const HostTensor x = HostTensor::full({DType::F32, Shape{processes(), 2}}, 1);
  Scaled net;
  set(net, 1 + mine);
  auto model =
      inferenceModel(net, shared(Options().replicationFactor(processes())).constantWeights(true));
  const std::vector<double> ones = model(x).toDoubles();
  EXPECT_EQ(ones, std::vector<double>(ones.size(), 4)) << "1 * 2, then 1 * 4";
  set(net, 3 + mine);
  const std::vector<double> threes = model(x).toDoubles();
  EXPECT_EQ(threes, std::vector<double>(threes.size(), 36)) << "3 * 2, then 3 * 12";
  EXPECT_EQ(net.first.weight.value().at(0), 3);
}

TEST(MpiModel, RandomModelsHaveTheBitsOfOneProcess) {
  const char* const count = std::getenv("SLUICE_MPI_MODELS");
  const std::uint64_t end = count != nullptr ? std::strtoull(count, nullptr, 10) : 8;
  std::uint64_t run = 0;
  for (std::uint64_t seed = 0; run < end; ++seed) {
    const testing::RandomNet net(seed);
    const testing::RandomTraining training(seed);
    Options options = testing::randomOptions(seed, net, training);
    options.replicationFactor(seed % 2 == 0 ? processes() : 1);
    const auto bitsUnder = [&](const Options& given) {
      Bits bits = testing::runRandomNet(seed, given, 2);
      // What replicas add up for themselves is of those here, and over after the update.
      std::erase_if(bits, [](const auto& e) { return e.first.ends_with(".accumulator"); });
      return bits;
    };
    const Bits expected = bitsUnder(alone(options));
    try {
      EXPECT_EQ(bitsUnder(shared(options)), expected) << "seed " << seed;
      ++run;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), HasSubstr("start fewer processes")) << "seed " << seed;
    }
  }
}

TEST(MpiModel, ACheckpointIsWrittenOnceAndFitsAnyNumberOfProcesses) {
  const CommonFolder folder;
  const Options options = inParts(under(PipelinedExecution(kFour), 1), false, true);
  const auto statesOf = [](const Model& model) {
    Bits bits;
    for (const auto& [name, value] : model.stateDict()) {
      bits[name] = value.hash();
    }
    return bits;
  };
  const auto step = [](auto& model, std::int64_t call) {
    model.run(makeInputs(ResidualMlp::inputs(), 4 * call, 4));
  };
  const CheckpointFolder checkpoints(folder.path());
  Bits saved;
  Bits expected;
  {
    ResidualMlp net;
    auto model = trainingModel(net, shared(options), optim::AdamW(0.01));
    step(model, 0);
    checkpoints.save(model);
    saved = statesOf(model);
    step(model, 1);
    expected = statesOf(model);
  }
  EXPECT_EQ(checkpoints.files().size(), 1U);
  for (const bool one : {true, false}) {
    ResidualMlp net;
    auto model = trainingModel(net, one ? alone(options) : shared(options), optim::AdamW(0.01));
    ASSERT_TRUE(checkpoints.resume(model).has_value());
    EXPECT_EQ(statesOf(model), saved);
    step(model, 1);
    EXPECT_EQ(statesOf(model), expected) << one;
  }
}

TEST(MpiModel, EveryProcessTracesItsOwnLanes) {
  const testing::TempFolder folder;
  ResidualMlp net;
  Options options = shared(under(PipelinedExecution(kFour)));
  options.enableProfiling(folder.path().string());
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  model.run(makeInputs(ResidualMlp::inputs(), 0, 4));
  const std::string rank = fmt::format("rank{}", options.distributed.processId());
  std::vector<std::filesystem::path> traces;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path() / rank)) {
    if (entry.path().extension() == ".slt") {
      traces.push_back(entry.path());
    }
  }
  ASSERT_EQ(traces.size(), 1U);
  const profile::Trace trace = profile::readTrace(traces[0]);
  EXPECT_FALSE(trace.lanes.empty());
  EXPECT_THAT(testing::messageOf<Unsupported>([&] { model.save(folder.path() / "model.slx"); }),
              HasSubstr("an executable is that of one process"));
}

TEST(MpiModel, RemoteMemoryInFilesIsThatOfAProcess) {
  const testing::TempFolder folder;
  Options options = inParts(under(PipelinedExecution({kWhole}), processes()), true, false);
  const Bits expected = trained<ResidualMlp>(alone(options));
  options.remoteMemory((folder.path() / "state").string());
  EXPECT_EQ(trained<ResidualMlp>(shared(options)), expected);
}

TEST(MpiModel, StreamsHaveTheBitsOfOneProcess) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const testing::RandomNet net(seed);
    const testing::RandomTraining training(seed);
    Options options = testing::randomStreaming(seed, net, training);
    options.replicationFactor(processes());
    const auto bitsUnder = [&](const Options& given) {
      Bits bits = testing::runRandomNet(seed, given, 2, true);  // replicas exchange values, too
      std::erase_if(bits, [](const auto& e) { return e.first.ends_with(".accumulator"); });
      return bits;
    };
    EXPECT_EQ(bitsUnder(shared(options)), bitsUnder(alone(options))) << "seed " << seed;
  }
}

/// The bits of weights and optimizer state.
template <class M>
Bits stateOf(const M& model) {
  Bits bits;
  for (const auto& [name, value] : model.stateDict()) {
    bits[name] = value.hash();
  }
  for (const auto& [section, tensors] : model.optimizerStateDict()) {
    for (const auto& [name, value] : tensors) {
      bits[fmt::format("{}/{}", section, name)] = value.hash();
    }
  }
  return bits;
}

/// A pipeline over all processes, and as many replicas of a network as processes.
std::vector<Options> bothWays() {
  return {under(PipelinedExecution(kFour)), under(PipelinedExecution({kWhole}), processes())};
}

/// Two steps of a model, in one go or asynchronously.
Bits twoSteps(Model& model, const Options& options, bool async) {
  const std::int64_t count = 4 * options.allReplicas();
  Bits bits;
  for (std::int64_t call = 0; call < 2; ++call) {
    std::vector<HostTensor> inputs = makeInputs(ResidualMlp::inputs(), call * count, count);
    const std::vector<HostTensor> outputs =
        async ? model.runAsync(std::move(inputs)).get() : model.run(inputs);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      bits[fmt::format("output {} of call {}", o, call)] = outputs[o].hash();
    }
  }
  bits.merge(stateOf(model));
  return bits;
}

TEST(MpiModel, AsynchronousCallsHaveTheBitsOfOneProcess) {
  for (const Options& options : bothWays()) {
    const auto steps = [](const Options& given, bool async) {
      ResidualMlp net;
      auto model = trainingModel(net, given, optim::AdamW(0.01));
      return twoSteps(model, given, async);
    };
    EXPECT_EQ(steps(shared(options), true), steps(alone(options), false));
  }
}

TEST(MpiModel, ExecutablesOfOneProcessRunInAll) {
  CommonFolder folder;
  std::int64_t number = 10;
  for (const Options& options : bothWays()) {
    const std::filesystem::path file = folder.path() / fmt::format("model{}.slx", number);
    const std::int64_t count = 4 * options.allReplicas();
    Bits expected;
    {
      ResidualMlp net;
      auto one = trainingModel(net, alone(options), optim::AdamW(0.01));
      one.compile(makeInputs(ResidualMlp::inputs(), 0, count));
      if (runtime::ProcessWorld::open()->rank() == 0) {
        one.save(file, {.exportModel = true});
      }
      folder.meet(++number);
      expected = twoSteps(one, options, false);
    }
    ResidualMlp net;
    auto model = trainingModel(net, shared(options), optim::AdamW(0.01));
    model.loadExecutable(file, OtherTarget::Refuse);
    ASSERT_TRUE(model.isCompiled());
    EXPECT_EQ(twoSteps(model, options, false), expected);
    // Also without the module.
    Model loaded = load(file, [](Options& o) {
      const Options here;
      o.distributed.configureProcessId(here.distributed.processId(),
                                       here.distributed.numProcesses());
      o.distributed.shareModel(true);
    });
    EXPECT_EQ(twoSteps(loaded, options, false), expected);
    // Replicas of their own are more than those of the file.
    EXPECT_THAT(testing::messageOf<InvalidArgument>([&] {
                  ResidualMlp other;
                  auto own = trainingModel(other, options, optim::AdamW(0.01));
                  own.loadExecutable(file);
                }),
                HasSubstr("with distributed.shareModel(true) they share those of the executable"));
  }
}

TEST(MpiModel, ProcessesShareACacheOfPrograms) {
  CommonFolder folder;
  for (Options options : bothWays()) {
    options.enableExecutableCaching((folder.path() / "cache").string());
    ResidualMlp first;
    auto one = trainingModel(first, alone(options), optim::AdamW(0.01));
    const Bits expected = twoSteps(one, options, false);
    folder.meet(11);
    ResidualMlp net;
    auto model = trainingModel(net, shared(options), optim::AdamW(0.01));
    model.compile(makeInputs(ResidualMlp::inputs(), 0, 4 * options.allReplicas()));
    EXPECT_TRUE(model.compiled().cached);
    EXPECT_EQ(twoSteps(model, options, false), expected);
    folder.meet(12);
  }
}

const std::int64_t kRows = ResidualMlp::inputs()[0].shape.dims()[0];

/// Trains from queues; what comes out of them, and the state.
Bits fromQueues(const Options& options, data::OutfeedMode mode, std::int64_t calls) {
  const std::int64_t count = 4 * options.allReplicas() * calls;
  data::InfeedQueue infeed(data::batch(
      data::iterate(data::tensorDataset(makeInputs(ResidualMlp::inputs(), 0, count))), kRows));
  data::OutfeedQueue outfeed(mode);
  ResidualMlp net;
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  Bits bits;
  for (std::int64_t call = 0; call < calls; ++call) {
    if (call % 2 == 0) {
      model.run(infeed, outfeed);
    } else {
      model.runAsync(infeed, outfeed).get();
    }
    for (const auto& [name, value] : outfeed.dequeueNamed()) {
      bits[fmt::format("{} of call {}", name, call)] = value.hash();
    }
  }
  EXPECT_EQ(infeed.dequeued(), count);
  bits.merge(stateOf(model));
  return bits;
}

TEST(MpiModel, QueuesHaveTheBitsOfOneProcess) {
  for (const data::OutfeedMode mode : {data::OutfeedMode::All, data::OutfeedMode::Last}) {
    for (const Options& options : bothWays()) {
      EXPECT_EQ(fromQueues(shared(options), mode, 3), fromQueues(alone(options), mode, 3));
    }
    const Options twice = under(PipelinedExecution({kWhole}), 2 * processes());
    EXPECT_EQ(fromQueues(shared(twice), mode, 2), fromQueues(alone(twice), mode, 2));
  }
}

TEST(MpiModel, LoadersHaveTheBitsOfOneProcess) {
  const std::vector<HostTensor> samples = makeInputs(ResidualMlp::inputs(), 0, 32);
  for (const Options& options : bothWays()) {
    const auto epochs = [&](const Options& given) {
      ResidualMlp net;
      auto model = trainingModel(net, given, optim::AdamW(0.01));
      DataLoader loader(
          given, data::tensorDataset(samples), kRows, {.shuffle = data::Shuffle::Yes});
      for (int epoch = 0; epoch < 2; ++epoch) {
        while (const std::optional<Batch> batch = loader.next()) {
          model.run(*batch);
        }
      }
      return stateOf(model);
    };
    EXPECT_EQ(epochs(shared(options)), epochs(alone(options)));
  }
}

TEST(MpiModel, RefusesOtherDataThanThatOfTheOthers) {
  const std::int32_t rank = runtime::ProcessWorld::open()->rank();
  for (const Options& options : bothWays()) {
    ResidualMlp net;
    auto model = trainingModel(net, shared(options), optim::AdamW(0.01));
    const std::int64_t count = 4 * options.allReplicas();
    model.run(makeInputs(ResidualMlp::inputs(), 0, count));
    const std::string message = testing::messageOf<InvalidArgument>(
        [&] { model.run(makeInputs(ResidualMlp::inputs(), rank == 1 ? 1 : 0, count)); });
    EXPECT_THAT(message, HasSubstr("rank 1 (process "));
    EXPECT_THAT(message, HasSubstr("was called with other data than rank 0"));
  }
}

TEST(MpiModel, RefusesWhatOneProcessDoesAlone) {
  const auto refused = [](const Options& options, auto call) {
    return testing::messageOf<Error>([&] {
      ResidualMlp net;
      auto model = trainingModel(net, options, optim::AdamW(0.01));
      call(model);
    });
  };
  const Options options = shared(under(PipelinedExecution(kFour)));
  Options recovers = options.clone();
  recovers.recovery(2);
  EXPECT_THAT(refused(recovers, [](const auto&) {}),
              HasSubstr("recovery of failed steps works in one process only"));
  Options apart = options.clone();
  apart.broadcastBuffers(false);
  EXPECT_THAT(refused(apart, [](const auto&) {}),
              HasSubstr("broadcastBuffers(false) works in one process only"));
  data::InfeedQueue infeed(data::batch(
      data::iterate(data::tensorDataset(makeInputs(ResidualMlp::inputs(), 0, 4))), kRows));
  EXPECT_THAT(refused(options,
                      [&](auto& model) {
                        data::OutfeedQueue outfeed(data::OutfeedMode::All, 3);
                        model.run(infeed, outfeed);
                      }),
              HasSubstr("4 iterations, and the capacity of the queue is 3"));
  EXPECT_THAT(refused(options,
                      [](auto& model) {
                        const std::vector<TensorType> types = ResidualMlp::inputs();
                        model.run(types,
                                  std::unique_ptr<runtime::HostFeed>(),
                                  std::unique_ptr<ResultSink>());
                      }),
              HasSubstr("streams of your own would get only those of one process"));
}

TEST(MpiModel, RefusesOtherOptionsWithADifference) {
  ResidualMlp net;
  Options options = under(PipelinedExecution({kWhole}));
  const std::int32_t rank = runtime::ProcessWorld::open()->rank();
  options.training.gradientAccumulation(rank == 1 ? 2 : 4);
  auto model = trainingModel(net, options, optim::AdamW(0.01));
  const std::string message = testing::messageOf(
      [&] { model.compile(makeInputs(ResidualMlp::inputs(), 0, rank == 1 ? 2 : 4)); });
  EXPECT_THAT(message, HasSubstr("rank 1 (process "));
  EXPECT_THAT(message, HasSubstr("has another program or options than rank 0"));
  EXPECT_THAT(message, HasSubstr("- training.gradientAccumulation: 4"));
  EXPECT_THAT(message, HasSubstr("+ training.gradientAccumulation: 2"));
}

TEST(MpiModel, RefusesWhatDoesNotFit) {
  ResidualMlp net;
  const auto refused = [&](const Options& options) {
    return testing::messageOf<Error>([&] {
      ResidualMlp own;
      auto model = trainingModel(own, options, optim::AdamW(0.01));
      model.run(makeInputs(ResidualMlp::inputs(), 0, 4 * options.replicationFactor()));
    });
  };
  EXPECT_THAT(refused(shared(under(PipelinedExecution({kWhole})))),
              HasSubstr("the model uses 1: start fewer processes"));
  EXPECT_THAT(refused(shared(under(PipelinedExecution({kWhole}), 5))),
              HasSubstr("processes cannot share 5 replicas"));
  Options other = under(PipelinedExecution({kWhole}));
  other.distributed.configureProcessId(0, 7);
  EXPECT_THAT(refused(other), HasSubstr("this is process 0 of 7, and MPI that it is"));
  Options simulated = under(PipelinedExecution({kWhole}));
  simulated.device("sim");
  EXPECT_THAT(refused(simulated), HasSubstr("devices of kind 'sim' work in one process only"));
}

}  // namespace
}  // namespace sluice
