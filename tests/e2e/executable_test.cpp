// A model that was loaded from an executable goes on with the bits of the model that was saved,
// under every strategy; and no file, however it was made, does harm.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/executable_file.h"
#include "sluice/api/executable_options.h"
#include "sluice/base/input_file.h"
#include "sluice/base/section_file.h"
#include "sluice/ops/op_list.h"
#include "sluice/program/loaded.h"
#include "sluice/program/text_form.h"
#include "tests/e2e/blocked_networks.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/remote_support.h"
#include "tests/e2e/strategy_cases.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using testing::Bits;
using testing::bitsOf;
using testing::BlockedCnn;
using testing::BlockedGpt;
using testing::differenceBetweenRounds;
using ::testing::HasSubstr;
using testing::makeInputs;
using testing::messageOf;
using testing::Mlp;
using testing::onOneDevice;
using testing::ResidualMlp;
using testing::StrategyCase;
using testing::strategyCases;
using testing::TempFolder;

// --- the same bits -------------------------------------------------------------

std::vector<HostTensor> stepInputs(const std::vector<TensorType>& types,
                                   const Model& model,
                                   std::int64_t step) {
  const std::int64_t perRun = model.microBatchesPerStep() * model.options().replicationFactor();
  return makeInputs(types, step * perRun, perRun);
}

/// Bits of all variables and outputs after two more steps.
Bits goesOn(Model& model, const std::vector<TensorType>& types) {
  Bits outputs;
  for (std::int64_t step = 1; step < 3; ++step) {
    const std::vector<HostTensor> out = model.run(stepInputs(types, model, step));
    for (std::size_t i = 0; i < out.size(); ++i) {
      outputs[fmt::format("output {} of step {}", i, step)] = out[i].hash();
    }
  }
  Bits bits = bitsOf(model.session());
  bits.merge(outputs);
  return bits;
}

template <class Net>
void expectSameBits(const Options& options) {
  const TempFolder folder;
  Net net;
  auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
  model.run(stepInputs(Net::inputs(), model, 0));
  model.save(folder / "net.slx");
  const Bits expected = goesOn(model, Net::inputs());
  Model loaded = load(folder / "net.slx", {.otherTarget = OtherTarget::Refuse});
  EXPECT_EQ(loaded.compilationTime(), 0);
  EXPECT_EQ(loaded.updates(), options.deviceIterations());
  EXPECT_EQ(differenceBetweenRounds(expected, goesOn(loaded, Net::inputs())), "");
  EXPECT_EQ(loaded.compilationTime(), 0);
  EXPECT_EQ(loaded.explain(), model.explain());
}

class Executable : public ::testing::TestWithParam<StrategyCase> {};

