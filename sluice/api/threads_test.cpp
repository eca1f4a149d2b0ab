// Models called from several threads, and models, modules and results that end in any order.
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// Two layers in two blocks, and the mean squared error.
struct SharedNet : nn::Module {
  nn::Linear first{*this, "first", 3, 4};
  nn::Linear last{*this, "last", 4, 2};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor y) {
    nn::Tensor hidden;
    {
      const nn::Block block("B0", 0);
      hidden = nn::tanh(first(x));
    }
    const nn::Block block("B1", 1);
    const nn::Tensor predicted = last(hidden);
    return {predicted, nn::mseLoss(predicted, y)};
  }
};

struct SharedClassifier : nn::Module {
  nn::Linear fc{*this, "fc", 3, 2};
  nn::Tensor forward(nn::Tensor x) { return nn::softmax(fc(x), 1); }
};

HostTensor numbered(const Shape& shape, double first) {
  HostTensor tensor(DType::F32, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, first + 0.125 * static_cast<double>(i % 7));
  }
  return tensor;
}

std::uint64_t hashOf(const NamedTensors& state) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : state) {
    sum = sum * 31 + tensor.hash();
  }
  return sum;
}

/// Runs `work(i)` in as many threads at once.
template <class Work>
void inThreads(int count, const Work& work) {
  std::vector<std::thread> threads;
  std::atomic<int> waiting{count};
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      for (--waiting; waiting.load() > 0;) {
        std::this_thread::yield();
      }
      work(i);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

Options twoStages() {
  Options options;
  options.deviceIterations(2);
  options.training.gradientAccumulation(3);
  return options;
}

TEST(ModelThreads, EqualStepsGiveTheWeightsOfTheSameStepsOneAfterTheOther) {
  const HostTensor x = numbered(Shape{12, 3}, -0.5);
  const HostTensor y = numbered(Shape{12, 2}, 0.25);
  SharedNet alone;
  auto serial = trainingModel(alone, twoStages(), optim::AdamW(0.01));
  for (int i = 0; i < 40; ++i) {
    serial(x, y);
  }
  SharedNet net;
  auto model = trainingModel(net, twoStages(), optim::AdamW(0.01));
  inThreads(4, [&](int thread) {
    for (int i = 0; i < 10; ++i) {
      if (thread % 2 == 0) {
        model(x, y);
      } else {
        Pending step = model.runAsync({x, y});
        step.get();
      }
    }
  });
  EXPECT_EQ(model.updates(), 80);
  EXPECT_EQ(hashOf(model.stateDict()), hashOf(serial.stateDict()));
  EXPECT_EQ(hashOf(flattened(model.optimizerStateDict())),
            hashOf(flattened(serial.optimizerStateDict())));
}

TEST(ModelThreads, EachInferenceGetsTheResultOfItsOwnInputs) {
  SharedClassifier net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  std::vector<std::uint64_t> expected;
  const auto inputOf = [](int i) {
    // Two signatures, so that the first calls of some threads compile.
    return numbered(Shape{2 + 2 * (i % 2), 3}, 0.01 * i);
  };
  SharedClassifier alone;
  auto serial = inferenceModel(alone, Options().deviceIterations(2));
  expected.reserve(64);
  for (int i = 0; i < 64; ++i) {
    expected.push_back(serial(inputOf(i)).hash());
  }
  std::atomic<int> wrong{0};
  inThreads(8, [&](int thread) {
    for (int i = 0; i < 64; ++i) {
      const int each = (i + 8 * thread) % 64;
      const HostTensor result =
          thread < 4 ? model(inputOf(each)) : model.runAsync({inputOf(each)}).get().at(0);
      wrong += result.hash() == expected[static_cast<std::size_t>(each)] ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ModelThreads, MayDoEverythingAtOnceAndDestroyTheModelMeanwhile) {
  const HostTensor x = numbered(Shape{12, 3}, -0.5);
  const HostTensor y = numbered(Shape{12, 2}, 0.25);
  SharedNet net;
  auto model = trainingModel(net, twoStages(), optim::SGD(0.01));
  auto other = inferenceModel(net, Options().deviceIterations(2));
  model(x, y);
  const TrainingState state = model.trainingState();
  std::atomic<int> refused{0};
  std::atomic<int> errors{0};
  const auto use = [&](int thread) {
    switch (thread) {
      case 0:
        model(x, y);
        break;
      case 1:
        model.runAsync({x, y}).get();
        break;
      case 2:
        other(x, y);
        break;
      case 3:
        model.loadTrainingState(model.trainingState());
        break;
      case 4:
        net.first.weight.setValue(net.first.weight.value());
        break;
      case 5:
        model.setOptimizer(optim::SGD(0.02));
        EXPECT_GE(model.updates(), 2);
        break;
      case 6:
        EXPECT_FALSE(model.explain().empty());
        EXPECT_FALSE(model.summary().empty());
        break;
      default:
        model.detachFromDevice();
        EXPECT_TRUE(model.isCompiled());
        break;
    }
  };
  inThreads(8, [&](int thread) {
    for (int i = 0; i < 12; ++i) {
      try {
        use(thread);
        if (thread == 7 && i == 10) {
          model.destroy();
        }
      } catch (const InvalidArgument& error) {
        refused += std::string(error.what()).find("destroyed") != std::string::npos ? 1 : 0;
        errors += 1;
      }
    }
  });
  EXPECT_EQ(refused, errors);
  EXPECT_GE(refused, 1);
  EXPECT_THAT(messageOf([&] { model(x, y); }), HasSubstr("destroyed"));
  EXPECT_NO_THROW(other(x, y));
}

TEST(ModelThreads, MayMakeAndEndModelsOfOneModule) {
  SharedClassifier net;
  const HostTensor x = numbered(Shape{2, 3}, 0.5);
  std::uint64_t expected = 0;
  {
    auto model = inferenceModel(net, Options());
    expected = model(x).hash();
    model.destroy();
  }
  std::atomic<int> wrong{0};
  inThreads(6, [&](int thread) {
    for (int i = 0; i < 8; ++i) {
      auto model = inferenceModel(net, Options());
      wrong += model(x).hash() == expected ? 0 : 1;
      if (thread % 2 == 0) {
        model.destroy();
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ModelThreads, UseModelsOfTheirOwnSideBySide) {
  const HostTensor x = numbered(Shape{12, 3}, -0.5);
  const HostTensor y = numbered(Shape{12, 2}, 0.25);
  std::vector<std::uint64_t> hashes(6);
  inThreads(6, [&](int thread) {
    SharedNet net;
    auto model = trainingModel(net, twoStages(), optim::AdamW(0.01));
    for (int i = 0; i < 5; ++i) {
      model(x, y);
    }
    hashes[static_cast<std::size_t>(thread)] = hashOf(model.stateDict());
  });
  EXPECT_THAT(hashes, ::testing::Each(hashes[0]));
}

TEST(ModelThreads, ThatAStepWaitsForMayNotUseItsModel) {
  struct Net : nn::Module {
    Model* self = nullptr;
    std::string refusal;
    nn::CPU call{[this](std::span<const HostTensor> in) {
                   refusal = messageOf([&] { self->run({in[0]}); });
                   return std::vector<HostTensor>{in[0]};
                 },
                 "self"};
    nn::Tensor forward(nn::Tensor x) { return call({x}, {{DType::F32, Shape{1, 1}}})[0] * 2.0; }
  };
  Net net;
  auto model = inferenceModel(net, Options());
  net.self = &model;
  EXPECT_EQ(model(numbered(Shape{1, 1}, 3)).at(0), 6.0);
  EXPECT_THAT(net.refusal, HasSubstr("a function that a running step calls"));
  EXPECT_EQ(model(numbered(Shape{1, 1}, 4)).at(0), 8.0);
}

/// Calls something in every step.
struct CallingNet : nn::Module {
  std::function<void()> called;
  bool calls = true;  // in models for inference only
  nn::Parameter& w = addParameter("w", {DType::F32, Shape{}}, ir::Initializer::constant(3));
  nn::CPU call{[this](std::span<const HostTensor> in) {
                 if (called) {
                   called();
                 }
                 return std::vector<HostTensor>{in[0]};
               },
               "calls"};
  nn::Tensor forward(nn::Tensor x) {
    return nn::mean((calls ? call({x}, {{DType::F32, Shape{1, 1}}})[0] : x) * w);
  }
};

TEST(ModelThreads, OfAnotherModelThatAStepWaitsForMayNotUseItsModel) {
  CallingNet first;
  CallingNet second;
  const Options options = Options().stallTimeout(20);
  auto a = inferenceModel(first, options);
  auto b = inferenceModel(second, options);
  const HostTensor x = numbered(Shape{1, 1}, 2);
  std::string refusal;
  second.called = [&] { refusal = messageOf([&] { a(x); }); };
  first.called = [&] { b.runAsync({x}).get(); };
  EXPECT_EQ(a(x).at(0), 6);
  EXPECT_THAT(refusal, HasSubstr("a function that a running step calls"));
  // Nobody waits for this one: it may use the model after the step.
  std::promise<void> over;
  std::optional<Pending> left;
  double result = 0;
  second.called = [&] {
    over.get_future().wait();
    first.called = nullptr;
    result = a(x).at(0);
  };
  first.called = [&] { left.emplace(b.runAsync({x})); };
  EXPECT_EQ(a(x).at(0), 6);
  over.set_value();
  EXPECT_EQ(left->get()[0].at(0), 6);
  EXPECT_EQ(result, 6);
}

TEST(ModelThreads, MayEndAModelInAStepThatSharesItsState) {
  CallingNet net;
  const HostTensor x = numbered(Shape{1, 1}, 2);
  auto model = inferenceModel(net, Options());
  EXPECT_EQ(model(x).at(0), 6);
  net.calls = false;
  std::optional<TypedModel<CallingNet>> twin;
  twin.emplace(trainingModel(net, Options(), optim::SGD(1)));
  (*twin)(x);  // the slope of the loss is 2
  EXPECT_THAT(messageOf([&] { trainingModel(net, Options(), optim::SGD(1)); }),
              HasSubstr("already wrapped"));
  net.called = [&] { twin.reset(); };
  EXPECT_EQ(model(x).at(0), 2);
  net.called = nullptr;
  auto next = trainingModel(net, Options(), optim::SGD(1));  // the twin has left
  next(x);
  EXPECT_EQ(net.w.value().at(0), -1);
}

TEST(ModelThreads, MayEndAModelInAStepThatItStarted) {
  auto net = std::make_unique<CallingNet>();
  CallingNet& calling = *net;
  std::optional<TypedModel<CallingNet>> model;
  model.emplace(inferenceModel(*net, Options()));
  std::promise<void> started;
  calling.called = [&] {
    started.get_future().wait();
    model.reset();
  };
  Pending step = model->runAsync({numbered(Shape{1, 1}, 2)});
  started.set_value();
  EXPECT_EQ(step.get().at(0).at(0), 6);
  calling.called = nullptr;
  EXPECT_EQ(inferenceModel(*net, Options())(numbered(Shape{1, 1}, 3)).at(0), 9);
}

TEST(ModelThreads, ThatHaveAModelForThemselvesMayNotStartStepsInOthers) {
  SharedClassifier net;
  auto model = inferenceModel(net, Options());
  const HostTensor x = numbered(Shape{2, 3}, 0.5);
  const std::uint64_t expected = model(x).hash();
  {
    const auto scope = model.exclusive();
    EXPECT_THAT(messageOf<InvalidArgument>([&] { model.runAsync({x}).get(); }),
                HasSubstr("runAsync inside exclusive()"));
    EXPECT_EQ(model(x).hash(), expected);
  }
  std::thread other([&] { EXPECT_EQ(model(x).hash(), expected); });  // would wait for ever
  other.join();
  EXPECT_EQ(model.runAsync({x}).get().at(0).hash(), expected);
}

TEST(ModelThreads, TraceAModuleThatCallsItsOwnModelOnceOnly) {
  struct Net : nn::Module {
    Model* self = nullptr;
    nn::Tensor forward(nn::Tensor x) {
      if (self != nullptr) {
        self->run({numbered(Shape{1, 1}, 3)});
      }
      return x * 2.0;
    }
  };
  Net net;
  auto model = inferenceModel(net, Options());
  net.self = &model;
  EXPECT_THAT(messageOf([&] {
                model(numbered(Shape{1, 1}, 3));
              }),
              HasSubstr("while that is traced"));
  net.self = nullptr;
  EXPECT_EQ(model(numbered(Shape{1, 1}, 3)).at(0), 6.0);
}

TypedModel<SharedClassifier> madeOfALocalModule(bool compiled) {
  SharedClassifier net;
  auto model = inferenceModel(net, Options());
  if (compiled) {
    model(numbered(Shape{2, 3}, 0));
  }
  return model;
}

TEST(ModelLifetimes, AModelMayOutliveItsModule) {
  const HostTensor x = numbered(Shape{2, 3}, 0.5);
  SharedClassifier same;
  auto expected = inferenceModel(same, Options());
  auto compiled = madeOfALocalModule(true);
  EXPECT_EQ(compiled(x).hash(), expected(x).hash());
  EXPECT_EQ(hashOf(compiled.stateDict()), hashOf(expected.stateDict()));
  EXPECT_NO_THROW(compiled.loadStateDict(expected.stateDict()));
  EXPECT_THAT(compiled.summary(), HasSubstr("fc.weight"));
  EXPECT_THAT(messageOf([&] { compiled(numbered(Shape{5, 3}, 0)); }), HasSubstr("is gone"));
  EXPECT_THAT(messageOf([&] { compiled.module(); }), HasSubstr("is gone"));
  EXPECT_THAT(messageOf([&] { compiled.getModelProto(); }), HasSubstr("is gone"));
  compiled.destroy();
  auto untouched = madeOfALocalModule(false);
  EXPECT_THAT(messageOf([&] { untouched(x); }), HasSubstr("std::shared_ptr"));
}

TEST(ModelLifetimes, AFactoryGivesItsModuleToTheModel) {
  const auto make = [](bool shared) {
    return shared ? trainingModel(std::make_shared<SharedNet>(), twoStages(), optim::SGD(0.1))
                  : trainingModel(std::make_unique<SharedNet>(), twoStages(), optim::SGD(0.1));
  };
  const HostTensor x = numbered(Shape{12, 3}, -0.5);
  const HostTensor y = numbered(Shape{12, 2}, 0.25);
  SharedNet net;
  auto expected = trainingModel(net, twoStages(), optim::SGD(0.1));
  const std::uint64_t hash = expected(x, y).first.hash();
  auto shared = make(true);
  auto unique = make(false);
  EXPECT_EQ(shared(x, y).first.hash(), hash);
  EXPECT_EQ(unique(x, y).first.hash(), hash);
  EXPECT_THAT(messageOf([] { inferenceModel(std::shared_ptr<SharedClassifier>(), Options()); }),
              HasSubstr("null"));
  auto inference = inferenceModel(std::make_unique<SharedClassifier>(), Options());
  EXPECT_EQ(inference(numbered(Shape{2, 3}, 0)).shape(), Shape({2, 2}));
}

TEST(ModelLifetimes, AModelThatWasMovedFromSaysSo) {
  const HostTensor x = numbered(Shape{2, 3}, 0.5);
  SharedClassifier net;
  auto first = inferenceModel(net, Options());
  first(x);
  auto model = std::move(first);
  const auto refused = [](auto&& call) { EXPECT_THAT(messageOf(call), HasSubstr("moved from")); };
  // NOLINTBEGIN(bugprone-use-after-move)
  refused([&] { first(x); });
  refused([&] { first.runAsync({x}).get(); });
  refused([&] { first.compile(std::vector{x}); });
  refused([&] { first.stateDict(); });
  refused([&] { first.trainingState(); });
  refused([&] { first.summary(); });
  refused([&] { first.explain(); });
  refused([&] { first.module(); });
  refused([&] { first.session(); });
  refused([&] { first.updates(); });
  refused([&] { first.getTensorNames(); });
  refused([&] { first.batchLayout(); });
  refused([&] { first.program(); });
  refused([&] { first.optimizer(); });
  refused([&] { first.detachFromDevice(); });
  refused([&] { first.findFirstNonFinite({x}); });
  refused([&] { static_cast<void>(first.exclusive()); });
  refused([&] { first.options(); });
  refused([&] { first.microBatchesPerStep(); });
  EXPECT_FALSE(first.isCompiled());
  EXPECT_FALSE(first.isAttachedToDevice());
  EXPECT_FALSE(first.cancel());
  EXPECT_NO_THROW(first.destroy());
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_NO_THROW(model(x));
}

TEST(ModelLifetimes, ResultsAndBatchesOutliveEverything) {
  HostTensor result;
  std::optional<Pending> pending;
  NamedTensors state;
  Batch batch;
  std::uint64_t expected = 0;
  const HostTensor rows = numbered(Shape{2, 3}, 0.5);
  {
    SharedClassifier net;
    auto model = inferenceModel(net, Options());
    const HostTensor row = numbered(Shape{2, 3}, 0.5);
    DataLoader loader(Options(), data::tensorDataset({row}), 2);
    batch = *loader.next();
    const HostTensor& x = batch.tensors.at(0);
    result = model(x);
    expected = HostTensor(result.clone()).hash();
    pending.emplace(model.runAsync({x}));
    state = model.stateDict();
    model.destroy();
  }
  EXPECT_EQ(result.hash(), expected);
  EXPECT_EQ(batch.tensors.at(0).hash(), rows.hash());
  EXPECT_EQ(pending->get().at(0).hash(), expected);
  EXPECT_EQ(state.at("fc.weight").shape(), Shape({2, 3}));
}

TEST(ModelLifetimes, ModelsAndSessionsMayOutliveTheirBuilder) {
  const HostTensor x = HostTensor::of<float>(Shape{2}, {3, 4});
  const auto build = [](Builder& b) {
    const TensorId in = b.addInputTensor({DType::F32, Shape{2}});
    const TensorId w = b.addInitializedInputTensor(HostTensor::of<float>(Shape{2}, {2, 10}), "w");
    const TensorId out = b.aiOnnx().mul(in, w);
    b.addOutputTensor(out);
    return std::pair(in, out);
  };
  std::optional<Model> model;
  std::optional<InferenceSession> session;
  std::pair<TensorId, TensorId> ids;
  {
    Builder b;
    ids = build(b);
    model.emplace(inferenceModel(b, Options()));
    session.emplace(b, DataFlow(1, {{ids.second, AnchorReturnType("All")}}), Options(), false);
  }
  EXPECT_EQ(model->run({x})[0].at(1), 40);
  EXPECT_EQ(model->stateDict().at("w").at(1), 10);
  session->prepareDevice();
  NamedTensors outputs = session->initAnchorArrays();
  session->run({{{ids.first, x}}, outputs});
  EXPECT_EQ(outputs.at(ids.second).at(0), 6);
}

Tensors timesEight(const Tensors& in) {
  return repeat(
      3, [](const Tensors& carry) { return Tensors{carry[0] * 2.0}; }, in);
}

TEST(ModelLifetimes, FunctionsThatWereMovedFromOrLostTheirModuleSaySo) {
  const nn::Body body = timesEight;
  const HostTensor one = HostTensor::of<float>(Shape{1}, {1});
  CompiledFunction first = compile(Options(), body);
  CompiledFunction moved = std::move(first);
  // NOLINTNEXTLINE(bugprone-use-after-move)
  EXPECT_THAT(messageOf([&] { first(one); }), HasSubstr("moved from"));
  EXPECT_EQ(moved(one).at(0).at(0), 8);
  auto net = std::make_unique<nn::Module>();
  CompiledFunction early = compile(*net, Options(), body);
  CompiledFunction late = compile(*net, Options(), body);
  early(one);
  net.reset();
  EXPECT_EQ(early(one).at(0).at(0), 8);
  EXPECT_THAT(messageOf([&] { late(one); }), HasSubstr("is gone"));
}

TEST(ModelThreads, CallACompiledFunctionWithItsModelForThemselves) {
  nn::Module net;
  CompiledFunction early = compile(net, Options(), timesEight);
  const HostTensor one = HostTensor::of<float>(Shape{1}, {1});
  early(one);
  CompiledFunction late = compile(net, Options(), timesEight);
  for (CompiledFunction* function : {&early, &late}) {  // built, and not yet
    std::thread other;
    {
      const auto scope = early.model().exclusive();
      other = std::thread([&] { EXPECT_EQ((*function)(one).at(0).at(0), 8); });
      while (early.model().session().turn()->waiting() == 0) {
        std::this_thread::yield();
      }
      EXPECT_EQ((*function)(one).at(0).at(0), 8);
    }
    other.join();
  }
}

TEST(ModelThreads, ThatAFunctionWaitsForMayNotCallIt) {
  CallingNet net;
  const HostTensor in = numbered(Shape{1, 1}, 1);
  std::string refusal;
  CompiledFunction function = compile(net, Options().stallTimeout(20), [&](const Tensors& inputs) {
    return repeat(
        2,
        [&](const Tensors& carry) {
          return Tensors{net.call({carry[0]}, {{DType::F32, Shape{1, 1}}})[0] * 2.0};
        },
        inputs);
  });
  net.called = [&] { refusal = messageOf([&] { function(in); }); };
  EXPECT_EQ(function(in).at(0).at(0), 4);
  EXPECT_THAT(refusal, HasSubstr("a function that a running step calls"));
}

/// With enough weights that handing them back takes a while.
struct ManyWeights : nn::Module {
  std::vector<nn::Parameter*> all;
  ManyWeights() {
    for (int i = 0; i < 100; ++i) {
      all.push_back(&addParameter(
          fmt::format("w{}", i), {DType::F32, Shape{64}}, ir::Initializer::constant(0)));
    }
  }
  nn::Tensor forward(nn::Tensor x) {
    for (nn::Parameter* weight : all) {
      x = x + nn::mean(weight->use());
    }
    return x;
  }
};

TEST(ModelThreads, StartFromTheValuesOfAModelThatAnotherOneDestroys) {
  const HostTensor x = numbered(Shape{1, 1}, 0);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 10; ++round) {
    ManyWeights net;
    auto model = std::make_unique<TypedModel<ManyWeights>>(inferenceModel(net, Options()));
    (*model)(x);
    for (nn::Parameter* weight : net.all) {
      weight->setValue(HostTensor::full({DType::F32, Shape{64}}, 1));
    }
    inThreads(2, [&](int thread) {
      if (thread == 0) {
        model->destroy();
      } else {
        auto next = inferenceModel(net, Options());
        wrong += next(x).at(0) == 100 ? 0 : 1;
      }
    });
  }
  EXPECT_EQ(wrong, 0);
}

TEST(ModelThreads, CallOneCompiledFunctionWithTheirOwnInputs) {
  CompiledFunction function = compile(Options(), timesEight);
  std::atomic<int> wrong{0};
  inThreads(6, [&](int thread) {
    for (int i = 0; i < 20; ++i) {
      const auto value = static_cast<float>(100 * thread + i);
      const HostTensor in = HostTensor::of<float>(Shape{1}, {value});
      wrong += function(in).at(0).at(0) == 8.0 * value ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice
