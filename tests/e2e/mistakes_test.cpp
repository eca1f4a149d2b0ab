// Mistakes that people make give one clear line: an error of the right kind that names what is
// wrong. A row that does not throw, or that throws an InternalError, fails.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/e2e/networks.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using nn::Tensor;
using testing::Mlp;

struct Mistake {
  const char* what;  ///< for people
  std::function<void()> make;
  std::vector<std::string> words;  ///< all are in the message
};

HostTensor floats(const Shape& shape) {
  return HostTensor(DType::F32, shape);
}

/// A network with the layers that mistakes need; `body` is its forward.
struct Mistaken : nn::Module {
  nn::Linear fc{*this, "fc", 6, 3};
  nn::Conv2d conv{*this, "conv", 3, 4, 3};
  nn::Embedding table{*this, "table", 10, 6};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::LSTM lstm{*this, "lstm", 6, 4};
  nn::MultiheadAttention attention{*this, "attention", 6, 2};
  std::function<Tensor(Mistaken&, Tensor)> body;
  Tensor forward(Tensor x) { return body(*this, x); }
};

/// Calls a network of that body with x.
std::function<void()> calls(const Shape& shape, std::function<Tensor(Mistaken&, Tensor)> body) {
  return [=] {
    Mistaken net;
    net.body = body;
    auto model = inferenceModel(net, Options());
    model(floats(shape));
  };
}

/// The same for functions alone.
std::function<void()> calls(const Shape& shape, std::function<Tensor(Tensor)> body) {
  return calls(shape, [body](Mistaken&, Tensor x) { return body(x); });
}

/// Trains the Mlp once with these settings.
std::function<void()> trains(std::function<void(Options&)> set) {
  return [=] {
    Mlp net;
    Options options;
    set(options);
    auto model = trainingModel(net, options, optim::SGD(0.1));
    model.run(testing::makeInputs(Mlp::inputs(), 0, 1));
  };
}

std::vector<Mistake> layerMistakes() {
  const Shape rows{4, 6};
  const Shape image{2, 3, 8, 8};
  return {
      {"a layer of another width",
       calls({4, 5}, [](Mistaken& m, Tensor x) { return m.fc(x); }),
       {"fc", "6", "f32[4, 5]"}},
      {"an image into a linear layer, without flatten",
       calls(image, [](Mistaken& m, Tensor x) { return m.fc(x); }),
       {"fc", "f32[2, 3, 8, 8]"}},
      {"channels last",
       calls({2, 8, 8, 3}, [](Mistaken& m, Tensor x) { return m.conv(x); }),
       {"conv", "3", "f32[2, 8, 8, 3]"}},
      {"an image without a batch",
       calls({3, 8, 8}, [](Mistaken& m, Tensor x) { return m.conv(x); }),
       {"conv", "batch"}},
      {"a kernel that is larger than the image",
       calls({2, 3, 2, 2}, [](Mistaken& m, Tensor x) { return m.conv(x); }),
       {"conv", "3"}},
      {"floats as indices",
       calls(rows, [](Mistaken& m, Tensor x) { return m.table(x); }),
       {"table", "integer", "f32[4, 6]"}},
      {"batch norm of other channels",
       calls(image, [](Mistaken& m, Tensor x) { return m.norm(x); }),
       {"norm", "4"}},
      {"a sequence of another width",
       calls({5, 2, 3}, [](Mistaken& m, Tensor x) { return m.lstm(x); }),
       {"lstm", "6"}},
      {"attention without a batch",
       calls(rows, [](Mistaken& m, Tensor x) { return m.attention(x, x, x).output; }),
       {"attention", "length, batch"}},
      {"groups that do not divide the channels",
       [] {
         nn::Module root;
         nn::Conv2d(root, "conv", 3, 4, 3, {.groups = 2});
       },
       {"conv", "2 groups"}},
      {"heads that do not divide the embedding",
       [] {
         nn::Module root;
         nn::MultiheadAttention(root, "attention", 10, 3);
       },
       {"3 heads", "10"}},
      {"dropout of everything",
       [] {
         nn::Module root;
         nn::Dropout(root, "drop", 1.0);
       },
       {"drop", "[0, 1)"}},
      {"no features",
       [] {
         nn::Module root;
         nn::Linear(root, "fc", 0, 3);
       },
       {"fc", "positive"}},
      {"two layers of one name",
       [] {
         nn::Module root;
         nn::Linear first(root, "fc", 2, 2);
         nn::Linear second(root, "fc", 2, 2);
       },
       {"fc"}},
      {"a dot in a name",
       [] {
         nn::Module root;
         nn::Linear(root, "block.fc", 2, 2);
       },
       {"block.fc", "dot"}},
      {"weights of another shape",
       [] {
         nn::Module root;
         nn::Linear fc(root, "fc", 2, 3);
         fc.weight.setValue(floats({2, 3}));
       },
       {"fc.weight", "f32[3, 2]", "f32[2, 3]"}},
      {"a parameter outside forward",
       [] {
         nn::Module root;
         nn::Linear fc(root, "fc", 2, 3);
         static_cast<void>(fc.weight * 2.0);
       },
       {"trace"}},
      {"a tensor kept from another call",
       [] {
         Tensor kept;
         calls({4, 6}, [&](Tensor x) { return kept = x; })();
         calls({4, 6}, [&](Tensor x) { return x + kept; })();
       },
       {"another trace"}},
  };
}

