// Variables and activations in remote memory, under strategies with and without phases.
#include <csignal>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/nn/tracer.h"
#include "sluice/program/program.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/runs_on_cpu.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::BlockedCnn;
using testing::deep;
using testing::DeepGpt;
using testing::DeepTraining;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::kUpdates;
using testing::mostBytes;
using testing::onOneDevice;
using testing::ResidualMlp;
using testing::train;

/// What is off the devices in the other strategies changes no bit either.
TEST(Offload, OfEveryClassGivesTheSameBits) {
  const TensorLocationSettings off = TensorLocationSettings().useOnChipStorage(false);
  const Bits cnn = train<BlockedCnn>(onOneDevice(), kUpdates);
  const Bits mlp = train<ResidualMlp>(onOneDevice(), kUpdates);
  const std::vector<Stage> stages = {Stage("b0", "b1"), "b2", Stage("b3", "b4")};
  for (int classes = 1; classes < 16; ++classes) {
    for (const Strategy& strategy : {Strategy(ShardedExecution(stages)),
                                     Strategy(PipelinedExecution(stages)),
                                     Strategy(PipelinedExecution(stages).schedule("zb-h1"))}) {
      Options options = onOneDevice();
      options.setExecutionStrategy(strategy);
      if ((classes & 1) != 0) {
        options.tensorLocations.setOptimizerLocation(off);
      }
      if ((classes & 2) != 0) {
        options.tensorLocations.setWeightLocation(off);
      }
      if ((classes & 4) != 0) {
        options.tensorLocations.setAccumulatorLocation(off);
      }
      if ((classes & 8) != 0) {
        if (strategy.kind() == parallel::StrategyKind::Sharded) {
          continue;  // a stage holds one micro-batch, which cannot leave
        }
        options.tensorLocations.setActivationLocation(off);
      }
      SCOPED_TRACE(fmt::format("{}, classes {}", strategy.str(), classes));
      EXPECT_EQ(differenceBetweenRounds(cnn, train<BlockedCnn>(options, kUpdates)), "");
      EXPECT_EQ(differenceBetweenRounds(mlp, train<ResidualMlp>(options, kUpdates)), "");
    }
  }
}

TEST(Offload, OfOptimizerStateTakesItFromTheDevices) {
  const auto planned = [](bool offload) {
    DeepGpt net(6, 32, 2, 8);
    Options options;
    options.training.gradientAccumulation(2);
    if (offload) {
      options.tensorLocations.setOptimizerLocation(
          TensorLocationSettings().useOnChipStorage(false));
    }
    auto model = trainingModel(net, options, optim::AdamW(1e-3));
    model.compile(testing::makeInputs(net.inputs(), 0, 2));
    return model.program();
  };
  const program::Program on = planned(false);
  const program::Program off = planned(true);
  std::size_t weights = 0;
  const DeepGpt net(6, 32, 2, 8);
  for (const nn::Parameter* parameter : net.parameters()) {
    weights += parameter->type().bytes();
  }
  // Two moments per weight leave, and come and go once per update.
  EXPECT_GE(off.remote.stateBytes, 2 * weights);
  EXPECT_LE(mostBytes(off) + off.remote.stateBytes, mostBytes(on) + off.remote.stateBytes / 4);
  EXPECT_EQ(program::remoteBytesPerRound(on), 0U);
  EXPECT_EQ(program::remoteBytesPerRound(off), 2 * 2 * weights);
}

