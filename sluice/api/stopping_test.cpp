// Calls that are cancelled, that stall, or that fail at any of their tasks: what the caller gets,
// and which state the model has afterwards.
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "sluice/base/recoverable_error.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::HasSubstr;

/// A host function that waits until it is let go.
struct BlockingNet : nn::Module {
  std::promise<void> entered;
  std::promise<void> let;
  std::shared_future<void> going = let.get_future().share();
  bool first = true;
  nn::CPU call{[this](std::span<const HostTensor> in) {
                 if (first) {
                   first = false;
                   entered.set_value();
                   going.wait();
                 }
                 return std::vector<HostTensor>{in[0]};
               },
               "blocks"};
  nn::Tensor forward(nn::Tensor x) {
    return nn::tanh(call({x * 2.0}, {{DType::F32, Shape{1, 1}}})[0]);
  }
};

HostTensor one(float value) {
  return HostTensor::of<float>(Shape{1, 1}, {value});
}

TEST(Stalls, OfAFunctionOfTheHostEndTheCallAndRefuseOthersUntilItReturns) {
  BlockingNet net;
  auto model = inferenceModel(net, Options().stallTimeout(0.05));
  const std::string stall = messageOf<DeviceError>([&] { model(one(1)); });
  EXPECT_THAT(stall, HasSubstr("stall: no task has ended"));
  EXPECT_THAT(stall, HasSubstr("have not all come back"));
  EXPECT_THAT(messageOf<DeviceError>([&] { model(one(1)); }), HasSubstr("has not returned yet"));
  EXPECT_THAT(messageOf<DeviceError>([&] { model.detachFromDevice(); }),
              HasSubstr("has not returned yet"));
  net.let.set_value();
  model.session().engine().awaitIdle();
  EXPECT_EQ(model(one(0)).at(0), 0);
}

TEST(Stalls, OfAModelWhoseFunctionStillRunsEndWithTheModel) {
  BlockingNet net;
  std::thread later;
  {
    auto model = inferenceModel(net, Options().stallTimeout(0.05));
    EXPECT_THROW(model(one(1)), DeviceError);
    later = std::thread([&] { net.let.set_value(); });
  }  // waits for the function
  later.join();
}

TEST(Stalls, OfTheSearchForNumbersThatAreNotFiniteEndItWithItsOwnError) {
  struct Net : BlockingNet {
    nn::Parameter& count = addBuffer("count", {DType::F32, Shape{1}}, ir::Initializer::constant(0));
    nn::Tensor forward(nn::Tensor x) {
      count += 1.0;
      return BlockingNet::forward(x) + count;
    }
  };
  Net net;
  auto model = inferenceModel(net, Options().undoMemory(0).stallTimeout(0.05));
  const std::string stall = messageOf<DeviceError>([&] { model.findFirstNonFinite({one(0)}); });
  EXPECT_THAT(stall, HasSubstr("stall: no task has ended"));
  EXPECT_THAT(messageOf<DeviceError>([&] { model(one(0)); }), HasSubstr("has not returned yet"));
  net.let.set_value();  // the function returns into the checked program
  model.session().engine().awaitIdle();
  EXPECT_EQ(net.count.value().at(0), 0);
  EXPECT_EQ(model.findFirstNonFinite({one(0)}), std::nullopt);
  EXPECT_EQ(model(one(0)).at(0), 1);
}

/// The numbers from 1 on; waits before the one that it is told to.
class WaitingNumbers : public data::IterableDataset {
 public:
  WaitingNumbers(std::int64_t waitAt, std::shared_future<void> going)
      : waitAt_(waitAt), going_(std::move(going)) {}
  std::optional<data::Sample> next() override {
    if (++number_ == waitAt_) {
      going_.wait();
    }
    return data::Sample{one(static_cast<float>(number_))};
  }
  void restart() override { number_ = 0; }

 private:
  std::int64_t number_ = 0;
  std::int64_t waitAt_;
  std::shared_future<void> going_;
};

struct DoublingNet : nn::Module {
  nn::Tensor forward(nn::Tensor x) { return x * 2.0; }
};

