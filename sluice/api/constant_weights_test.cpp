// constantWeights and foldBatchNorm: the same bits under every strategy, close to the model without
// them, and never with old weights.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/executable_cache.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A convolution and its norm in different blocks, a depthwise one without a bias, and one whose
/// result is also read past its norm; then a linear layer and its norm.
struct NormedNet : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, 3, {.padding = {1}}};
  nn::BatchNorm norm1{*this, "norm1", 8};
  nn::Conv2d conv2{*this, "conv2", 8, 8, 3, {.padding = {1}, .groups = 8, .bias = false}};
  nn::BatchNorm norm2{*this, "norm2", 8};
  nn::Conv2d conv3{*this, "conv3", 8, 8, 1};
  nn::BatchNorm norm3{*this, "norm3", 8};
  nn::Linear head{*this, "head", 8 * 6 * 6, 5};
  nn::BatchNorm norm4{*this, "norm4", 5};

  explicit NormedNet(double seed = 0) {
    for (nn::Parameter* parameter : {&norm1.weight, &norm2.weight, &norm3.weight, &norm4.weight}) {
      set(*parameter, 0.5 + seed, 1);
    }
    for (nn::Parameter* parameter : {&norm1.bias, &norm2.bias, &norm3.bias, &norm4.bias}) {
      set(*parameter, -0.5, 1);
    }
    for (const nn::BatchNorm* norm : {&norm1, &norm2, &norm3, &norm4}) {
      set(norm->runningMean, -0.25, 0.5);
      set(norm->runningVariance, 0.25, 1.5);
    }
  }

  static void set(nn::Parameter& parameter, double low, double range) {
    HostTensor value(parameter.type());
    for (std::int64_t i = 0; i < value.shape().elements(); ++i) {
      value.set(i, low + range * static_cast<double>(i * 5 % 8) / 8);
    }
    parameter.setValue(value);
  }

  nn::Tensor forward(nn::Tensor x) {
    {
      const nn::Block block("b0", 0);
      x = conv1(x);
    }
    {
      const nn::Block block("b1", 1);
      x = nn::relu(norm1(x));
      x = nn::relu(norm2(conv2(x)));
    }
    const nn::Block block("b2", 2);
    const nn::Tensor y = conv3(x);
    x = nn::relu(norm3(y) + y);
    return norm4(head(nn::flatten(x, 1)));
  }
};

HostTensor images(std::int64_t count = 4) {
  HostTensor x(DType::F32, Shape{count, 3, 6, 6});
  for (std::int64_t i = 0; i < x.shape().elements(); ++i) {
    x.set(i, static_cast<double>(i * 37 % 101) / 50 - 1);
  }
  return x;
}

Options constant() {
  return Options().constantWeights(true);
}

Options folding() {
  return constant().foldBatchNorm(true);
}

HostTensor inferred(NormedNet& net, const Options& options, const HostTensor& x = images()) {
  auto model = inferenceModel(net, options);
  return model(x);
}

double distance(const HostTensor& a, const HostTensor& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
    most = std::max(most, std::abs(a.at(i) - b.at(i)));
  }
  return most;
}

std::size_t opsNamed(const std::string& text, const std::string& op) {
  std::size_t count = 0;
  for (std::size_t at = text.find(op); at != std::string::npos; at = text.find(op, at + 1)) {
    ++count;
  }
  return count;
}

/// The text of the graph after norms were folded; empty if none could be.
std::string foldedGraph(NormedNet& net, Options options, const HostTensor& x) {
  const testing::TempFolder folder;
  auto model = inferenceModel(net, options.dumpDirectory(folder.path().string()));
  model(x);
  std::string text;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().filename().string().find("_fold_batch_norm") != std::string::npos) {
      std::ifstream in(file.path());
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
  }
  return text;
}

struct PlainNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 8, 3};
  nn::Linear head{*this, "head", 8 * 4 * 4, 5};
  nn::Tensor forward(const nn::Tensor& x) { return head(nn::flatten(nn::relu(conv(x)), 1)); }
};

