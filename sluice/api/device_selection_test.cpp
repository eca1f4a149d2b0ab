// Which devices of the machine a model gets, and how many replicas they hold.
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/api/session.h"
#include "sluice/devices/hold.h"
#include "sluice/sluice.h"
#include "tests/support/device_variable.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::DeviceVariable;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Two layers in two blocks.
struct PlacedNet : nn::Module {
  nn::Linear a{*this, "a", 4, 4};
  nn::Linear b{*this, "b", 4, 4};

  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    {
      const nn::Block block("b0");
      x = nn::relu(a(x));
    }
    const nn::Block block("b1");
    x = b(x);
    return {x, nn::mean(x * x)};
  }
};

/// A stage per block.
Options twoStages() {
  Options options;
  options.setExecutionStrategy(PipelinedExecution{"b0", "b1"});
  return options;
}

template <class Model>
void compile(Model& model) {
  model.compile(std::vector{HostTensor(DType::F32, Shape{model.batchLayout().inputFactor(), 4})});
}

std::string compileMessage(const Options& options) {
  PlacedNet net;
  auto model = inferenceModel(net, options);
  return messageOf([&] { compile(model); });
}

/// The numbers of the devices, one replica behind the other.
std::vector<int> devicesOf(const Session& session) {
  std::vector<int> numbers;
  for (std::size_t r = 0; r < session.numReplicas(); ++r) {
    for (std::size_t d = 0; d < session.numDevices(); ++d) {
      numbers.push_back(session.device(d, r).info().index);
    }
  }
  return numbers;
}

TEST(UseDeviceIds, ChoosesExactlyThese) {
  PlacedNet net;
  auto model = trainingModel(net, twoStages().replicationFactor(2).useDeviceIds({7, 3, 5, 11}));
  compile(model);
  EXPECT_THAT(devicesOf(model.session()), ElementsAre(7, 3, 5, 11));
  EXPECT_THAT(messageOf([&] { inferenceModel(net, Options()); }),
              AllOf(HasSubstr("useDeviceIds [7, 3, 5, 11]"), HasSubstr("asks for []")));
  PlacedNet other;
  auto one = inferenceModel(other, Options().useDeviceId(6));
  compile(one);
  EXPECT_THAT(devicesOf(one.session()), ElementsAre(6));
}

TEST(UseDeviceIds, OrNumbersThemFromZeroWithoutTwoOfOneNumber) {
  PlacedNet net;
  auto model = trainingModel(net, twoStages().replicationFactor(2));
  compile(model);
  EXPECT_THAT(devicesOf(model.session()), ElementsAre(0, 1, 2, 3));
  // A program of one device and two replicas first, then one of two devices.
  PlacedNet grown;
  auto small = inferenceModel(
      grown, Options().replicationFactor(2).setExecutionStrategy(PipelinedExecution{{"b0", "b1"}}));
  compile(small);
  auto large = trainingModel(grown, twoStages().replicationFactor(2));
  compile(large);
  std::vector<int> numbers = devicesOf(large.session());
  std::ranges::sort(numbers);
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 3));
}

TEST(UseDeviceIds, RefusesFewerDevicesThanNeededAndWarnsOfMore) {
  EXPECT_THAT(compileMessage(twoStages().useDeviceId(3)),
              HasSubstr("useDeviceIds names 1 devices, the model needs 2 for 1 replicas"));
  EXPECT_THAT(compileMessage(twoStages().replicationFactor(2).useDeviceIds({0, 1, 2})),
              HasSubstr("useDeviceIds names 3 devices, the model needs 4 for 2 replicas"));
  PlacedNet net;
  auto model = inferenceModel(net, twoStages().deviceIterations(2).useDeviceIds({4, 5, 6}));
  compile(model);
  EXPECT_THAT(model.compiled().warnings,
              Contains(HasSubstr("useDeviceIds names 3 devices, the model needs 2: 1 stay idle")));
  EXPECT_THAT(devicesOf(model.session()), ElementsAre(4, 5));
}