/// Activations that a pipeline keeps for the backward pass, and what it costs to have them in
/// remote memory in the meantime.
TEST(Offload, OfActivationsTakesThemFromAPipeline) {
  constexpr std::int32_t kMicroBatches = 8;
  const auto optionsOf = [](const std::string& schedule, bool offload) {
    const std::vector<Stage> stages = {"b0", "b1", "b2", "b3", "b4"};
    Options options = onOneDevice();
    options.training.gradientAccumulation(kMicroBatches);
    options.setExecutionStrategy(PipelinedExecution(stages).schedule(schedule));
    if (offload) {
      options.tensorLocations.setActivationLocation(
          TensorLocationSettings().useOnChipStorage(false));
    }
    return options;
  };
  const auto programOf = [](const Options& options) {
    BlockedCnn net;
    auto model = trainingModel(net, options, optim::SGD(0.01));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, kMicroBatches));
    return model.program();
  };
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(schedule);
    const program::Program on = programOf(optionsOf(schedule, false));
    const program::Program off = programOf(optionsOf(schedule, true));
    EXPECT_LT(off.devices[0].totalBytes(), on.devices[0].totalBytes());
    EXPECT_EQ(on.remote.transientBytes, 0U);
    // Each leaves once per micro-batch and comes back for the backward pass.
    std::size_t stored = 0;
    std::size_t loaded = 0;
    for (const program::Transfer& transfer : off.transfers) {
      stored += off.buffer(transfer.to).isRemote() ? transfer.bytes : 0;
      loaded += off.buffer(transfer.from).isRemote() ? transfer.bytes : 0;
    }
    EXPECT_GT(stored, 0U);
    EXPECT_GE(loaded, stored);
    EXPECT_EQ(program::remoteBytesPerRound(off), (stored + loaded) * kMicroBatches);
    EXPECT_EQ(differenceBetweenRounds(train<BlockedCnn>(optionsOf(schedule, false), kUpdates),
                                      train<BlockedCnn>(optionsOf(schedule, true), kUpdates)),
              "");
  }
}

/// Stages that hold few micro-batches also have fewer slots for what travels.
TEST(Offload, OfActivationsSavesMemoryInShortPipelines) {
  const auto optionsOf = [](const std::vector<Stage>& stages, bool offload) {
    Options options = onOneDevice();
    options.setExecutionStrategy(PipelinedExecution(stages).schedule("1f1b"));
    if (offload) {
      options.tensorLocations.setActivationLocation(
          TensorLocationSettings().useOnChipStorage(false));
    }
    return options;
  };
  const auto programOf = [](const Options& options) {
    BlockedCnn net;
    auto model = trainingModel(net, options, optim::SGD(0.01));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, model.microBatchesPerStep()));
    return model.program();
  };
  // The first stage holds as many micro-batches as there are stages.
  const std::vector<std::vector<Stage>> pipelines = {{"b0", "b1", Stage("b2", "b3", "b4")},
                                                     {"b0", "b1", "b2", Stage("b3", "b4")},
                                                     {"b0", "b1", "b2", "b3", "b4"}};
  for (const std::vector<Stage>& stages : pipelines) {
    SCOPED_TRACE(stages.size());
    const program::Program on = programOf(optionsOf(stages, false));
    const program::Program off = programOf(optionsOf(stages, true));
    EXPECT_GT(off.remote.transientBytes, 0U);
    EXPECT_LT(off.devices[0].totalBytes(), on.devices[0].totalBytes());
    // The last two hold one and two micro-batches, which stay.
    for (const program::Transfer& transfer : off.transfers) {
      if (off.buffer(transfer.to).isRemote()) {
        EXPECT_LT(off.buffer(transfer.from).device, static_cast<int>(stages.size()) - 2);
      }
    }
    EXPECT_EQ(differenceBetweenRounds(train<BlockedCnn>(optionsOf(stages, false), kUpdates),
                                      train<BlockedCnn>(optionsOf(stages, true), kUpdates)),
              "");
  }
}