TEST(ConstantWeights, ChangeNoBitOfLayersThatReadThemAsTheyAre) {
  PlainNet net;
  auto variable = inferenceModel(net, Options());
  const HostTensor expected = variable(images());
  auto model = inferenceModel(net, constant());
  EXPECT_TRUE(model(images()).sameBits(expected));
  EXPECT_FALSE(model.compiled().program->program().constants.empty());
}

TEST(ConstantWeights, StayTheModulesOwn) {
  NormedNet net;
  auto model = inferenceModel(net, folding());
  const NamedTensors before = model.stateDict();
  model(images());
  const NamedTensors after = model.stateDict();
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, value] : before) {
    EXPECT_TRUE(after.at(name).sameBits(value)) << name;
  }
  model.destroy();
  EXPECT_TRUE(net.conv1.weight.value().sameBits(before.at("conv1.weight")));
}

TEST(ConstantWeights, AreReadOfEveryReplica) {
  PlainNet net;
  auto model = inferenceModel(net, constant().replicationFactor(2));
  model(images());
  for (const std::size_t replica : {0U, 1U}) {
    EXPECT_TRUE(model.read("head.weight", replica).sameBits(net.head.weight.value()));
  }
  EXPECT_THAT(messageOf([&] { model.read("head.weight", 2); }), HasSubstr("no replica 2"));
}

/// In float32 the results here are below 8, of some 300 terms.
TEST(FoldBatchNorm, GivesTheSameBitsUnderEveryStrategyCloseToThoseOfTheNorms) {
  NormedNet net;
  const HostTensor norms = inferred(net, Options());
  const HostTensor folded = inferred(net, folding());
  EXPECT_FALSE(folded.sameBits(norms)) << "nothing was folded";
  EXPECT_LE(distance(folded, norms), 1e-5);
  EXPECT_LE(distance(inferred(net, constant()), norms), 1e-5);
  using parallel::Stage;
  const std::vector<Strategy> strategies = {
      PipelinedExecution({Stage("b0"), Stage("b1"), Stage("b2")}),
      PipelinedExecution({Stage("b0", "b1").device(0), Stage("b2").device(1)}),
      ShardedExecution({Stage("b0"), Stage("b1"), Stage("b2")}),
  };
  for (const Strategy& strategy : strategies) {
    for (const bool fusion : {true, false}) {
      const Options options =
          folding().setExecutionStrategy(strategy).fusion(fusion).threads(fusion ? 2 : 1);
      EXPECT_TRUE(inferred(net, options).sameBits(folded)) << strategy.str() << fusion;
    }
  }
  EXPECT_TRUE(inferred(net, folding().device("far*3")).sameBits(folded));
}

TEST(FoldBatchNorm, GivesTheSameBitsUnderEveryStrategyInSixteenBits) {
  using parallel::Stage;
  for (const DType dtype : {DType::F16, DType::BF16}) {
    NormedNet exact;
    const HostTensor norms = inferred(exact, Options());
    NormedNet net;
    net.to(dtype);
    const HostTensor x = cast(images(), dtype);
    const HostTensor folded = inferred(net, folding(), x);
    EXPECT_EQ(folded.dtype(), dtype);
    EXPECT_EQ(opsNamed(foldedGraph(net, folding(), x), "batch_norm_inference("), 1U) << name(dtype);
    EXPECT_LE(distance(folded, norms), dtype == DType::F16 ? 0.05 : 0.4);
    const std::vector<Stage> stages = {Stage("b0"), Stage("b1"), Stage("b2")};
    const Options sharded = folding().setExecutionStrategy(ShardedExecution(stages));
    EXPECT_TRUE(inferred(net, sharded, x).sameBits(folded)) << name(dtype);
    EXPECT_TRUE(inferred(net, folding().device("far*3"), x).sameBits(folded)) << name(dtype);
  }
}