TEST(UseDeviceIds, CountsTheDevicesOfAllProgramsOfAModule) {
  // Two replicas of one device and one replica of two devices fit two devices, but not together.
  PlacedNet net;
  auto replicated = inferenceModel(net,
                                   Options()
                                       .replicationFactor(2)
                                       .setExecutionStrategy(PipelinedExecution{{"b0", "b1"}})
                                       .useDeviceIds({8, 9}));
  compile(replicated);
  EXPECT_THAT(devicesOf(replicated.session()), ElementsAre(8, 9));
  auto pipelined = inferenceModel(net, twoStages().useDeviceIds({8, 9}));
  EXPECT_THAT(messageOf([&] { compile(pipelined); }),
              HasSubstr("names 2 devices, the programs of the model need 4"));
  EXPECT_THAT(devicesOf(replicated.session()), ElementsAre(8, 9));
}

TEST(UseDeviceIds, NeedsAConnectionAndUnderTheIpuRulesADeviceThatThereCanBe) {
  PlacedNet net;
  EXPECT_THAT(messageOf([&] {
                inferenceModel(net, Options().useDeviceId(1).connectionType(ConnectionType::Never));
              }),
              AllOf(HasSubstr("useDeviceIds"), HasSubstr("Never")));
  EXPECT_THAT(
      compileMessage(twoStages().deviceIterations(2).enforceIpuRules(true).useDeviceIds({62, 64})),
      HasSubstr("device 64; there are 64"));
  EXPECT_EQ(compileMessage(twoStages().useDeviceIds({62, 64})), "nothing thrown");
}

/// "kind:index" of the devices, one replica behind the other.
std::vector<std::string> namesOf(const Session& session) {
  std::vector<std::string> names;
  for (std::size_t r = 0; r < session.numReplicas(); ++r) {
    for (std::size_t d = 0; d < session.numDevices(); ++d) {
      const device::DeviceInfo& info = session.device(d, r).info();
      names.push_back(info.kind + ":" + std::to_string(info.index));
    }
  }
  return names;
}

TEST(DevicesByName, AreTheNextOfTheirKindUnlessTheyHaveANumber) {
  struct Case {
    const char* names;
    std::int64_t replicas;
    std::vector<std::string> made;
  };
  for (const Case& c : {Case{"cpu,far", 1, {"cpu:0", "far:0"}},
                        Case{"far,cpu", 2, {"far:0", "cpu:0", "far:1", "cpu:1"}},
                        Case{"far:1,far", 1, {"far:1", "far:0"}},
                        Case{"far:0,far", 2, {"far:0", "far:1", "far:2", "far:3"}},
                        Case{"far:4*2", 1, {"far:4", "far:4"}}}) {
    SCOPED_TRACE(c.names);
    PlacedNet net;
    auto model = inferenceModel(
        net, twoStages().deviceIterations(2).device(c.names).replicationFactor(c.replicas));
    compile(model);
    std::vector<std::string> made = namesOf(model.session());
    EXPECT_THAT(made, ::testing::UnorderedElementsAreArray(c.made));
    EXPECT_EQ(made[0], c.made[0]);
  }
}

TEST(DevicesByName, OfSharesSayWhatTheyShare) {
  PlacedNet net;
  auto model = inferenceModel(
      net, twoStages().deviceIterations(2).device("cpu:0*2").threads(2).memoryPerDevice("1MiB"));
  compile(model);
  for (const std::size_t d : {0U, 1U}) {
    const device::DeviceInfo& info = model.session().device(d).info();
    EXPECT_EQ(info.physicalId, 0);
    EXPECT_EQ(info.shares, 2);
    EXPECT_EQ(info.threads, 2);
    EXPECT_EQ(info.memoryBytes, 1U << 20U);
  }
}