TEST_P(Executable, GoesOnWithTheBitsOfTheModel) {
  for (const char* devices : {"cpu", "far", "cpu,far"}) {
    SCOPED_TRACE(devices);
    Options options = onOneDevice();
    GetParam().set(options.device(devices));
    expectSameBits<BlockedCnn>(options);
    if (std::string_view(devices) == "cpu") {
      expectSameBits<BlockedGpt>(options);
      options.deviceIterations(2).threads(2);
      expectSameBits<ResidualMlp>(options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Matrix,
                         Executable,
                         ::testing::ValuesIn(strategyCases()),
                         [](const auto& tested) { return tested.param.name; });

struct Classifier : nn::Module {
  nn::Linear fc{*this, "fc", 6, 3};
  nn::Tensor forward(nn::Tensor x) { return nn::softmax(fc(x), -1); }
};

TEST(Executables, OfInferenceHaveAllProgramsAndTheSameResults) {
  const TempFolder folder;
  Classifier net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  const std::vector<HostTensor> four = makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1);
  const std::vector<HostTensor> six = makeInputs({{DType::F32, Shape{6, 6}}}, 0, 1);
  const HostTensor ofFour = model.run(four)[0];
  model.compileAndExport(folder / "net.slx", six);
  Model loaded = load(folder / "net.slx");
  EXPECT_TRUE(loaded.run(four)[0].sameBits(ofFour));
  EXPECT_TRUE(loaded.run(six)[0].sameBits(model.run(six)[0]));
  EXPECT_EQ(loaded.compilationTime(), 0);
  EXPECT_EQ(loaded.getTensorNames(), model.getTensorNames());
  EXPECT_THAT(messageOf([&] {
                loaded.run(makeInputs({{DType::F32, Shape{8, 6}}}, 0, 1));
              }),
              AllOf(HasSubstr("f32[2, 6]"), HasSubstr("not (f32[4, 6])")));
  EXPECT_THAT(messageOf([&] { loaded.module(); }), HasSubstr("executable"));
  // A loaded model can be saved again.
  loaded.save(folder / "again.slx");
  EXPECT_TRUE(load(folder / "again.slx").run(four)[0].sameBits(ofFour));
}

/// Inputs by name, nested results, an input that may be left out.
struct Nested : nn::Module {
  static std::vector<Input> inputs() {
    return {Input("x"), Input("scale", HostTensor::scalar(2.0F))};
  }
  std::map<std::string, nn::Tensor> forward(nn::Tensor x, nn::Tensor scale) {
    return {{"scaled", x * scale}, {"negated", 0.0 - x}};
  }
};

TEST(Executables, KeepTheStructureOfInputsAndResults) {
  const TempFolder folder;
  Nested net;
  auto model = inferenceModel(net, Options());
  const HostTensor x = HostTensor::of<float>({2}, {1, -3});
  model.compileAndExport(folder.path(), Inputs(Keyword{"x", x}));
  Model loaded = load(folder / "inference.slx");
  const HostStructure result = loaded.run(Inputs(Keyword{"x", x}));
  EXPECT_EQ(result["scaled"].tensor().toDoubles(), (std::vector<double>{2, -6}));
  EXPECT_EQ(result["negated"].tensor().toDoubles(), (std::vector<double>{-1, 3}));
  EXPECT_THAT(messageOf([&] { loaded.run(Inputs(Keyword{"y", x})); }), HasSubstr("'y'"));
}

TEST(Executables, OfBuildersRun) {
  const TempFolder folder;
  Builder builder;
  const TensorId x = builder.addInputTensor({DType::F32, Shape{2, 2}}, "x");
  const TensorId w =
      builder.addInitializedInputTensor(HostTensor::of<float>({2, 2}, {1, 2, 3, 4}), "w");
  builder.addOutputTensor(builder.aiOnnx().matmul({x, w}));
  auto model = inferenceModel(builder, Options());
  const HostTensor given = HostTensor::of<float>({2, 2}, {1, 0, 0, 1});
  model.compileAndExport(folder / "b.slx", {given});
  EXPECT_EQ(load(folder / "b.slx").run({given})[0].toDoubles(), (std::vector<double>{1, 2, 3, 4}));
}

TEST(Executables, RunInAProcessThatNeverSawTheModel) {
  const TempFolder folder;
  Classifier net;
  auto model = inferenceModel(net, Options());
  const std::vector<HostTensor> inputs = makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1);
  model.compileAndExport(folder / "net.slx", inputs);
  writeFileAtomically(folder / "x.npy", data::npyBytes(inputs[0]));
  const std::string command = fmt::format("'{}' run '{}' --input input0='{}' --output output0='{}'",
                                          SLUICE_PROGRAM,
                                          (folder / "net.slx").string(),
                                          (folder / "x.npy").string(),
                                          (folder / "y.npy").string());
  ASSERT_EQ(std::system(command.c_str()), 0) << command;  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(data::readNpy((folder / "y.npy").string()).sameBits(model.run(inputs)[0]));
}

/// A machine without the devices compiles for one that has them.
TEST(Executables, OfModelsWithoutDevicesAreThoseOfModelsWithThem) {
  const TempFolder folder;
  const auto attached = [](Options& options) { options.connectionType(ConnectionType::Always); };
  for (const StrategyCase& strategy : strategyCases()) {
    SCOPED_TRACE(strategy.name);
    Options options = onOneDevice().randomSeed(5);
    strategy.set(options);
    BlockedGpt net;
    auto model = trainingModel(net, options.clone(), optim::AdamW(0.01));
    const std::vector<HostTensor> first = stepInputs(BlockedGpt::inputs(), model, 0);
    model.run(first);
    const Bits expected = goesOn(model, BlockedGpt::inputs());
    BlockedGpt same;
    trainingModel(same, options.connectionType(ConnectionType::Never), optim::AdamW(0.01))
        .compileAndExport(folder / "net.slx", first);
    Model loaded =
        load(folder / "net.slx", {.editOptions = attached, .otherTarget = OtherTarget::Refuse});
    loaded.run(first);
    EXPECT_EQ(differenceBetweenRounds(expected, goesOn(loaded, BlockedGpt::inputs())), "");
  }
}

TEST(Executables, AreSavedInTheFolderThatIsNamed) {
  const TempFolder folder;
  Classifier net;
  auto model = inferenceModel(net, Options().modelName("group/net"));
  model.compileAndExport(folder.path(), makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1));
  EXPECT_NO_THROW(load(folder / "group_net.slx"));
  EXPECT_THAT(messageOf<FileError>([&] { model.save(folder / std::string(300, 'n')); }),
              HasSubstr("File name too long"));
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(messageOf<FileError>([&] { model.save(folder / "loop"); }),
              HasSubstr("symbolic links"));
}