TEST(Offload, OfActivationsIsRefusedWhereNoneCanLeave) {
  const auto message = [](const Strategy& strategy, std::int64_t accumulation) {
    Options options = onOneDevice();
    options.training.gradientAccumulation(accumulation);
    options.setExecutionStrategy(strategy);
    options.tensorLocations.setActivationLocation(TensorLocationSettings().useOnChipStorage(false));
    BlockedCnn net;
    auto model = trainingModel(net, options, optim::SGD(0.01));
    return testing::messageOf([&] {
      model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, model.microBatchesPerStep()));
    });
  };
  const auto refused = AllOf(HasSubstr("setActivationLocation"),
                             HasSubstr("more than 2 micro-batches"),
                             HasSubstr("\"gpipe\", with a gradientAccumulation of at least 3"));
  const std::vector<Stage> two = {Stage("b0", "b1"), Stage("b2", "b3", "b4")};
  EXPECT_THAT(message(ShardedExecution(two), 4), refused);
  EXPECT_THAT(message(PipelinedExecution(two).schedule("1f1b"), 4), refused);
  EXPECT_THAT(message(PipelinedExecution(two).schedule("gpipe"), 2), refused);
  // The message proposes these.
  EXPECT_EQ(message(PipelinedExecution(two).schedule("gpipe"), 3), "nothing thrown");
  EXPECT_EQ(message(SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"}, 4), "nothing thrown");
}

TEST(Offload, KeepsSmallTensorsOnTheDevices) {
  const auto remoteBytes = [](std::int64_t smallest) {
    DeepGpt net(2, 32, 2, 8);
    Options options;
    options.tensorLocations.setWeightLocation(
        TensorLocationSettings().useOnChipStorage(false).minElementsForOffChip(smallest));
    auto model = trainingModel(net, options, optim::SGD(1e-3));
    model.compile(testing::makeInputs(net.inputs(), 0, 1));
    std::size_t bytes = 0;
    for (const nn::Parameter* parameter : net.parameters()) {
      bytes += parameter->type().shape.elements() >= smallest ? parameter->type().bytes() : 0;
    }
    return std::pair(model.program().remote.stateBytes, bytes);
  };
  for (const std::int64_t smallest : {2, 33, 4096}) {
    const auto [planned, expected] = remoteBytes(smallest);
    EXPECT_GE(planned, expected);
    EXPECT_LT(planned, expected + 64 * 40);  // each is aligned
  }
  EXPECT_EQ(remoteBytes(1 << 20).first, 0U);
}

TEST(Offload, ATensorMayHaveALocationOfItsOwn) {
  const auto trained = [](const Strategy& strategy, auto locate) {
    Options options = onOneDevice();
    options.setExecutionStrategy(strategy);
    locate(options.tensorLocations);
    ResidualMlp net;
    auto model = trainingModel(net, options, optim::AdamW(0.01));
    const std::int64_t count = model.microBatchesPerStep();
    for (std::int64_t update = 0; update < kUpdates; ++update) {
      model.run(testing::makeInputs(ResidualMlp::inputs(), update * count, count));
    }
    std::set<std::string> remote;
    std::set<std::string> moved;
    for (const program::PlacedVariable& placed : model.session().state().plan().variables()) {
      if (placed.device == program::kRemote) {
        remote.insert(placed.variable.name);
      }
    }
    for (const program::Transfer& transfer : model.program().transfers) {
      const program::Buffer& to = model.program().buffer(transfer.to);
      if (to.isRemote() && to.region == program::Region::Transient) {
        moved.insert(transfer.name);
      }
    }
    return std::tuple(testing::bitsOf(model.session()), remote, moved);
  };
  using Locations = TensorLocationOptions;
  const Strategy pipeline = PipelinedExecution{Stage("b0", "b1"), Stage("b2", "b3", "b4")};
  const Strategy phased = SerialPhasedExecution{"b0", "b1", "b2", "b3", "b4"};
  const auto [plain, none, nothing] = trained(pipeline, [](Locations&) {});
  ASSERT_TRUE(none.empty());
  std::string weight;
  for (const auto& [name, bits] : plain) {
    weight = name.ends_with(".weight") ? name : weight;
  }
  ASSERT_FALSE(weight.empty());
  const auto [one, remote, still] =
      trained(pipeline, [&](Locations& l) { l.setTensorLocation(weight, false); });
  EXPECT_EQ(differenceBetweenRounds(plain, one), "");
  EXPECT_EQ(remote, std::set{weight});
  const auto [all, phasedRemote, activations] = trained(phased, [](Locations&) {});
  ASSERT_TRUE(phasedRemote.contains(weight));
  ASSERT_FALSE(activations.empty());
  const std::string activation = *activations.begin();
  const auto [kept, others, fewer] = trained(phased, [&](Locations& l) {
    l.setTensorLocation(weight, true).setTensorLocation(activation, true);
  });
  EXPECT_EQ(differenceBetweenRounds(plain, kept), "");
  EXPECT_EQ(others.size() + 1, phasedRemote.size());
  EXPECT_FALSE(others.contains(weight));
  EXPECT_FALSE(fewer.contains(activation));
  // Off the devices though its class stays.
  const auto [single, rest, lone] = trained(phased, [&](Locations& l) {
    l.setActivationLocation(TensorLocationSettings().useOnChipStorage(true));
    l.setTensorLocation(activation, false);
  });
  EXPECT_EQ(differenceBetweenRounds(plain, single), "");
  EXPECT_EQ(lone, std::set{activation});
  EXPECT_THAT(testing::messageOf([&] {
                trained(pipeline, [](Locations& l) { l.setTensorLocation("nobody", false); });
              }),
              HasSubstr("named 'nobody'"));
  EXPECT_THAT(testing::messageOf([&] {
                trained(pipeline,
                        [](Locations& l) { l.setTensorLocation("optimizer.step", false); });
              }),
              HasSubstr("always stays on its device"));
}

/// Where values are traced, ops of one name have numbers, and still the location of their name.
TEST(Offload, OfANameIsOfAllItsOpsAlsoWhereValuesAreTraced) {
  const testing::TempFolder folder;
  const auto remoteBytes = [&](bool traces) {
    BlockedCnn net;
    Options options = onOneDevice();
    options.training.gradientAccumulation(8);
    options.setExecutionStrategy(PipelinedExecution{"b0", "b1", "b2", "b3", "b4"}.schedule("1f1b"));
    options.tensorLocations.setTensorLocation("relu", false);
    if (traces) {
      options.enableProfiling(folder.path()).traceValues(TraceValues::Hashes);
    }
    auto model = trainingModel(net, options, optim::SGD(0.01));
    model.compile(testing::makeInputs(BlockedCnn::inputs(), 0, 8));
    return program::remoteBytesPerRound(model.program());
  };
  EXPECT_GT(remoteBytes(false), 0U);
  EXPECT_EQ(remoteBytes(true), remoteBytes(false));
}

/// Four layers in blocks of their own; the result of the first is marked.
struct MarkedNet : nn::Module {
  std::optional<bool> onChip = {};
  std::vector<std::unique_ptr<nn::Linear>> layers;
  std::string marked = {};  // the op that makes the marked value, once it is traced

  MarkedNet() {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(std::make_unique<nn::Linear>(*this, fmt::format("layer{}", i), 8, 8));
    }
  }
  std::vector<nn::Tensor> forward(nn::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const nn::Block block(fmt::format("b{}", i));
      x = nn::tanh((*layers[i])(x));
      if (i == 0 && onChip) {
        marked = nn::Tracer::current().graph().op(x.value().op).name;
        x = nn::tensorLocation(x, *onChip);
      }
    }
    const nn::Block block("b3");
    return {nn::identityLoss(x * x)};
  }
};