std::vector<Mistake> functionMistakes() {
  const Shape rows{4, 6};
  const auto labels = [](Tensor x, DType dtype, const Shape& shape) {
    static_cast<void>(x);
    return nn::zeros(shape, dtype);
  };
  return {
      {"a product of matrices that do not fit",
       calls(rows, [](Tensor x) { return nn::matmul(x, x); }),
       {"matmul", "6 and 4", "[4, 6]"}},
      {"shapes that do not broadcast",
       calls(rows, [](Tensor x) { return x + nn::ones({5}); }),
       {"[4, 6]", "[5]"}},
      {"floats and integers mixed",
       calls(rows, [](Tensor x) { return x + nn::ones({6}, DType::I64); }),
       {"f32", "i64"}},
      {"half of an integer",
       calls(rows, [](Tensor x) { return nn::cast(x, DType::I64) * 0.5; }),
       {"0.5", "cast"}},
      {"a view of another size",
       calls(rows,
             [](Tensor x) {
               return x.view({5, -1});
             }),
       {"5"}},
      {"two open extents",
       calls(rows,
             [](Tensor x) {
               return x.view({-1, -1});
             }),
       {"-1"}},
      {"an axis that is not there",
       calls(rows, [](Tensor x) { return nn::softmax(x, 2); }),
       {"axis", "2"}},
      {"a sum over an axis that is not there",
       calls(rows, [](Tensor x) { return x.sum({3}); }),
       {"3"}},
      {"a row that is not there", calls(rows, [](Tensor x) { return x[4]; }), {"4"}},
      {"parts that do not add up",
       calls(rows,
             [](Tensor x) {
               return nn::split(x, {2, 3}, 1)[0];
             }),
       {"6"}},
      {"joined tensors of other shapes",
       calls(rows,
             [](Tensor x) {
               return nn::concat({x, nn::ones({4, 5})});
             }),
       {"concat"}},
      {"stacked tensors of other shapes",
       calls(rows,
             [](Tensor x) {
               return nn::stack({x, nn::ones({4, 5})});
             }),
       {"stack"}},
      {"squeezing an axis of many", calls(rows, [](Tensor x) { return x.squeeze({0}); }), {"4"}},
      {"more of the largest than there are",
       calls(rows, [](Tensor x) { return nn::topk(x, 7).values; }),
       {"7"}},
      {"an equation for other operands",
       calls(rows, [](Tensor x) { return nn::einsum("ij,jk->ik", {x}); }),
       {"einsum"}},
      {"a condition of floats", calls(rows, [](Tensor x) { return nn::where(x, x, x); }), {"bool"}},
      {"indices of floats", calls(rows, [](Tensor x) { return nn::gather(x, x); }), {"i32"}},
      {"labels of floats",
       calls(rows, [=](Tensor x) { return nn::crossEntropy(x, labels(x, DType::F32, {4})); }),
       {"cross_entropy", "f32[4]"}},
      {"one-hot labels",
       calls(rows,
             [=](Tensor x) {
               return nn::crossEntropy(x, labels(x, DType::I64, {4, 6}));
             }),
       {"cross_entropy", "must be [4]", "got [4, 6]"}},
      {"labels of another batch",
       calls(rows, [=](Tensor x) { return nn::crossEntropy(x, labels(x, DType::I64, {3})); }),
       {"cross_entropy", "must be [4]", "got [3]"}},
      {"a target of another shape",
       calls(rows,
             [](Tensor x) {
               return nn::mseLoss(x, nn::ones({4, 5}));
             }),
       {"[4, 6]", "[4, 5]"}},
      {"pooling without channels",
       calls(rows, [](Tensor x) { return nn::maxPool2d(x, 2); }),
       {"maxPool2d", "f32[4, 6]"}},
      {"a stride of 0",
       calls({1, 1, 4, 4}, [](Tensor x) { return nn::maxPool2d(x, 2, 0); }),
       {"stride"}},
      {"a mode of another library",
       calls({1, 1, 4, 4},
             [](Tensor x) { return nn::interpolate(x, {.size = {8}, .mode = "lanczos"}); }),
       {"bilinear", "lanczos"}},
  };
}