/// Files that released versions of the format have written. They may be for another machine, and
/// are then compiled again. SLUICE_WRITE_FIXTURES=1 writes that of this version.
TEST(Executables, OfEarlierVersionsLoad) {
  const std::filesystem::path folder = SLUICE_FIXTURES;
  const std::filesystem::path current =
      folder / fmt::format("v{}.{}.slx", kExecutableVersion.major, kExecutableVersion.minor);
  const std::vector<HostTensor> inputs = makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1);
  if (std::getenv("SLUICE_WRITE_FIXTURES") != nullptr) {  // NOLINT(concurrency-mt-unsafe)
    Classifier net;
    inferenceModel(net, Options().device("cpu")).compileAndExport(current, inputs);
  }
  ASSERT_TRUE(std::filesystem::exists(current)) << "run this test with SLUICE_WRITE_FIXTURES=1";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().string());
    Model loaded = load(file.path());
    Classifier net;
    auto model = inferenceModel(net, Options().device("cpu"));
    model.loadStateDict(loaded.stateDict());
    EXPECT_TRUE(loaded.run(inputs)[0].sameBits(model.run(inputs)[0]));
  }
}

// --- a model of the same module --------------------------------------------------

TEST(LoadExecutable, TakesProgramsAndKeepsValues) {
  const TempFolder folder;
  Mlp saved;
  auto first = trainingModel(saved, Options().randomSeed(1), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  first.compileAndExport(folder / "mlp.slx", inputs, {.exportModel = false});
  Mlp net;
  auto model = trainingModel(net, Options().randomSeed(1), optim::AdamW(0.01));
  model.loadExecutable(folder / "mlp.slx", OtherTarget::Refuse);
  EXPECT_TRUE(model.isCompiled());
  EXPECT_TRUE(model.run(inputs)[1].sameBits(first.run(inputs)[1]));
  EXPECT_EQ(model.compilationTime(), 0);
  EXPECT_EQ(differenceBetweenRounds(bitsOf(first.session()), bitsOf(model.session())), "");
  EXPECT_THAT(messageOf([&] { load(folder / "mlp.slx"); }), HasSubstr("loadExecutable"));
}

TEST(LoadExecutable, LeavesTheWarningsOfTheCompilerToCompiling) {
  const TempFolder folder;
  const std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  const auto said = [](const auto& work) {
    ::testing::internal::CaptureStderr();
    work();
    return ::testing::internal::GetCapturedStderr();
  };
  const auto made = [](Mlp& net) {
    Options options;
    options.syncPattern(SyncPattern::SinglePipeline);  // without barriers, which is a warning
    return trainingModel(net, std::move(options), optim::AdamW(0.01));
  };
  Mlp saved;
  auto first = made(saved);
  EXPECT_THAT(said([&] { first.compileAndExport(folder / "mlp.slx", inputs); }),
              HasSubstr("syncPattern"));
  Mlp net;
  auto model = made(net);
  EXPECT_EQ(said([&] { model.loadExecutable(folder / "mlp.slx", OtherTarget::Refuse); }), "");
  EXPECT_EQ(said([&] {
              const Model loaded = load(folder / "mlp.slx", {.otherTarget = OtherTarget::Refuse});
              EXPECT_EQ(loaded.compiled().warnings, first.compiled().warnings);
            }),
            "");
}

TEST(LoadExecutable, SharesStateWithAnotherModelOfTheModule) {
  const TempFolder folder;
  Classifier saved;
  inferenceModel(saved, Options())
      .compileAndExport(folder / "net.slx", makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1));
  Classifier net;
  auto other = inferenceModel(net, Options());
  const std::vector<HostTensor> inputs = makeInputs({{DType::F32, Shape{4, 6}}}, 0, 1);
  const HostTensor expected = other.run(inputs)[0];
  auto model = inferenceModel(net, Options());
  model.loadExecutable(folder / "net.slx", OtherTarget::Refuse);
  EXPECT_TRUE(model.run(inputs)[0].sameBits(expected));
  EXPECT_EQ(model.compilationTime(), 0);
}