/// The norm of conv3 stays, because the convolution is also read past it; those of others go.
TEST(FoldBatchNorm, LeavesTheNormOfAResultThatIsReadElsewhere) {
  NormedNet net;
  const std::string text = foldedGraph(net, folding(), images());
  EXPECT_EQ(opsNamed(text, "batch_norm_inference("), 1U) << text;
  EXPECT_THAT(text, Not(HasSubstr("variable(")));
}

TEST(FoldBatchNorm, LeavesAnAnchoredConvolution) {
  NormedNet net;
  auto plain = inferenceModel(net, Options().anchorTensor("conv", "conv2/conv"));
  plain(images());
  const HostTensor expected = plain.getAnchoredTensor("conv");
  plain.destroy();
  auto model = inferenceModel(net, folding().anchorTensor("conv", "conv2/conv"));
  model(images());
  EXPECT_LE(distance(model.getAnchoredTensor("conv"), expected), 1e-5);
  model.destroy();
  const std::string text = foldedGraph(net, folding().anchorTensor("conv", "conv2/conv"), images());
  EXPECT_EQ(opsNamed(text, "batch_norm_inference("), 2U) << text;
}

TEST(ConstantWeights, AreReadAgainAfterTheyHaveChanged) {
  for (const bool fold : {false, true}) {
    NormedNet net;
    auto model = inferenceModel(net, fold ? folding() : constant());
    const HostTensor first = model(images());
    const auto program = model.compiled().program;
    EXPECT_TRUE(model(images()).sameBits(first));
    net.norm2.weight.setValue(net.norm2.weight.value());  // written, but the same
    EXPECT_TRUE(model(images()).sameBits(first));
    EXPECT_EQ(model.compiled().program, program) << "compiled again without need";

    NormedNet::set(net.norm2.weight, 2, 1);
    NormedNet other;
    NormedNet::set(other.norm2.weight, 2, 1);
    const HostTensor changed = model(images());
    EXPECT_FALSE(changed.sameBits(first));
    EXPECT_TRUE(changed.sameBits(inferred(other, fold ? folding() : constant())));

    const NormedNet third(0.25);
    NamedTensors state;
    for (const nn::Parameter* parameter : third.parameters()) {
      state.emplace(parameter->fullName(), parameter->value());
    }
    model.loadStateDict(state, nn::Strict::No);
    NormedNet loaded(0.25);
    auto expected = inferenceModel(loaded, fold ? folding() : constant());
    expected.loadStateDict(state, nn::Strict::No);
    EXPECT_TRUE(model(images()).sameBits(expected(images())));
  }
}

/// A report asks for programs by what they are, not by where they were.
TEST(ConstantWeights, MayChangeBetweenTheTracedCallsOfAReport) {
  for (const char* device : {"cpu", "sim@ipu2"}) {
    const testing::TempFolder folder;
    const std::filesystem::path page = folder.path() / "report.html";
    const std::filesystem::path traces = folder.path() / "profile" / "inference";
    PlainNet net;
    auto model = inferenceModel(
        net, constant().device(device).enableProfiling((folder.path() / "profile").string()));
    const std::string target = std::string(device) == "cpu" ? "ipu2" : "";
    for (const double low : {0.5, 1.0, 2.0}) {
      NormedNet::set(net.head.weight, low, 1);
      model(images());
      model.report(page, target);
      EXPECT_TRUE(std::filesystem::exists(page));
    }
    EXPECT_TRUE(std::filesystem::exists(traces / "run.slt"));
    EXPECT_FALSE(std::filesystem::exists(traces / "run_2.slt")) << "a file for each compilation";
    NormedNet::set(net.head.weight, 3, 1);
    model.compile(std::vector<HostTensor>{images()});
    EXPECT_NO_THROW(model.report(page, target)) << "the traced program has ended";
  }
}