TEST(Stalls, OfAFullOutfeedAndOfAnEmptyInfeedEndTheCall) {
  std::promise<void> let;
  data::InfeedQueue infeed(std::make_shared<WaitingNumbers>(100, let.get_future().share()), 1);
  data::OutfeedQueue outfeed(data::OutfeedMode::All, 1);
  DoublingNet net;
  auto model = inferenceModel(net, Options().deviceIterations(3).stallTimeout(0.05));
  EXPECT_THAT(messageOf<DeviceError>([&] { model.run(infeed, outfeed); }), HasSubstr("stall"));
  EXPECT_EQ(outfeed.dequeue()[0].at(0), 2);  // what was whole
  // The queue is not at its end: the next call goes on.
  data::OutfeedQueue wide;
  EXPECT_NO_THROW(model.run(infeed, wide));
  EXPECT_EQ(wide.dequeue()[0].shape()[0], 3);
  let.set_value();
}

TEST(Cancelling, EndsACallThatWaitsForItsInfeedWithoutLosingAnElement) {
  std::promise<void> let;
  auto numbers = std::make_shared<WaitingNumbers>(2, let.get_future().share());
  data::InfeedQueue infeed(numbers, 1);
  data::OutfeedQueue outfeed;
  DoublingNet net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  model.compile(infeed.types());
  Pending step = model.runAsync(infeed, outfeed);
  while (!model.cancel()) {
    std::this_thread::yield();
  }
  EXPECT_THROW(step.get(), Cancelled);
  let.set_value();
  model.run(infeed, outfeed);
  const HostTensor all = outfeed.dequeue()[0];
  ASSERT_EQ(all.shape().elements(), 2);
  // The first element if the call was cancelled before it took it; else the one it waited for.
  EXPECT_THAT(all.at(0), ::testing::AnyOf(2, 4));
  EXPECT_EQ(all.at(1), all.at(0) + 2);
}

TEST(Stalls, OfAnInfeedWithoutAFirstElementEndTheCall) {
  std::promise<void> let;
  data::InfeedQueue infeed(std::make_shared<WaitingNumbers>(1, let.get_future().share()), 1);
  data::OutfeedQueue outfeed;
  DoublingNet net;
  auto model = inferenceModel(net, Options().stallTimeout(0.05));
  const std::string expected = "no first element for 50 ms";
  EXPECT_THAT(messageOf<DeviceError>([&] { model.run(infeed, outfeed); }), HasSubstr(expected));
  EXPECT_THAT(messageOf<DeviceError>([&] { model.runAsync(infeed, outfeed).get(); }),
              HasSubstr(expected));
  CompiledFunction function = compile(Options().stallTimeout(0.05), [&](const Tensors&) {
    return repeat(
        1, [](const Tensors&) { return Tensors{}; }, {}, &infeed);
  });
  EXPECT_THAT(messageOf<DeviceError>([&] { function(); }), HasSubstr(expected));
  let.set_value();
  ASSERT_TRUE(infeed.awaitTypes(std::chrono::milliseconds(0)));
  model.run(infeed, outfeed);
  EXPECT_EQ(outfeed.dequeue()[0].at(0), 2);  // no element is lost
}

TEST(Cancelling, EndsACallThatWaitsForTheFirstElementOfItsInfeed) {
  std::promise<void> let;
  data::InfeedQueue infeed(std::make_shared<WaitingNumbers>(1, let.get_future().share()), 1);
  data::OutfeedQueue outfeed;
  DoublingNet net;
  auto model = inferenceModel(net, Options());
  for (const bool async : {false, true}) {
    std::thread other([&] {
      while (!model.cancel()) {
        std::this_thread::yield();
      }
    });
    EXPECT_THAT(messageOf<Cancelled>([&] {
                  if (async) {
                    model.runAsync(infeed, outfeed).get();
                  } else {
                    model.run(infeed, outfeed);
                  }
                }),
                // While it waits, or before it does.
                ::testing::AnyOf(HasSubstr("stopped"), HasSubstr("was cancelled")))
        << async;
    other.join();
  }
  let.set_value();
  model.run(infeed, outfeed);
  EXPECT_EQ(outfeed.dequeue()[0].at(0), 2);
}

TEST(Cancelling, EndsACallOfACompiledFunction) {
  BlockingNet net;
  net.first = false;
  CompiledFunction function = compile(net, Options(), [&](const Tensors& in) {
    return repeat(
        2, [&](const Tensors& carry) { return Tensors{net.forward(carry[0])}; }, in);
  });
  EXPECT_EQ(function(one(0))[0].at(0), 0);
  net.first = true;
  std::thread other([&] {
    net.entered.get_future().wait();
    EXPECT_TRUE(function.model().cancel());
    net.let.set_value();
  });
  EXPECT_THROW(function(one(0)), Cancelled);
  other.join();
  EXPECT_EQ(function(one(0))[0].at(0), 0);
}