TEST(DevicesByName, ThatAreTooFewForAllReplicasAreRefusedBeforeOneIsMade) {
  PlacedNet net;
  auto model = inferenceModel(
      net, twoStages().deviceIterations(2).device("far:0,far:1,far:2").replicationFactor(2));
  EXPECT_THAT(messageOf([&] { compile(model); }),
              AllOf(HasSubstr("needs at least 4 devices"), HasSubstr("names 3")));
  EXPECT_EQ(model.session().numReplicas(), 1U);
}

TEST(DevicesByName, OfTheVariableAreNamedAsItsOwnInErrors) {
  PlacedNet net;
  {
    const DeviceVariable wrong("abacus");
    EXPECT_THAT(messageOf([&] { inferenceModel(net, Options()); }),
                AllOf(HasSubstr("'abacus'"), HasSubstr("variable SLUICE_DEVICE")));
    inferenceModel(net, Options().device("cpu"));  // does not ask the variable
  }
  PlacedNet other;
  const DeviceVariable far("far");
  auto model = inferenceModel(other, Options());
  EXPECT_EQ(model.session().device().info().kind, "far");
  const DeviceVariable both("far,cpu*2");
  EXPECT_THAT(messageOf([&] { inferenceModel(other, Options()); }),
              AllOf(HasSubstr("devices 'far'"), HasSubstr("asks for 'far,cpu*2'")));
}

TEST(SelectDevices, MakesReplicasOfDevicesAndShards) {
  EXPECT_EQ(Options().autoSelectDevices(8, 2).replicationFactor(), 4);
  EXPECT_EQ(Options().autoSelectDevices(8, 8).replicationFactor(), 1);
  EXPECT_EQ(Options().selectDevices({4, 5, 6}, 1).replicationFactor(), 3);
  PlacedNet net;
  auto model = trainingModel(
      net, Options().setExecutionStrategy(ShardedExecution{"b0", "b1"}).autoSelectDevices(8, 2));
  compile(model);
  EXPECT_EQ(model.session().numReplicas(), 4U);
  EXPECT_EQ(model.session().numDevices(), 2U);
  EXPECT_EQ(model.compiled().devices, 8);
  EXPECT_THAT(model.compiled().warnings, IsEmpty());
  PlacedNet other;
  auto exact =
      inferenceModel(other, twoStages().deviceIterations(2).selectDevices({9, 8, 7, 6}, 2));
  compile(exact);
  EXPECT_THAT(devicesOf(exact.session()), ElementsAre(9, 8, 7, 6));
}

TEST(SelectDevices, RefusesReplicasOfAnotherSize) {
  EXPECT_THAT(compileMessage(twoStages().autoSelectDevices(4, 1)),
              AllOf(HasSubstr("replicas of 1"), HasSubstr("takes 2")));
  EXPECT_THAT(compileMessage(twoStages().autoSelectDevices(4, 2).replicationFactor(3)),
              HasSubstr("autoSelectDevices selects 4 devices, the model needs 6 for 3 replicas"));
  PlacedNet net;
  auto model = inferenceModel(
      net,
      Options().setExecutionStrategy(PipelinedExecution{{"b0", "b1"}}).autoSelectDevices(8, 4));
  compile(model);
  EXPECT_THAT(model.compiled().warnings,
              Contains(HasSubstr("selects 8 devices, the model needs 2: 6 stay idle")));
}

/// Acquires devices of a kind that is counted. The kinds of this build are not: their devices are
/// made on demand.
MultiDevice acquired(const devices::KindInfo& kind, std::int64_t count) {
  return {std::string(kind.name), count, SyncPattern::Full, devices::holdDevices(kind, count)};
}