/// Programs for other batches use the same memory, so each puts its constants there again.
TEST(ConstantWeights, AreThoseOfEveryProgramOfTheModel) {
  NormedNet net;
  auto model = inferenceModel(net, folding());
  const HostTensor four = model(images(4));
  const HostTensor two = model(images(2));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(model(images(4)).sameBits(four));
    EXPECT_TRUE(model(images(2)).sameBits(two));
  }
  EXPECT_LE(distance(two, four), 1e-5) << "of the first two images";
  NormedNet::set(net.norm1.weight, 2, 1);
  EXPECT_FALSE(model(images(2)).sameBits(two));
  EXPECT_FALSE(model(images(4)).sameBits(four)) << "each program is compiled again";
}

/// A buffer that a model writes in every call is no constant, and is no reason to compile again.
TEST(ConstantWeights, LeaveBuffersThatTheModelWrites) {
  struct Counts : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2};
    nn::Parameter& calls = addBuffer("calls", {DType::F32, Shape{}}, ir::Initializer::constant(0));
    nn::Tensor forward(const nn::Tensor& x) {
      calls += 1.0;
      return fc(x) * 0.0 + calls.use();
    }
  };
  Counts net;
  auto model = inferenceModel(net, constant());
  const HostTensor x(DType::F32, Shape{1, 2});
  EXPECT_EQ(model(x).at(0), 1);
  const auto program = model.compiled().program;
  EXPECT_EQ(model(x).at(0), 2);
  EXPECT_EQ(net.calls.value().at(0), 2);
  net.calls.setValue(HostTensor::scalar(7.0F));
  EXPECT_EQ(model(x).at(0), 8);
  EXPECT_EQ(model.compiled().program, program);
}

/// With broadcastBuffers(false) a buffer has no one value that a constant could have.
TEST(ConstantWeights, LeaveBuffersThatReplicasHaveApart) {
  struct Scaled : nn::Module {
    nn::Parameter& weight =
        addParameter("weight", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    nn::Parameter& scale = addBuffer("scale", {DType::F32, Shape{1}}, ir::Initializer::constant(1));
    nn::Tensor forward(const nn::Tensor& x) { return x * scale.use() * weight.use(); }
  };
  Scaled net;
  auto model = inferenceModel(net, constant().replicationFactor(2).broadcastBuffers(false));
  model.session().set("scale", HostTensor::of<float>(Shape{1}, {2}), 0);
  model.session().set("scale", HostTensor::of<float>(Shape{1}, {3}), 1);
  const HostTensor y = model(HostTensor::of<float>(Shape{2, 1}, {5, 7}));
  EXPECT_THAT(y.toDoubles(), ::testing::ElementsAre(10, 21));
  EXPECT_FALSE(model.session().state().contains("weight"));
}

struct TrainedNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 3, 4, 3};
  nn::BatchNorm norm{*this, "norm", 4};
  std::pair<nn::Tensor, nn::Tensor> forward(const nn::Tensor& x) {
    const nn::Tensor y = nn::relu(norm(conv(x)));
    return {y, nn::mean(nn::square(y))};
  }
};

/// Training writes weights and running statistics of the session that both models share.
TEST(ConstantWeights, FollowTheTrainingOfTheSameModule) {
  TrainedNet net;
  auto validation = inferenceModel(net, folding());
  auto reference = inferenceModel(net, Options());
  auto training = trainingModel(net, Options(), optim::SGD(0.5));
  HostTensor last;
  for (int round = 0; round < 3; ++round) {
    const auto [y, loss] = validation(images());
    const auto [expected, expectedLoss] = reference(images());
    EXPECT_LE(distance(y, expected), 1e-5) << round;
    EXPECT_TRUE(round == 0 || !y.sameBits(last)) << round;
    last = y;
    training(images());
  }
}

