// When a model has its devices, and steps in a thread of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/program/program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

struct ConnectedNet : nn::Module {
  nn::Linear fc{*this, "fc", 3, 2};
  bool traced = false;
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor labels) {
    traced = isRunningOnDevice();
    const nn::Tensor y = fc(x);
    return {y, nn::crossEntropy(y, labels)};
  }
};

HostTensor rows(std::int64_t first, std::int64_t count) {
  HostTensor x(DType::F32, Shape{count, 3});
  auto* data = reinterpret_cast<float*>(x.bytes());
  for (std::int64_t i = 0; i < count * 3; ++i) {
    data[i] = static_cast<float>((first * 3 + i) % 7) - 3;
  }
  return x;
}

HostTensor labels(std::int64_t count, std::int64_t value = 1) {
  return HostTensor::full({DType::I64, Shape{count}}, static_cast<double>(value));
}

TEST(ConnectionType, SaysWhenTheModelHasItsDevices) {
  ConnectedNet always;
  auto first = inferenceModel(always, Options());
  EXPECT_TRUE(first.isAttachedToDevice());
  ConnectedNet later;
  auto second = inferenceModel(later, Options().connectionType(ConnectionType::OnDemand));
  EXPECT_FALSE(second.isAttachedToDevice());
  EXPECT_THAT(messageOf([&] { second.attachToDevice(); }), HasSubstr("not compiled"));
  second(rows(0, 2), labels(2));
  EXPECT_TRUE(second.isAttachedToDevice());
}

TEST(ConnectionType, NeverCompilesButDoesNotRun) {
  ConnectedNet net;
  auto model = trainingModel(net, Options().connectionType(ConnectionType::Never));
  model.compile(std::vector{rows(0, 2), labels(2)});
  EXPECT_TRUE(model.isCompiled());
  EXPECT_GT(model.program().segments.size(), 0U);
  EXPECT_FALSE(model.isAttachedToDevice());
  EXPECT_THAT(messageOf([&] { model(rows(0, 2), labels(2)); }),
              AllOf(HasSubstr("Never"), HasSubstr("compile")));
  EXPECT_THAT(messageOf([&] { model.attachToDevice(); }), HasSubstr("Never"));
  // Nothing was loaded: another model of the module starts from the first values.
  EXPECT_FALSE(model.session().contains("fc.weight"));
  auto running = inferenceModel(net, Options());
  EXPECT_EQ(running(rows(0, 2), labels(2)).first.shape(), (Shape{2, 2}));
}

TEST(ConnectionType, IsNeverForAnOfflineTarget) {
  for (const std::int64_t version : {1, 2, 21}) {
    EXPECT_EQ(Options().useOfflineTarget(version).device().connection, ConnectionType::Never);
  }
  EXPECT_THAT(messageOf([] { Options().useOfflineTarget(3); }), HasSubstr("1, 2 or 21, got 3"));
  ConnectedNet net;
  auto model = inferenceModel(net, Options().set("useOfflineTarget", ""));
  model.compile(Inputs(rows(0, 2), labels(2)));
  EXPECT_GT(model.program().segments.size(), 0U);
  EXPECT_FALSE(model.isAttachedToDevice());
  EXPECT_THAT(messageOf([&] { model(rows(0, 2), labels(2)); }), HasSubstr("compile"));
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options().useDeviceId(1).useOfflineTarget()); }),
              HasSubstr("useDeviceIds"));
}

TEST(Detaching, FreesTheDevicesAndKeepsTheState) {
  ConnectedNet net;
  auto model =
      trainingModel(net, Options(), optim::SGD(optim::SgdOptions{.lr = 0.1, .momentum = 0.9}));
  ConnectedNet twin;
  auto other =
      trainingModel(twin, Options(), optim::SGD(optim::SgdOptions{.lr = 0.1, .momentum = 0.9}));
  model(rows(0, 4), labels(4));
  other(rows(0, 4), labels(4));
  model.detachFromDevice();
  EXPECT_FALSE(model.isAttachedToDevice());
  EXPECT_EQ(model.session().state().state(0), nullptr);
  EXPECT_EQ(model.session().state().transient(0), nullptr);
  EXPECT_EQ(net.fc.weight.value().hash(), twin.fc.weight.value().hash());
  // What is written meanwhile counts, and the next call attaches by itself.
  const HostTensor bias = HostTensor::of<float>(Shape{2}, {1, -1});
  net.fc.bias->setValue(bias);
  twin.fc.bias->setValue(bias);
  model(rows(4, 4), labels(4));
  other(rows(4, 4), labels(4));
  EXPECT_TRUE(model.isAttachedToDevice());
  EXPECT_EQ(net.fc.weight.value().hash(), twin.fc.weight.value().hash());
  EXPECT_EQ(net.fc.bias->value().hash(), twin.fc.bias->value().hash());
  model.detachFromDevice();
  model.attachToDevice();
  EXPECT_TRUE(model.isAttachedToDevice());
  EXPECT_GT(model.session().state().state(0)->bytes(), 0U);
}