TEST(Cancelling, HasNothingToEndBetweenTheCallsOfAScope) {
  DoublingNet net;
  auto model = inferenceModel(net, Options());
  const auto scope = model.exclusive();
  EXPECT_FALSE(model.cancel());
  EXPECT_EQ(model(one(1)).at(0), 2);
}

TEST(Cancelling, EndsACallBetweenTwoKernels) {
  BlockingNet net;
  auto model = inferenceModel(net, Options());
  EXPECT_FALSE(model.cancel());
  std::thread other([&] {
    net.entered.get_future().wait();
    EXPECT_TRUE(model.cancel());
    net.let.set_value();
  });
  EXPECT_THAT(messageOf<Cancelled>([&] { model(one(1)); }), HasSubstr("cancelled"));
  other.join();
  EXPECT_FALSE(model.cancel());
  EXPECT_EQ(model(one(0)).at(0), 0);
}

TEST(Cancelling, IsForCallsOfTheModelItself) {
  BlockingNet net;
  auto model = inferenceModel(net, Options());
  auto twin = inferenceModel(net, Options());
  Pending step = model.runAsync({one(0)});
  net.entered.get_future().wait();
  EXPECT_FALSE(twin.cancel());
  EXPECT_TRUE(model.cancel());
  net.let.set_value();
  EXPECT_THROW(step.get(), Cancelled);
  EXPECT_EQ(twin(one(0)).at(0), 0);
}

TEST(Cancelling, EndsACompilation) {
  struct Net : nn::Module {
    Model* self = nullptr;
    nn::Tensor forward(nn::Tensor x) {
      if (self != nullptr) {
        EXPECT_TRUE(self->cancel());
      }
      return x * 2.0;
    }
  };
  Net net;
  auto model = inferenceModel(net, Options());
  net.self = &model;
  EXPECT_THROW(model(one(1)), Cancelled);
  EXPECT_FALSE(model.isCompiled());
  net.self = nullptr;
  EXPECT_EQ(model(one(1)).at(0), 2);
}

TEST(LoadingTrainingState, WhileAFunctionHasNotReturnedChangesNothing) {
  struct Net : BlockingNet {
    nn::Linear fc{*this, "fc", 1, 1};
    bool blocks = false;  // in models for inference only
    nn::Tensor forward(nn::Tensor x) { return nn::mean(fc(blocks ? BlockingNet::forward(x) : x)); }
  };
  Net net;
  auto model = trainingModel(net, Options().stallTimeout(0.05), optim::SGD(0.1));
  const TrainingState state = model.trainingState();
  model(one(1));
  net.blocks = true;
  auto twin = inferenceModel(net, Options().stallTimeout(0.05));
  EXPECT_THROW(twin(one(1)), DeviceError);
  EXPECT_THAT(messageOf<DeviceError>([&] { model.loadTrainingState(state); }),
              HasSubstr("has not returned yet"));
  EXPECT_EQ(model.rngState().microBatch, 1);
  EXPECT_EQ(model.updates(), 1);
  net.let.set_value();
  model.session().engine().awaitIdle();
  model.loadTrainingState(state);
  EXPECT_EQ(model.rngState().microBatch, 0);
}

/// Two blocks with statistics that every micro-batch writes.
struct FaultyNet : nn::Module {
  nn::Linear first{*this, "first", 3, 4};
  nn::BatchNorm norm{*this, "norm", 4};
  nn::Linear last{*this, "last", 4, 2};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor y) {
    nn::Tensor hidden;
    {
      const nn::Block block("B0", 0);
      hidden = nn::tanh(norm(first(x)));
    }
    const nn::Block block("B1", 1);
    const nn::Tensor predicted = last(hidden);
    return {predicted, nn::mseLoss(predicted, y)};
  }
};

std::uint64_t hashOfState(const Model& model) {
  const TrainingState state = model.trainingState();
  std::uint64_t sum = static_cast<std::uint64_t>(state.rng.microBatch);
  for (const NamedTensors& part : {state.model, flattened(state.optimizer)}) {
    for (const auto& [name, tensor] : part) {
      sum = sum * 31 + tensor.hash();
    }
  }
  return sum;
}

/// Faults at the tasks of a step, one after the other.
class Faults {
 public:
  explicit Faults(Model& model) : model_(model) {
    model_.session().engine().setBeforeTask([this](std::size_t, std::int64_t) {
      if (seen_++ == at_) {
        raise<DeviceError>("fault at task {}", at_);
      }
    });
  }
  ~Faults() { model_.session().engine().setBeforeTask(nullptr); }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  void setNext(std::int64_t task) {
    at_ = task;
    seen_ = 0;
  }