TEST(MultiDevice, IsHeldUntilTheLastModelMadeForItEnds) {
  const devices::KindInfo eight{.name = "far", .count = 8};
  PlacedNet net;
  std::optional<TypedModel<PlacedNet>> model;
  {
    Options options = twoStages();
    options.training.gradientAccumulation(2);
    MultiDevice two = acquired(eight, 2);
    two.applyTo(options);
    EXPECT_EQ(devices::freeDevices(eight), 6);
    two.release();
    EXPECT_EQ(devices::freeDevices(eight), 6) << "the options hold it";
    EXPECT_THAT(messageOf([&] { two.applyTo(options); }), HasSubstr("were released"));
    model.emplace(trainingModel(net, options, optim::SGD(0.1)));
  }
  EXPECT_EQ(devices::freeDevices(eight), 6) << "the model holds it";
  compile(*model);
  EXPECT_THAT(namesOf(model->session()), ElementsAre("far:0", "far:1"));
  // The next model gets other devices.
  Options others = twoStages().replicationFactor(2);
  const MultiDevice four = acquired(eight, 4);
  EXPECT_THAT(four.ids(), ElementsAre(2, 3, 4, 5));
  four.applyTo(others);
  PlacedNet other;
  auto replicated = inferenceModel(other, others);
  compile(replicated);
  EXPECT_THAT(namesOf(replicated.session()), ElementsAre("far:2", "far:3", "far:4", "far:5"));
  EXPECT_EQ(devices::freeDevices(eight), 2);
  EXPECT_THAT(messageOf<DeviceError>([&] { acquired(eight, 3); }),
              HasSubstr("there are 8, 6 of them held"));
  model->destroy();
  EXPECT_EQ(devices::freeDevices(eight), 4);
  EXPECT_THAT(acquired(eight, 3).ids(), ElementsAre(0, 1, 6));
}

TEST(MultiDevice, IsHeldByCopiesOfItsOptions) {
  const devices::KindInfo two{.name = "far", .count = 2};
  std::optional<Options> copy;
  {
    Options options = twoStages();
    acquired(two, 2).applyTo(options);
    copy = options.clone();
  }
  EXPECT_EQ(devices::freeDevices(two), 0);
  copy.reset();
  EXPECT_EQ(devices::freeDevices(two), 2);
}

TEST(DeviceManager, AcquiresSeveralDevicesOrFails) {
  const MultiDevice four = DeviceManager().acquireAvailableDevice(4, SyncPattern::SinglePipeline);
  EXPECT_EQ(four.count(), 4);
  Options options = twoStages().replicationFactor(2);
  four.applyTo(options.barriers(true));
  EXPECT_EQ(options.device().syncPattern, SyncPattern::SinglePipeline);
  PlacedNet net;
  auto model = trainingModel(net, options);
  compile(model);
  EXPECT_EQ(model.session().numReplicas(), 2U);
  EXPECT_EQ(model.compiled().devices, 4);
  // They are of the kind that was acquired.
  Options far = twoStages();
  MultiDevice two = DeviceManager().acquireAvailableDevice(2, SyncPattern::Full, "far");
  two.applyTo(far);
  EXPECT_EQ(far.device().names, "far");
  EXPECT_EQ(two.kind(), "far");
  two.release();
  // Without a kind the choice of the options stands.
  Options chosen = twoStages().device("far");
  DeviceManager().acquireAvailableDevice(2).applyTo(chosen);
  EXPECT_EQ(chosen.device().names, "far");
  // With one it counts, whatever they say.
  DeviceManager().acquireAvailableDevice(2, SyncPattern::Full, "cpu").applyTo(chosen);
  EXPECT_EQ(chosen.device().names, "cpu");
  // The model takes more devices than there are.
  Options one = twoStages();
  DeviceManager().acquireAvailableDevice().applyTo(one);
  EXPECT_THAT(compileMessage(one), AllOf(HasSubstr("replicas of 1"), HasSubstr("takes 2")));
  Options three = twoStages().replicationFactor(3);
  EXPECT_THAT(messageOf([&] { four.applyTo(three); }), HasSubstr("shared equally by 3 replicas"));
  EXPECT_THAT(messageOf([&] { DeviceManager().acquireAvailableDevice(0); }),
              HasSubstr("from 1 on"));
  EXPECT_THAT(messageOf<DeviceError>(
                  [&] { DeviceManager().acquireAvailableDevice(2, SyncPattern::Full, "abacus"); }),
              HasSubstr("no 2 devices of kind 'abacus'"));
}

}  // namespace
}  // namespace sluice