std::vector<Mistake> modelMistakes() {
  return {
      {"too few inputs",
       [] {
         Mlp net;
         inferenceModel(net, Options()).run({floats({8, 6})});
       },
       {"2", "1"}},
      {"a batch that is no whole number of micro-batches",
       trains([](Options& o) { o.training.gradientAccumulation(3); }),
       {"8", "3"}},
      {"no accumulation", trains([](Options& o) { o.training.gradientAccumulation(0); }), {"0"}},
      {"no iterations", trains([](Options& o) { o.deviceIterations(0); }), {"0"}},
      {"no replicas", trains([](Options& o) { o.replicationFactor(0); }), {"0"}},
      {"no threads", trains([](Options& o) { o.threads(-1); }), {"-1"}},
      {"a device that does not exist", trains([](Options& o) { o.device("gpu"); }), {"gpu", "cpu"}},
      {"a stage of an unknown block",
       trains([](Options& o) { o.setExecutionStrategy(PipelinedExecution({Stage("encoder")})); }),
       {"encoder"}},
      {"a block in two stages",
       trains([](Options& o) {
         o.setExecutionStrategy(PipelinedExecution({Stage("a"), Stage("a")}));
       }),
       {"a"}},
      {"a block on two devices",
       calls({4, 6},
             [](Mistaken& m, Tensor x) {
               {
                 const nn::Block block("b", 0);
                 x = nn::relu(x);
               }
               const nn::Block block("b", 1);
               return m.fc(x);
             }),
       {"'b'", "0", "1"}},
      {"a block without a name",
       calls({4, 6},
             [](Tensor x) {
               const nn::Block block("");
               return nn::relu(x);
             }),
       {"name"}},
      {"a device number far above what is used",
       calls({4, 6},
             [](Mistaken& m, Tensor x) {
               const nn::Block block("b", 5000);
               return m.fc(x);
             }),
       {"5000", "1 devices"}},
      {"a loss that depends on no weight",
       [] {
         struct Net : nn::Module {
           nn::Linear fc{*this, "fc", 2, 2};
           Tensor forward(Tensor x) { return nn::mean(nn::detach(fc(x))); }
         };
         Net net;
         trainingModel(net, Options(), optim::SGD(0.1)).run({floats({4, 2})});
       },
       {"loss"}},
      {"a loss of many numbers",
       [] {
         struct Net : nn::Module {
           nn::Linear fc{*this, "fc", 2, 2};
           Tensor forward(Tensor x) { return fc(x); }
         };
         Net net;
         trainingModel(net, Options(), optim::SGD(0.1)).run({floats({4, 2})});
       },
       {"loss", "scalar"}},
      {"a label that is no class",
       [] {
         Mlp net;
         auto inputs = testing::makeInputs(Mlp::inputs(), 0, 1);
         inputs[1].set(0, 3);
         trainingModel(net, Options(), optim::SGD(0.1)).run(inputs);
       },
       {"3"}},
      {"two training models of one module",
       [] {
         Mlp net;
         auto first = trainingModel(net, Options(), optim::SGD(0.1));
         auto second = trainingModel(net, Options(), optim::SGD(0.1));
       },
       {"training model"}},
      {"options that a model already has",
       [] {
         Mlp net;
         Options options;
         auto model = inferenceModel(net, options);
         options.threads(2);
       },
       {"options"}},
      {"a result that was never set",
       calls(Shape{4, 6}, [](Tensor) { return Tensor(); }),
       {"forward", "empty tensor"}},
      {"a schedule for inference",
       [] {
         Mlp net;
         inferenceModel(net, Options()).setLrSchedule(optim::LrSchedule::constant());
       },
       {"setLrSchedule", "inference"}},
      {"a negative learning rate", [] { optim::SGD(-0.1); }, {"-0.1"}},
      {"a momentum above 1", [] { optim::SGD({.lr = 0.1, .momentum = -1}); }, {"momentum"}},
      {"weights with other names",
       [] {
         Mlp net;
         auto model = inferenceModel(net, Options());
         model.loadStateDict({{"layer.weight", floats({2, 2})}});
       },
       {"fc1"}},
  };
}