TEST(Offload, AMarkComesBehindANameAndBeforeTheClass) {
  if (!testing::runsOnCpu()) {
    GTEST_SKIP() << testing::kNamesCpuKernels;
  }
  struct Result {
    std::set<std::string> moved;
    Bits bits;
    std::string marked;
    std::string warnings;
  };
  const auto trained = [](std::optional<bool> onChip, auto change) {
    MarkedNet net;
    net.onChip = onChip;
    Options options;
    options.training.gradientAccumulation(2);
    options.setExecutionStrategy(SerialPhasedExecution{"b0", "b1", "b2", "b3"});
    change(options);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    ::testing::internal::CaptureStderr();
    model.run({HostTensor::full({DType::F32, Shape{6, 8}}, 0.5)});
    Result result{.moved = {},
                  .bits = testing::bitsOf(model.session()),
                  .marked = net.marked,
                  .warnings = ::testing::internal::GetCapturedStderr()};
    for (const program::Transfer& transfer : model.program().transfers) {
      if (model.program().buffer(transfer.to).isRemote()) {
        result.moved.insert(transfer.name);
      }
    }
    return result;
  };
  const auto nothing = [](Options&) {};
  const auto onChipClass = [](Options& options) {
    options.tensorLocations.setActivationLocation(TensorLocationSettings().useOnChipStorage(true));
  };
  const Result plain = trained(std::nullopt, nothing);
  const Result kept = trained(true, nothing);
  EXPECT_TRUE(plain.moved.contains(kept.marked));
  EXPECT_FALSE(kept.moved.contains(kept.marked));
  EXPECT_EQ(kept.moved.size() + 1, plain.moved.size());
  EXPECT_EQ(differenceBetweenRounds(plain.bits, kept.bits), "");
  // Against its class, and under a name that the options give another location.
  EXPECT_TRUE(trained(false, onChipClass).moved.contains(kept.marked));
  EXPECT_TRUE(trained(true, [&](Options& options) {
                options.tensorLocations.setTensorLocation(kept.marked, false);
              }).moved.contains(kept.marked));
  // What the backward pass makes again is nowhere.
  EXPECT_THAT(
      trained(true, [](Options& options) { options.recomputation(Recomputation::All); }).warnings,
      HasSubstr(fmt::format("location of '{}' is ignored", kept.marked)));
}