TEST(LoadExecutable, OfAnotherModelIsRefused) {
  const TempFolder folder;
  Mlp saved;
  const std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  trainingModel(saved, Options(), optim::SGD(0.1)).compileAndExport(folder / "mlp.slx", inputs);
  const auto refusal = [&](auto& net, const Options& options, const optim::Optimizer& rule) {
    auto model = TypedModel(net, options, rule.clone());
    return messageOf([&] { model.loadExecutable(folder / "mlp.slx"); });
  };
  Mlp net;
  testing::Cnn cnn;
  EXPECT_THAT(refusal(cnn, Options(), optim::SGD(0.1)), HasSubstr("another model"));
  EXPECT_THAT(refusal(net, Options(), optim::Adam(0.1)), HasSubstr("Adam"));
  EXPECT_THAT(refusal(net, Options().replicationFactor(2), optim::SGD(0.1)),
              AllOf(HasSubstr("replicationFactor"), HasSubstr("1 there and 2 here")));
  auto inference = inferenceModel(net, Options());
  EXPECT_THAT(messageOf([&] { inference.loadExecutable(folder / "mlp.slx"); }),
              HasSubstr("is for training"));
}

// --- options, targets, versions --------------------------------------------------

/// A file with everything that it takes, and a changed copy of it.
class ChangedExecutable : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = trainingModel(net_, Options(), optim::SGD(0.1));
    inputs_ = makeInputs(Mlp::inputs(), 0, 1);
    model.compileAndExport(path(), inputs_);
    loss_ = model.run(inputs_)[1];
  }
  std::filesystem::path path() const { return folder_ / "mlp.slx"; }

  template <class F>
  std::filesystem::path changed(F change) const {
    ExecutableFile file(path());
    ExecutableContent content = file.content();
    content.state = file.state();
    for (std::size_t i = 0; i < content.programs.size(); ++i) {
      content.graphs.push_back(file.graph(i));
    }
    change(content);
    writeExecutable(folder_ / "changed.slx", content);
    return folder_ / "changed.slx";
  }

  TempFolder folder_;
  Mlp net_;
  std::vector<HostTensor> inputs_;
  HostTensor loss_;
};

TEST_F(ChangedExecutable, ForAnotherTargetIsCompiledAgainOrRefused) {
  using Content = ExecutableContent;
  const std::vector<std::pair<std::function<void(Content&)>, std::string>> changes = {
      {[](Content& c) { c.target.library = "0.0.1"; }, "version 0.0.1"},
      {[](Content& c) { c.target.descriptions[0] = "Z80"; }, "Z80"},
      {[](Content& c) { c.target.tuning ^= 1U; }, "tuning"},
      {[](Content& c) {
         c.programs[0].compiled.program.segments[1].calls[0].choice.implementation = "magic";
       },
       "'magic'"}};
  for (const auto& [change, word] : changes) {
    SCOPED_TRACE(word);
    const std::filesystem::path file = changed(change);
    EXPECT_THAT(messageOf<Unsupported>([&] { load(file, {.otherTarget = OtherTarget::Refuse}); }),
                HasSubstr(word));
    Model again = load(file);
    EXPECT_GT(again.compilationTime(), 0);
    EXPECT_TRUE(again.run(inputs_)[1].sameBits(loss_));
  }
}