/// Fits the Mlp with these settings.
std::function<void()> fits(std::function<void(FitOptions&)> set) {
  return [=] {
    Mlp net;
    const Options options;
    auto model = trainingModel(net, options, optim::SGD(0.1));
    DataLoader loader(
        options, data::tensorDataset({floats({8, 6}), HostTensor(DType::I64, Shape{8})}), 8);
    FitOptions fitting{.progress = false};
    set(fitting);
    fit(model, loader, fitting);
  };
}

/// A stream that ends at once.
struct NoSamples : data::IterableDataset {
  std::optional<data::Sample> next() override { return std::nullopt; }
  void restart() override {}
};

std::vector<Mistake> dataMistakes() {
  const auto loads = [](std::int64_t samples, std::int64_t batch) {
    return [=] {
      Mlp net;
      const Options options;
      auto model = trainingModel(net, options, optim::SGD(0.1));
      DataLoader loader(
          options,
          data::tensorDataset({floats({samples, 6}), HostTensor(DType::I64, Shape{samples})}),
          batch);
      fit(model, loader, {.progress = false});
    };
  };
  return {
      {"a batch of more than there is", loads(4, 8), {"8", "4"}},
      {"a batch of nothing", loads(4, 0), {"0"}},
      {"no dataset", [] { DataLoader(Options(), data::DatasetPtr(), 4); }, {"dataset", "null"}},
      {"no stream", [] { data::InfeedQueue(data::IterablePtr(), 3); }, {"infeed", "null"}},
      {"a transform of nothing", [] { data::toTensor(nullptr); }, {"toTensor", "null"}},
      {"no function", [] { data::map(data::tensorDataset({floats({4})}), {}); }, {"map", "null"}},
      {"a stream without samples",
       [] {
         Mlp net;
         const Options options;
         auto model = trainingModel(net, options, optim::SGD(0.1));
         DataLoader loader(options, data::Stream{std::make_shared<NoSamples>()}, 4);
         fit(model, loader, {.progress = false});
       },
       {"stream", "first batch of 4"}},
      {"images and labels of other numbers",
       [] {
         data::tensorDataset({floats({4, 6}), floats({5})});
       },
       {"4", "5"}},
      {"no data", [] { data::tensorDataset({}); }, {"tensor"}},
      {"an array that is not there", [] { data::readNpy("none.npy"); }, {"none.npy"}},
      {"a model that is not there", [] { onnx::importModel("none.onnx"); }, {"none.onnx"}},
      {"weights that are not there",
       [] { readSafeTensors("none.safetensors"); },
       {"none.safetensors"}},
      {"a checkpoint that is not there",
       [] { readCheckpoint("none.safetensors"); },
       {"none.safetensors"}},
      {"a model that is a text",
       [] {
         const testing::TempFolder folder;
         writeFileAtomically(folder / "model.onnx", "hello");
         onnx::importModel(folder / "model.onnx");
       },
       {"model.onnx"}},
      {"epochs below zero", fits([](FitOptions& fitting) { fitting.epochs = -1; }), {"-1"}},
      {"a model for inference that is to be trained",
       [] {
         Mlp net;
         auto model = inferenceModel(net, Options());
         DataLoader loader(
             Options(), data::tensorDataset({floats({8, 6}), HostTensor(DType::I64, Shape{8})}), 8);
         fit(model, loader, {.progress = false});
       },
       {"fit", "inference"}},
      {"an epoch before the first",
       fits([](FitOptions& fitting) { fitting.firstEpoch = -1; }),
       {"-1"}},
      {"a value of another size",
       [] {
         HostTensor::of<float>(Shape{2, 2}, {1, 2, 3});
       },
       {"3", "[2, 2]"}},
      {"an element that is not there",
       [] {
         floats({2, 2}).at(4);
       },
       {"4"}},
  };
}