TEST(ConstantWeights, LeaveNamedBuffersToTheirUpdates) {
  NormedNet net;
  auto model = inferenceModel(net, folding().updatableNamedBuffers({"norm1.running_mean"}));
  const HostTensor first = model(images());
  const auto program = model.compiled().program;
  NormedNet::set(net.norm1.runningMean, 1, 1);
  model.copyNamedBuffersToDevice();
  const HostTensor second = model(images());
  EXPECT_FALSE(second.sameBits(first));
  EXPECT_EQ(model.compiled().program, program);
  NormedNet other;
  NormedNet::set(other.norm1.runningMean, 1, 1);
  EXPECT_LE(distance(second, inferred(other, Options())), 1e-5);
}

TEST(ConstantWeights, AreRefusedWhereWeightsChange) {
  TrainedNet net;
  const auto trained = [&](const Options& options) {
    return messageOf([&] { trainingModel(net, options, optim::SGD(0.1)); });
  };
  EXPECT_THROW(trainingModel(net, constant(), optim::SGD(0.1)), InvalidArgument);
  EXPECT_THAT(trained(constant()), AllOf(HasSubstr("constantWeights"), HasSubstr("inference")));
  EXPECT_THAT(trained(Options().foldBatchNorm(true)),
              AllOf(HasSubstr("foldBatchNorm"), HasSubstr("inference")));
  EXPECT_THROW(inferenceModel(net, Options().foldBatchNorm(true)), InvalidArgument);
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options().foldBatchNorm(true)); }),
              HasSubstr("set constantWeights(true), too"));
  Options off = constant();
  off.tensorLocations.setWeightLocation(TensorLocationSettings().useOnChipStorage(false));
  EXPECT_THAT(messageOf([&] { inferenceModel(net, off); }), HasSubstr("remote memory"));
  Options one = constant();
  one.tensorLocations.setTensorLocation("conv.weight", false);
  auto model = inferenceModel(net, one);
  EXPECT_THAT(
      messageOf([&] { model(images()); }),
      AllOf(HasSubstr("setTensorLocation keeps 'conv.weight'"), HasSubstr("remote memory")));
}

/// What would be refused is neither tried nor proposed.
TEST(ConstantWeights, AreOnTheDevicesInAllPlans) {
  NormedNet net;
  const std::vector<TensorType> inputs = {{DType::F32, Shape{4, 3, 6, 6}}};
  for (const bool isConstant : {false, true}) {
    auto model = inferenceModel(net, Options().constantWeights(isConstant).device("sim@ipu2"));
    const PlanReport report = model.findPlan(inputs, {.devices = 2, .exhaustive = true});
    std::size_t off = 0;
    for (const TriedPlan& tried : report.tried) {
      off +=
          tried.choice.weightsOffChip || parallel::isPhased(tried.choice.strategy.kind()) ? 1 : 0;
    }
    EXPECT_EQ(off == 0, isConstant) << off;
  }
}

TEST(ConstantWeights, AreInExecutables) {
  const testing::TempFolder folder;
  const std::filesystem::path path = folder.path() / "net.slx";
  NormedNet net;
  auto model = inferenceModel(net, folding());
  const HostTensor expected = model(images());
  NormedNet::set(net.norm2.weight, 2, 1);
  EXPECT_THAT(messageOf([&] { model.save(path); }), HasSubstr("other weights"));
  const HostTensor changed = model(images());
  EXPECT_FALSE(changed.sameBits(expected));
  model.save(path);

  auto loaded = load(path);
  EXPECT_TRUE(loaded.run({images()})[0].sameBits(changed));
  EXPECT_TRUE(loaded.stateDict().at("norm2.weight").sameBits(net.norm2.weight.value()));
  EXPECT_THAT(messageOf([&] { loaded.loadStateDict(loaded.stateDict()); }),
              HasSubstr("constants of the compiled program"));
  const std::string buffer = net.norm2.runningMean.fullName();
  EXPECT_THAT(messageOf([&] {
                loaded.loadStateDict({{buffer, net.norm2.runningMean.value()}}, nn::Strict::No);
              }),
              AllOf(HasSubstr(buffer), HasSubstr("constants of the compiled program")));

  NormedNet same;
  auto taker = inferenceModel(same, folding());
  EXPECT_THAT(messageOf([&] { taker.loadExecutable(path); }), HasSubstr("other weights"));
  taker.loadStateDict(model.stateDict());
  taker.loadExecutable(path);
  EXPECT_TRUE(taker(images()).sameBits(changed));
  EXPECT_EQ(taker.compilationTime(), 0);
  NormedNet::set(same.norm2.weight, 0.5, 1);
  EXPECT_TRUE(taker(images()).sameBits(expected)) << "compiled again for other weights";
}