 private:
  Model& model_;
  std::atomic<std::int64_t> at_{-1};
  std::atomic<std::int64_t> seen_{0};
};

struct FaultCase {
  std::string name;
  std::function<Options()> options;
  bool inFiles = false;  ///< variables in remote memory are in files
};

std::vector<FaultCase> faultCases() {
  const auto base = [] {
    Options options;
    options.deviceIterations(2);
    options.training.gradientAccumulation(2);
    return options;
  };
  const auto remote = [base] {
    Options options = base();
    options.setExecutionStrategy(SerialPhasedExecution("B0", "B1"));
    return options;
  };
  return {
      {"Pipeline", base},
      {"Replicas",
       [base] {
         Options options = base();
         options.replicationFactor(2).broadcastBuffers(false);
         return options;
       }},
      {"Continuous", [] { return Options().deviceIterations(4).continuousWeightUpdates(true); }},
      {"Phased", remote},
      {"PhasedInFiles", remote, true}};
}

class FaultAtEveryTask : public ::testing::TestWithParam<FaultCase> {
 protected:
  /// For a model that has the files of this name.
  Options optionsOf(const char* model) const {
    Options options = GetParam().options();
    if (GetParam().inFiles) {
      options.remoteMemory((folder_ / model).string());
    }
    return options;
  }

 private:
  testing::TempFolder folder_;
};

HostTensor faultyInput(const Options& options, std::int64_t columns, double first) {
  const std::int64_t rows = 2 * options.deviceIterations() * options.replicationFactor() *
                            options.training.gradientAccumulation();
  HostTensor tensor(DType::F32, Shape{rows, columns});
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    tensor.set(i, first + 0.125 * static_cast<double>(i % 7));
  }
  return tensor;
}

TEST_P(FaultAtEveryTask, LeavesTheStateOfTheCallBefore) {
  const Options options = optionsOf("faulty");
  const HostTensor x = faultyInput(options, 3, -0.5);
  const HostTensor y = faultyInput(options, 2, 0.25);
  FaultyNet net;
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.01, .momentum = 0.5}));
  model(x, y);
  FaultyNet alone;
  auto expected =
      trainingModel(alone, optionsOf("expected"), optim::SGD({.lr = 0.01, .momentum = 0.5}));
  expected(x, y);
  const std::uint64_t before = hashOfState(expected);
  expected(x, y);
  std::int64_t failures = 0;
  {
    Faults faults(model);
    for (bool failed = true; failed;) {
      faults.setNext(failures);
      failed = false;
      try {
        model(x, y);
      } catch (const DeviceError& error) {
        EXPECT_THAT(error.what(), HasSubstr("fault at task"));
        failed = true;
        ++failures;
        ASSERT_EQ(hashOfState(model), before) << "after a fault at task " << failures - 1;
      }
    }
  }
  EXPECT_GT(failures, 20);
  EXPECT_EQ(hashOfState(model), hashOfState(expected));
}

TEST_P(FaultAtEveryTask, WithoutACopyTheStateIsWholeOrRefusedUntilItIsLoaded) {
  Options options = optionsOf("faulty");
  options.undoMemory(0);
  const HostTensor x = faultyInput(options, 3, -0.5);
  const HostTensor y = faultyInput(options, 2, 0.25);
  FaultyNet net;
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.01, .momentum = 0.5}));
  model(x, y);
  const TrainingState saved = model.trainingState();
  const std::uint64_t before = hashOfState(model);
  std::int64_t torn = 0;
  std::int64_t whole = 0;
  {
    Faults faults(model);
    for (;;) {
      faults.setNext(torn + whole);
      try {
        model(x, y);
        break;
      } catch (const DeviceError&) {
      }
      faults.setNext(-1);
      try {
        ASSERT_EQ(hashOfState(model), before);
        ++whole;
      } catch (const RecoverableError& error) {
        EXPECT_EQ(error.recoveryAction(), RecoveryAction::DeviceReset);
        EXPECT_THAT(error.what(), HasSubstr("torn"));
        EXPECT_THROW(model(x, y), RecoverableError);
        EXPECT_THROW(net.first.weight.value(), RecoverableError);
        model.loadStateDict(saved.model);
        EXPECT_THROW(model(x, y), RecoverableError);  // the optimizer's state is still missing
        model.loadTrainingState(saved);
        ASSERT_EQ(hashOfState(model), before);
        ++torn;
      }
    }
  }
  EXPECT_GT(torn + whole, 20);
  EXPECT_EQ(torn > 0, !GetParam().inFiles);  // files keep what was there
  FaultyNet alone;
  auto expected =
      trainingModel(alone, optionsOf("expected"), optim::SGD({.lr = 0.01, .momentum = 0.5}));
  expected(x, y);
  expected(x, y);
  EXPECT_EQ(hashOfState(model), hashOfState(expected));
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         FaultAtEveryTask,
                         ::testing::ValuesIn(faultCases()),
                         [](const auto& each) { return each.param.name; });