void expectOneClearLine(const Mistake& mistake) {
  SCOPED_TRACE(mistake.what);
  try {
    mistake.make();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_LE(text.size(), 400U) << text;
    for (const std::string& word : mistake.words) {
      EXPECT_NE(text.find(word), std::string::npos) << "no '" << word << "' in: " << text;
    }
    EXPECT_EQ(text.find("./dev"), std::string::npos) << text;
  }
}

TEST(Mistakes, GiveOneClearLineEach) {
  std::size_t count = 0;
  for (const auto& list : {layerMistakes(), functionMistakes(), modelMistakes(), dataMistakes()}) {
    for (const Mistake& mistake : list) {
      expectOneClearLine(mistake);
      ++count;
    }
  }
  EXPECT_GE(count, 60U);
}

/// What fit prints while it trains for one epoch of two steps.
std::string printedBy(FitOptions fitting) {
  Mlp net;
  const Options options;
  auto model = trainingModel(net, options, optim::SGD(0.1));
  DataLoader loader(
      options, data::tensorDataset({floats({16, 6}), HostTensor(DType::I64, Shape{16})}), 8);
  ::testing::internal::CaptureStdout();
  fit(model, loader, fitting);
  return ::testing::internal::GetCapturedStdout();
}

TEST(Fit, ShowsProgressAndMetricsOnceUnlessToldNotTo) {
  const std::string shown = printedBy({});
  EXPECT_NE(shown.find("Epoch 1/1"), std::string::npos) << shown;
  EXPECT_NE(shown.find("Loss"), std::string::npos) << shown;
  const std::string twice = printedBy({.callbacks = {std::shared_ptr<Callback>(progressBar())}});
  EXPECT_EQ(twice.find("Epoch 1/1"), twice.rfind("Epoch 1/1")) << twice;
  EXPECT_EQ(printedBy({.progress = false}), "");
}

}  // namespace
}  // namespace sluice