TEST_F(ChangedExecutable, TakesNewValuesOfRunTimeOptionsOnly) {
  Model loaded = load(path(), [](Options& options) { options.threads(2).logCycleCount(true); });
  EXPECT_EQ(loaded.options().threads(), 2);
  EXPECT_TRUE(loaded.run(inputs_)[1].sameBits(loss_));
  EXPECT_GT(loaded.cycleCount(), 0);
  EXPECT_THAT(messageOf([&] { load(path(), [](Options& o) { o.deviceIterations(4); }); }),
              AllOf(HasSubstr("deviceIterations"), HasSubstr("it is 1 there and 4 here")));
  Model far = load(path(), [](Options& options) { options.device("far"); });
  EXPECT_GT(far.compilationTime(), 0);
  EXPECT_TRUE(far.run(inputs_)[1].sameBits(loss_));
}

TEST_F(ChangedExecutable, CannotRunWithoutADevice) {
  Model loaded = load(path(), [](Options& o) { o.connectionType(ConnectionType::Never); });
  EXPECT_THAT(messageOf([&] { loaded.run(inputs_); }), HasSubstr("connectionType is Never"));
}

TEST_F(ChangedExecutable, OfAnotherMajorVersionIsRefused) {
  std::string bytes = readFile(path());
  bytes[8] = 9;
  EXPECT_THAT(messageOf<FileError>([&] { ExecutableFile(bytes, "new.slx"); }),
              AllOf(HasSubstr("new.slx"), HasSubstr("version 9.1"), HasSubstr("reads version 1")));
}

TEST_F(ChangedExecutable, ThatDescribesNoModelIsRefused) {
  using Content = ExecutableContent;
  const std::vector<std::pair<std::function<void(Content&)>, std::string>> changes = {
      {[](Content& c) {
         c.options = {{"nonsense", "1"}};
       },
       "nonsense"},
      {[](Content& c) { c.optimizer->rule = "Magic"; }, "Magic"},
      {[](Content& c) {
         c.customOps.push_back({"a.B.1", "liba.so", 1});
       },
       ""},
      {[](Content& c) { c.variables[0].name = "other"; }, "other"},
      {[](Content& c) { c.state->state.model.erase(c.state->state.model.begin()); }, "missing"},
      {[](Content& c) { c.state->state.optimizer.clear(); }, "dictionary is empty"},
      {[](Content& c) { c.programs[0].layout.gradientAccumulation = 3; }, "does not fit"},
      {[](Content& c) {
         c.programs[0].compiled.program.feeds[0].type.shape = Shape{9, 9};
       },
       "its inputs"},
      {[](Content& c) { c.programs[0].compiled.program.buffers[0].alignment = 0; }, "aligned"},
      {[](Content& c) {
         for (program::Lane& lane : c.programs[0].compiled.program.lanes) {
           for (program::Task& task : lane.tasks) {
             task.numWaits = 0;
           }
         }
       },
       "program 0"},
      {[](Content& c) { c.programs[0].compiled.program.lanes.pop_back(); }, ""}};
  for (const auto& [change, word] : changes) {
    SCOPED_TRACE(word);
    std::filesystem::path file;
    try {
      file = changed(change);
    } catch (const std::exception&) {
      continue;  // cannot even be written
    }
    if (word.empty()) {
      EXPECT_ANY_THROW(load(file));
    } else {
      EXPECT_THAT(messageOf<FileError>([&] { load(file); }), HasSubstr(word));
    }
  }
}