TEST(TornState, DoesNotHaveWhatEachCallOfAFunctionWritesAnew) {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 1, 1};
    std::int64_t failAt = -1;
    nn::CPU call{[this](std::span<const HostTensor> in) {
                   if (failAt-- == 0) {
                     raise<DeviceError>("bad");
                   }
                   return std::vector<HostTensor>{in[0]};
                 },
                 "fails"};
    nn::Tensor forward(nn::Tensor x) { return fc(x); }
  };
  for (const bool before : {false, true}) {
    Net net;
    CompiledFunction function = compile(net, Options().undoMemory(0), [&](const Tensors& in) {
      return repeat(3,
                    [&](const Tensors& carry) {
                      return Tensors{net.call({net.fc(carry[0])}, {{DType::F32, Shape{1, 1}}})[0]};
                    },
                    {before ? in[0] * 3.0 : in[0]});
    });
    auto other = inferenceModel(net, Options().undoMemory(0));
    const std::uint64_t expected = function(one(1))[0].hash();
    const std::uint64_t otherResult = other(one(1)).hash();
    net.failAt = 1;  // the first iteration has written the carried value
    EXPECT_THAT(messageOf<DeviceError>([&] { function(one(1)); }), HasSubstr("bad"));
    EXPECT_EQ(other(one(1)).hash(), otherResult);
    EXPECT_EQ(function(one(1))[0].hash(), expected) << before;
  }
}

/// Leaves `last.weight` torn and nobody with the session.
void tear(FaultyNet& net, Options options, const HostTensor& x, const HostTensor& y) {
  auto model = trainingModel(net, options.undoMemory(0), optim::SGD(0.1));
  model(x, y);
  Faults faults(model);
  for (std::int64_t task = 0; !model.session().isTorn("last.weight"); ++task) {
    faults.setNext(task);
    EXPECT_THROW(model(x, y), DeviceError);
  }
}

TEST(TornState, StaysTornForAModelOnOtherDevices) {
  Options options;
  options.setExecutionStrategy(ShardedExecution{Stage("B0", "B1").device(0)});
  const HostTensor x = faultyInput(options, 3, -0.5);
  const HostTensor y = faultyInput(options, 2, 0.25);
  FaultyNet whole;
  const NamedTensors state = nn::stateDict(whole);
  for (const int threads : {1, 2}) {
    FaultyNet net;
    tear(net, options, x, y);
    Options next = options;
    auto model = inferenceModel(net, next.threads(threads));
    EXPECT_THROW(model(x, y), RecoverableError) << threads;
    EXPECT_THROW(net.last.weight.value(), RecoverableError) << threads;
    model.loadStateDict(state);
    EXPECT_EQ(net.last.weight.value().hash(), whole.last.weight.value().hash());
    auto expected = inferenceModel(whole, options);
    EXPECT_EQ(model(x, y).first.hash(), expected(x, y).first.hash());
  }
}

TEST(TornState, IsNotHandedToTheModuleWhenTheModelEnds) {
  // One device has one worker, so that tasks begin in one order.
  Options options;
  options.undoMemory(0).setExecutionStrategy(ShardedExecution{Stage("B0", "B1").device(0)});
  FaultyNet net;
  const HostTensor x = faultyInput(options, 3, -0.5);
  const HostTensor y = faultyInput(options, 2, 0.25);
  auto model = trainingModel(net, options, optim::SGD(0.1));
  const std::uint64_t start = net.last.weight.value().hash();
  model(x, y);
  {
    Faults faults(model);
    faults.setNext(0);
    EXPECT_THROW(model(x, y), DeviceError);
    EXPECT_NO_THROW(model.stateDict());  // nothing was written yet
    for (std::int64_t task = 1; !model.session().isTorn("last.weight"); ++task) {
      faults.setNext(task);
      EXPECT_THROW(model(x, y), DeviceError);
    }
  }
  EXPECT_NO_THROW(model.destroy());
  EXPECT_EQ(net.last.weight.value().hash(), start);
  EXPECT_NO_THROW(trainingModel(net, options, optim::SGD(0.1))(x, y));
}

}  // namespace
}  // namespace sluice