/// The key has the option and the weights: neither finds the program of the other.
TEST(ConstantWeights, ArePartOfTheKeyOfTheCache) {
  const testing::TempFolder folder;
  const auto cached = [&](Options options, bool changed) {
    NormedNet net;
    if (changed) {
      NormedNet::set(net.norm2.weight, 2, 1);
    }
    auto model = inferenceModel(net, options.enableExecutableCaching(folder.path().string()));
    const HostTensor y = model(images());
    return std::pair(y, model.compiled().cached);
  };
  for (const Options& options : {constant(), folding()}) {
    for (const bool changed : {false, true}) {
      const auto [first, isFound] = cached(options.clone(), changed);
      EXPECT_FALSE(isFound);
      const auto [again, isFoundAgain] = cached(options.clone(), changed);
      EXPECT_TRUE(isFoundAgain);
      EXPECT_TRUE(again.sameBits(first));
    }
  }
}

/// In the key they are bytes, as in the program; their text would take at least nine characters a
/// number.
TEST(ConstantWeights, AreInEntriesOfTheCacheAsBytes) {
  struct Wide : nn::Module {
    nn::Linear fc{*this, "fc", 256, 256};
    nn::Tensor forward(const nn::Tensor& x) { return fc(x); }
  };
  const testing::TempFolder folder;
  Wide net;
  auto model = inferenceModel(net, constant().enableExecutableCaching(folder.path().string()));
  const HostTensor x = HostTensor::full({DType::F32, Shape{2, 256}}, 1);
  const HostTensor first = model(x);
  const ExecutableCache cache(folder.path(), std::uint64_t{1} << 30U);
  ASSERT_EQ(cache.files().size(), 1U);
  const SectionFile entry(cache.files()[0].path, FileCache::expected());
  std::uint64_t bytes = 0;
  for (const SectionFile::Entry& section : entry.entries()) {
    bytes += section.size;
  }
  EXPECT_LT(bytes, 3 * 256 * 256 * sizeof(float));

  net.fc.weight.setValue(HostTensor::full(net.fc.weight.type(), 0.5));
  EXPECT_FALSE(model(x).sameBits(first));
  EXPECT_EQ(cache.files().size(), 1U) << "keeps what was compiled again for other weights";
}

/// As a file of ONNX says it, in a session of PopART, whose weights are constants anyway.
TEST(FoldBatchNorm, FoldsWhatAnOnnxModelNorms) {
  NormedNet net;
  auto exported = inferenceModel(net, Options());
  const HostTensor norms = exported(images());
  const std::string proto = exported.getModelProto();
  const auto inferredBy = [&](const Options& options) {
    InferenceSession session(proto, DataFlow(1, {"output0"}, AnchorReturnType("All")), options);
    session.prepareDevice();
    NamedTensors anchors = session.initAnchorArrays();
    session.run({.inputs = {{"input0", images()}}, .outputs = anchors});
    return anchors.at("output0");
  };
  const HostTensor plain = inferredBy(Options());
  const HostTensor folded = inferredBy(Options().foldBatchNorm(true));
  EXPECT_FALSE(folded.sameBits(plain)) << "nothing was folded";
  EXPECT_LE(distance(folded, norms), 1e-5);
}

}  // namespace
}  // namespace sluice