TEST(Weights, AreNeverOutOfDateOnHostOrDevice) {
  ConnectedNet net;
  auto training = trainingModel(net, Options(), optim::SGD(0.5));
  auto inference = inferenceModel(net, Options());
  const HostTensor before = net.fc.weight.value();
  training(rows(0, 4), labels(4));
  training.copyWeightsToHost();
  EXPECT_NE(net.fc.weight.value().hash(), before.hash());
  // A zero layer gives zeros in the connected inference model at once.
  net.fc.weight.setValue(HostTensor(DType::F32, net.fc.weight.value().shape()));
  net.fc.bias->setValue(HostTensor(DType::F32, Shape{2}));
  training.copyWeightsToDevice();
  EXPECT_EQ(inference(rows(0, 1), labels(1)).first.at(0), 0.0);
}

/// y = w x against a target, mean squared error.
struct OneFactor : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor target) {
    const nn::Tensor y = fc(x);
    return {y, nn::mseLoss(y, target)};
  }
};

HostTensor oneByOne(float value) {
  return HostTensor::of<float>({1, 1}, {value});
}

/// The weight as it lies in the memory of its device.
float weightOnDevice(const Session& session) {
  const runtime::ModelState& state = session.state();
  const program::PlacedVariable& placed = *state.plan().find("fc.weight");
  float value = 0;
  device::copyOut(state.queueOf(0), &value, state.state(0)->at(placed.offset), sizeof value);
  return value;
}

TEST(Weights, ReachDevicesWhoseMemoryTheHostCannotReadAndComeBack) {
  OneFactor net;
  net.fc.weight.setValue(oneByOne(0));
  auto training = trainingModel(net, Options().device("far"), optim::SGD(0.25));
  auto inference = inferenceModel(net, Options().device("far"));
  const HostTensor one = oneByOne(1);
  const HostTensor two = oneByOne(2);
  // loss = (w - 2)^2: every step halves the distance of w to 2.
  training(one, two);
  EXPECT_EQ(training.session().device().info().kind, "far");
  EXPECT_EQ(training.session().state().state(0)->host(), nullptr);
  training.copyWeightsToHost();
  EXPECT_EQ(net.fc.weight.value().at(0), 1.0);
  EXPECT_EQ(weightOnDevice(training.session()), 1.0F);
  // From the host to the device that both models use.
  net.fc.weight.setValue(oneByOne(6));
  training.copyWeightsToDevice();
  EXPECT_EQ(weightOnDevice(training.session()), 6.0F);
  EXPECT_EQ(inference(one, two).first.at(0), 6.0);
  training(one, two);
  inference.copyWeightsToHost();
  EXPECT_EQ(net.fc.weight.value().at(0), 4.0);
  EXPECT_EQ(inference(one, two).first.at(0), 4.0);
}

TEST(Weights, AreCopiedOnceNoStepIsUnderWay) {
  OneFactor net;
  net.fc.weight.setValue(oneByOne(0));
  auto model = trainingModel(net, Options().device("far"), optim::SGD(0.25));
  const HostTensor one = oneByOne(1);
  const HostTensor two = oneByOne(2);
  model(one, two);
  for (int step = 0; step < 4; ++step) {
    const Pending pending = model.runAsync({one, two});
    step % 2 == 0 ? model.copyWeightsToHost() : model.copyWeightsToDevice();
    EXPECT_TRUE(pending.isReady()) << step;
  }
  EXPECT_EQ(net.fc.weight.value().at(0), 2 - 2.0 / 32);
}

TEST(Weights, AreNotCopiedByAFunctionThatTheStepCalls) {
  struct Calling : nn::Module {
    Model* model = nullptr;
    std::string refusal;
    nn::CPU call{[this](std::span<const HostTensor> x) {
                   refusal = messageOf([&] { model->copyWeightsToHost(); });
                   return std::vector<HostTensor>{x[0].clone()};
                 },
                 "call"};
    nn::Tensor forward(nn::Tensor x) { return call({x}, {x.type()})[0]; }
  };
  Calling net;
  auto model = inferenceModel(net, Options());
  net.model = &model;
  model(oneByOne(3));
  EXPECT_THAT(net.refusal, HasSubstr("step"));
}

TEST(Queries, NameTheDevicesOfThisBuild) {
  ASSERT_EQ(availableDevices().size(), 3U);
  EXPECT_EQ(availableDevices()[0].kind, "cpu");
  EXPECT_EQ(availableDevices()[1].kind, "far");
  EXPECT_EQ(availableDevices()[2].kind, "sim");
  EXPECT_TRUE(devicesAreAvailable());
  EXPECT_TRUE(devicesAreAvailable(100));
  EXPECT_FALSE(devicesAreAvailable(1, "abacus"));
  EXPECT_THAT(messageOf([] { devicesAreAvailable(0); }), HasSubstr("got 0"));
}