TEST_F(ChangedExecutable, OfManyReplicasIsReadAtOnce) {
  constexpr std::size_t kMost = 1 << 16;
  const HostTensor none(TensorType{DType::F32, Shape{0}});
  const auto with = [&](std::size_t replicas, int tensors) {
    return ExecutableFile(changed([&](ExecutableContent& c) {
             c.state->state.replicas.resize(replicas);
             for (int i = 0; i < tensors; ++i) {
               c.state->state.replicas.back().emplace(fmt::format("a/{}", i), none);
             }
           }))
        .state();
  };
  const StoredState state = with(kMost, 20'000);
  ASSERT_EQ(state.state.replicas.size(), kMost);
  EXPECT_EQ(state.state.replicas.back().size(), 20'000U);
  EXPECT_TRUE(state.state.replicas.back().contains("a/19999"));
  EXPECT_THAT(messageOf<FileError>([&] { with(kMost + 1, 20'000); }),
              AllOf(HasSubstr("65537 replicas"), HasSubstr("at most 65536")));
}

TEST_F(ChangedExecutable, WhoseTensorsShareBytesIsRefused) {
  constexpr std::uint32_t kStateKind = 5;
  constexpr std::uint32_t kStateDataKind = 6;
  const std::string bytes = readFile(path());
  const SectionFile sections(bytes, "s.slx", {.magic = "SLUICEex", .what = "executable"});
  std::vector<std::string> contents;
  contents.reserve(sections.entries().size());
  SectionWriter writer("SLUICEex", sections.version());
  for (const SectionFile::Entry& entry : sections.entries()) {
    std::string& content = contents.emplace_back(sections.unpacked(entry));
    if (entry.kind == kStateKind) {
      constexpr std::string_view kName = "model/fc2.weight";
      const std::size_t name = content.find(kName);
      ASSERT_NE(name, std::string::npos);
      const std::size_t offset = name + kName.size() + 4;  // dtype, rank, extents: a byte each
      content.replace(offset, 2, 1, '\0');                 // 512 had two bytes
    }
    if (entry.kind != kStateSums) {
      writer.add(entry.kind,
                 content,
                 entry.kind == kStateDataKind ? SectionForm::Mapped : SectionForm::Compressed);
    }
  }
  EXPECT_THAT(messageOf<FileError>([&] { ExecutableFile(writer.bytes(), "s.slx").state(); }),
              HasSubstr("'model/fc2.weight' is at 0, expected at least 460"));
}

TEST_F(ChangedExecutable, NeedsTheLibrariesOfItsCustomOps) {
  const auto with = [&](std::uint32_t abi) {
    return changed([abi](ExecutableContent& c) { c.customOps = {{"a.B.1", "liba.so", abi}}; });
  };
  EXPECT_THAT(messageOf([&] { load(with(1)); }),
              AllOf(HasSubstr("a.B.1"), HasSubstr("'liba.so'"), HasSubstr("loadCustomOps")));
  EXPECT_THAT(messageOf<Unsupported>([&] { load(with(7)); }),
              AllOf(HasSubstr("liba.so"), HasSubstr("version 7")));
}

TEST(Executables, OfHostFunctionsAreRefused) {
  const TempFolder folder;
  testing::WithHostOp net;
  auto model = inferenceModel(net, Options());
  const HostTensor x = HostTensor::of<float>({2, 4}, {1, 2, 3, 4, -1, -2, -3, -4});
  EXPECT_THAT(messageOf<Unsupported>([&] { model.compileAndExport(folder / "a.slx", {x}); }),
              HasSubstr("twice"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.slx"));
  Classifier other;
  EXPECT_THAT(messageOf([&] { inferenceModel(other, Options()).save(folder / "a.slx"); }),
              HasSubstr("compileAndExport"));
  EXPECT_THAT(messageOf<FileError>([&] { load(folder / "missing.slx"); }),
              HasSubstr("missing.slx"));
}

TEST(ExecutableOptions, ComeBackFromTheirText) {
  Options options = Options::defaults();
  options.deviceIterations(3).replicationFactor(2).outputMode(OutputMode::EveryN, 3);
  options.anchorTensor("a", "fc/add").randomSeed(5).memoryPerDevice("1MiB").modelName("a (b)");
  options.setExecutionStrategy(
      PipelinedExecution({Stage("a", "b").device(1), "c\n"}).schedule("zb-h1"));
  options.training.gradientAccumulation(4);
  options.tensorLocations.setOptimizerLocation(TensorLocationSettings().useOnChipStorage(false));
  options.precision.enableStochasticRounding(true);
  EXPECT_EQ(optionsOf(setterCalls(options)).str(), options.str());
  EXPECT_TRUE(setterCalls(Options::defaults()).empty());
}

// --- damage ----------------------------------------------------------------------

struct Scale : nn::Module {
  nn::Tensor forward(nn::Tensor x) { return nn::relu(x * 2.0); }
};

std::string smallExecutable() {
  const TempFolder folder;
  Scale net;
  inferenceModel(net, Options()).compileAndExport(folder / "s.slx", {HostTensor(DType::F32, {2})});
  return readFile(folder / "s.slx");
}

TEST(DamagedExecutable, IsFoundWhereverItIsCut) {
  const std::string bytes = smallExecutable();
  EXPECT_NO_THROW(ExecutableFile(bytes, "s.slx"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_THAT(messageOf<FileError>([&] { ExecutableFile(cut, "s.slx"); }), HasSubstr("s.slx"));
  }
}

TEST(DamagedExecutable, IsFoundWhicheverBitChanges) {
  std::string bytes = smallExecutable();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1U << bit));
      EXPECT_THROW(ExecutableFile(bytes, "s.slx"), FileError) << at;
      bytes[at] = static_cast<char>(bytes[at] ^ (1U << bit));
    }
  }
}

/// A file whose sections are changed at random and sealed again.
std::string mutated(const std::string& bytes, std::mt19937& random) {
  const SectionFile file(bytes, "s.slx", {.magic = "SLUICEex", .what = "executable"});
  const std::size_t chosen = random() % file.entries().size();
  SectionWriter writer("SLUICEex", file.version());
  std::vector<std::string> contents;
  contents.reserve(file.entries().size());
  for (std::size_t i = 0; i < file.entries().size(); ++i) {
    std::string& content = contents.emplace_back(file.unpacked(file.entries()[i]));
    for (int change = 0; i == chosen && !content.empty() && change < 2; ++change) {
      const std::size_t at = random() % content.size();
      switch (random() % 4) {
        case 0:
          content[at] = static_cast<char>(random());
          break;
        case 1:
          content[at] = static_cast<char>(content[at] + 1);
          break;
        case 2:
          content.erase(at, 1);
          break;
        default:
          content.insert(at, 1, static_cast<char>(random()));
      }
    }
    if (file.entries()[i].kind == kStateSums) {
      continue;  // they would not fit what is changed
    }
    writer.add(file.entries()[i].kind,
               content,
               file.entries()[i].kind == 6 ? SectionForm::Mapped : SectionForm::Compressed);
  }
  return writer.bytes();
}

/// As many as SLUICE_HOSTILE_FILES says.
int hostileFiles() {
  const char* given = std::getenv("SLUICE_HOSTILE_FILES");  // NOLINT(concurrency-mt-unsafe)
  return given == nullptr ? 400 : std::atoi(given);
}

TEST(HostileExecutable, IsRefusedOrRuns) {
  const TempFolder folder;
  Mlp net;
  auto model = trainingModel(net, Options(), optim::AdamW(0.01));
  const std::vector<HostTensor> inputs = makeInputs(Mlp::inputs(), 0, 1);
  model.compileAndExport(folder / "s.slx", inputs);
  const std::string bytes = readFile(folder / "s.slx");
  std::mt19937 random(7);
  int ran = 0;
  for (int i = 0; i < hostileFiles(); ++i) {
    writeFileAtomically(folder / "m.slx", mutated(bytes, random));
    try {
      Model loaded = load(folder / "m.slx", [](Options& options) { options.stallTimeout(5); });
      loaded.run(inputs);
      ++ran;
    } catch (const InternalError& error) {
      ADD_FAILURE() << i << ": " << error.what();
    } catch (const Error&) {
      continue;
    }
  }
  EXPECT_GT(ran, 0);
  EXPECT_LT(ran, hostileFiles());
}

TEST(HostileProgramText, IsRefusedOrSound) {
  Mlp net;
  auto model = trainingModel(net, Options(), optim::SGD(0.01));
  model.compile(makeInputs(Mlp::inputs(), 0, 1));
  const std::string text = program::toText(model.program());
  std::mt19937 random(11);
  int sound = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string changed = text;
    const std::size_t at = changed.find_first_of("0123456789", random() % changed.size());
    if (at == std::string::npos) {
      continue;
    }
    constexpr std::string_view kNumbers[] = {"0", "1", "-1", "7", "4096", "99999999999", "64"};
    const std::size_t end = changed.find_first_not_of("0123456789", at);
    changed.replace(at, end - at, kNumbers[random() % std::size(kNumbers)]);
    try {
      const program::Program read = program::fromText(changed, ops::opSet());
      program::requireSound(read, model.session().state().plan(), 1);
      ++sound;
    } catch (const InternalError& error) {
      ADD_FAILURE() << i << ": " << error.what();
    } catch (const Error&) {
      continue;
    }
  }
  EXPECT_GT(sound, 0);
  EXPECT_LT(sound, 2000);
}

}  // namespace
}  // namespace sluice