TEST(RemoteMemory, MayBeAFile) {
  const testing::TempFolder folder;
  const std::string path = (folder / "remote").string();
  const Strategy strategy = SerialPhasedExecution(DeepGpt::phases(4));
  const Bits expected = DeepTraining(deep(strategy)).bits(2);
  Options options = deep(strategy);
  options.remoteMemory(path);
  {
    DeepTraining training(options);
    EXPECT_EQ(differenceBetweenRounds(expected, training.bits(2)), "");
    EXPECT_EQ(std::filesystem::file_size(path + ".state"), training.program().remote.stateBytes);
    // A file that is cut short is an error that names it, and the model stays usable.
    std::filesystem::resize_file(path + ".state", 0);
    std::filesystem::resize_file(path + ".state.next", 0);
    EXPECT_THAT(testing::messageOf<RecoverableError>([&] { training.bits(1); }),
                HasSubstr(path + ".state"));
  }
  EXPECT_FALSE(std::filesystem::exists(path + ".state"));
  const Options nowhere = options.clone().remoteMemory("/no/such/folder/remote");
  EXPECT_THAT(testing::messageOf<RecoverableError>([&] { DeepTraining(nowhere).bits(1); }),
              HasSubstr("/no/such/folder/remote.state"));
  const Options small = options.clone().remoteMemory("", "64KiB");
  EXPECT_THAT(testing::messageOf<OutOfMemory>([&] { DeepTraining(small).program(); }),
              HasSubstr("remoteMemory allows 65536"));
}

/// While it lives files cannot be written behind their first bytes.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : before_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &limit_);
    ::signal(SIGXFSZ, before_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int);
};

TEST(RemoteMemory, ADiskThatFailsLosesNoCompleteUpdate) {
  Options options = deep(SerialPhasedExecution(DeepGpt::phases(4)));
  DeepTraining undisturbed(options.clone());
  undisturbed.bits(2);
  const Bits expected = undisturbed.bits(1);
  const testing::TempFolder folder;
  const std::string path = (folder / "disk").string();
  options.remoteMemory(path);
  DeepTraining training(options);
  const Bits two = training.bits(2);
  const auto half = static_cast<rlim_t>(std::filesystem::file_size(path + ".state") / 2);
  for (const rlim_t room : {rlim_t{0}, half}) {
    const FullDisk disk(room);
    EXPECT_THAT(testing::messageOf<RecoverableError>([&] { training.bits(1); }), HasSubstr(path));
  }
  EXPECT_EQ(differenceBetweenRounds(two, training.bits(0)), "");
  EXPECT_EQ(differenceBetweenRounds(expected, training.bits(1)), "");
}

/// Six phases of two stages; the stages of odd phases have two products each, those of even ones

}  // namespace
}  // namespace sluice