TEST(Queries, GiveTheVersionsOfLibraryAndDevices) {
  EXPECT_THAT(std::string(version()), MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
  ConnectedNet net;
  auto model = inferenceModel(net, Options().device("cpu"));
  EXPECT_EQ(deviceVersion(), model.session().device().info().description);
  EXPECT_EQ(deviceVersion("far:2"), availableDevices()[1].description);
  EXPECT_FALSE(deviceVersion().empty());
  EXPECT_THAT(messageOf([] { deviceVersion("abacus"); }), HasSubstr("this build has: cpu, far"));
}

TEST(Queries, IsRunningOnDeviceOnlyWhileForwardIsTraced) {
  ConnectedNet net;
  EXPECT_FALSE(isRunningOnDevice());
  auto model = inferenceModel(net, Options());
  model(rows(0, 1), labels(1));
  EXPECT_TRUE(net.traced);
  EXPECT_FALSE(isRunningOnDevice());
}

TEST(Compile, KeepsAProgramForEveryShape) {
  ConnectedNet net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  EXPECT_EQ(model.compilationTime(), 0.0);
  EXPECT_THAT(messageOf([&] { model(rows(0, 3), labels(3)); }), HasSubstr("multiple of 2"));
  model.compile(std::vector{rows(0, 2), labels(2)});
  EXPECT_TRUE(model.isCompiled());
  const double first = model.compilationTime();
  EXPECT_GT(first, 0.0);
  const program::Program* small = &model.program();
  EXPECT_EQ(model(rows(0, 4), labels(4)).first.shape(), (Shape{4, 2}));
  EXPECT_NE(&model.program(), small);
  const double second = model.compilationTime();
  EXPECT_GT(second, first);
  model(rows(0, 2), labels(2));
  EXPECT_EQ(model.compilationTime(), second);
  EXPECT_THAT(messageOf([&] {
                model(rows(0, 2).reshaped(Shape{2, 3, 1}), labels(2));
              }),
              HasSubstr("another type or rank"));
}

TEST(NamedInputs, AreTakenByTheNamesOfAModule) {
  ConnectedNet net;
  auto model = inferenceModel(net, Options());
  const NamedTensors out = model.run({{"input0", rows(0, 2)}, {"input1", labels(2)}});
  EXPECT_EQ(out.at("output0").hash(), model(rows(0, 2), labels(2)).first.hash());
  EXPECT_EQ(out.size(), 2U);
  EXPECT_THAT(messageOf([&] {
                model.run(NamedTensors{{"input0", rows(0, 2)}});
              }),
              HasSubstr("input 'input1' of the model is missing"));
  EXPECT_THAT(
      messageOf([&] {
        model.run(NamedTensors{{"input0", rows(0, 2)}, {"input1", labels(2)}, {"x", labels(2)}});
      }),
      HasSubstr("no input 'x'"));
}

TEST(RunAsync, GivesTheBitsOfRun) {
  ConnectedNet net;
  ConnectedNet twin;
  auto model = trainingModel(net, Options(), optim::AdamW(0.1));
  auto other = trainingModel(twin, Options(), optim::AdamW(0.1));
  for (std::int64_t step = 0; step < 5; ++step) {
    Pending pending = model.runAsync({rows(step, 4), labels(4)});
    const std::vector<HostTensor> expected = other.run({rows(step, 4), labels(4)});
    const std::vector<HostTensor> got = pending.get();
    EXPECT_TRUE(pending.isReady());
    ASSERT_EQ(got.size(), 2U);
    EXPECT_EQ(got[1].hash(), expected[1].hash());
    EXPECT_THAT(messageOf([&] { pending.get(); }), HasSubstr("taken already"));
  }
  EXPECT_EQ(model.updates(), 5);
  EXPECT_EQ(net.fc.weight.value().hash(), twin.fc.weight.value().hash());
}

TEST(RunAsync, LetsEverythingElseWait) {
  ConnectedNet net;
  ConnectedNet twin;
  auto model = trainingModel(net, Options(), optim::SGD(0.1));
  auto other = trainingModel(twin, Options(), optim::SGD(0.1));
  {
    Pending first = model.runAsync({rows(0, 4), labels(4)});
    Pending second = model.runAsync({rows(4, 4), labels(4)});
    EXPECT_TRUE(first.isReady());
    EXPECT_EQ(model.updates(), 2);
    model(rows(8, 4), labels(4));
    // The destructors have nothing left to wait for.
  }
  for (std::int64_t step = 0; step < 3; ++step) {
    other(rows(4 * step, 4), labels(4));
  }
  EXPECT_EQ(net.fc.weight.value().hash(), twin.fc.weight.value().hash());
}

TEST(RunAsync, BringsErrorsToGet) {
  ConnectedNet net;
  auto model = inferenceModel(net, Options().deviceIterations(2));
  Pending wrong = model.runAsync({rows(0, 3), labels(3)});
  EXPECT_THAT(messageOf([&] { wrong.get(); }), HasSubstr("multiple of 2"));
  Pending outOfRange = model.runAsync({rows(0, 2), labels(2, 99)});
  EXPECT_THAT(messageOf([&] { outOfRange.get(); }), HasSubstr("99"));
  // The model goes on working, and a result nobody asks for is no error.
  { const Pending ignored = model.runAsync({rows(0, 2), labels(2, 99)}); }
  EXPECT_EQ(model.run({rows(0, 2), labels(2)})[0].shape(), (Shape{2, 2}));
}

}  // namespace
}  // namespace sluice
