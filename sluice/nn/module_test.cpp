#include "sluice/nn/module.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/nn/modules.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/tracer.h"
#include "tests/support/layer_run.h"
#include "tests/support/message_of.h"

namespace sluice::nn {
namespace {

using sluice::testing::messageOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The network of the MNIST example.
struct Network : Module {
  Conv2d conv1{*this, "conv1", 1, 10, 5};
  BatchNorm bn{*this, "bn", 10};
  Linear fc1{*this, "fc1", 320, 256};
  Linear fc2{*this, "fc2", 256, 10, {.bias = false}};
};

std::vector<std::string> names(const std::vector<Parameter*>& parameters) {
  std::vector<std::string> result;
  for (const Parameter* parameter : parameters) {
    result.push_back(parameter->fullName());
  }
  return result;
}

TEST(Module, NamesItsParametersAsPyTorchDoesInTheirOrder) {
  const Network net;
  EXPECT_THAT(names(net.parameters()),
              ElementsAre("conv1.weight",
                          "conv1.bias",
                          "bn.weight",
                          "bn.bias",
                          "fc1.weight",
                          "fc1.bias",
                          "fc2.weight"));
  EXPECT_THAT(names(net.buffers()),
              ElementsAre("bn.running_mean", "bn.running_var", "bn.num_batches_tracked"));
  EXPECT_EQ(net.numParameters(), 250 + 10 + 20 + 320 * 256 + 256 + 2560);
  EXPECT_EQ(net.conv1.weight.type().shape, (Shape{10, 1, 5, 5}));
  EXPECT_EQ(net.path(), "");
  EXPECT_EQ(net.fc1.path(), "fc1");
}

TEST(Module, FindsParametersAndBuffersByName) {
  const Network net;
  EXPECT_EQ(net.find("fc1.weight"), &net.fc1.weight);
  EXPECT_EQ(net.find("bn.running_var"), &net.bn.runningVariance);
  EXPECT_EQ(net.fc1.find("weight"), &net.fc1.weight);
  EXPECT_EQ(net.find("fc1"), nullptr);
  EXPECT_EQ(net.find("fc3.weight"), nullptr);
}

TEST(Module, TrainAndFreezeReachTheWholeTree) {
  Network net;
  EXPECT_TRUE(net.bn.isTraining());
  net.eval();
  EXPECT_FALSE(net.bn.isTraining());
  net.train();
  EXPECT_TRUE(net.bn.isTraining());
  net.fc1.freeze();
  EXPECT_FALSE(net.fc1.weight.variable().trainable);
  EXPECT_TRUE(net.conv1.weight.variable().trainable);
  net.freeze();
  EXPECT_FALSE(net.conv1.bias->trainable());
  net.freeze(false);
  EXPECT_TRUE(net.fc1.weight.trainable());
  EXPECT_FALSE(net.bn.runningMean.trainable());
}

TEST(Module, ChildrenNeedDifferentNamesWithoutDots) {
  Network net;
  EXPECT_THAT(messageOf([&] { Linear l(net, "fc1", 1, 1); }),
              HasSubstr("the outermost module already has a child or parameter 'fc1'"));
  EXPECT_THAT(messageOf([&] { Linear l(net, "", 1, 1); }), HasSubstr("name"));
  EXPECT_THAT(messageOf([&] { Linear l(net, "a.b", 1, 1); }),
              HasSubstr("a child of the outermost module is called 'a.b'"));
  EXPECT_EQ(net.children().size(), 4U);
}

TEST(Module, AChildThatGoesOrFailsLeavesTheTree) {
  Network net;
  {
    const Linear extra(net, "extra", 1, 1);
    EXPECT_EQ(net.children().size(), 5U);
  }
  EXPECT_THAT(messageOf([&] { Linear l(net, "extra", 0, 1); }), HasSubstr("extra"));
  EXPECT_EQ(net.children().size(), 4U);
}

struct Tied : Module {
  using Module::Module;
  Tied() { addParameter("scale", {DType::F32, Shape{2}}, init::ones()); }
  void again() { addParameter("scale", {DType::F32, Shape{2}}, init::ones()); }
  void dotted() { addBuffer("a.b", {DType::F32, Shape{2}}, init::ones()); }
  void wrongValue() {
    addBuffer("c", {DType::F32, Shape{2}}, ir::Initializer::of(HostTensor(DType::F32, Shape{3})));
  }
};

TEST(Module, ParametersNeedDifferentNamesAndFittingValues) {
  Tied module;
  EXPECT_THAT(messageOf([&] { module.again(); }), HasSubstr("scale"));
  EXPECT_THAT(messageOf([&] { module.dotted(); }), HasSubstr("a.b"));
  EXPECT_THAT(messageOf([&] { module.wrongValue(); }), HasSubstr("[3]"));
  EXPECT_EQ(module.ownParameters().size(), 1U);
}

TEST(Module, SequentialAndListsNumberTheirChildren) {
  Module root;
  Sequential net(root, "net");
  net.add<Linear>(4, 3).add<ReLU>().add<Linear>(3, 2);
  EXPECT_THAT(names(root.parameters()),
              ElementsAre("net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias"));
  EXPECT_EQ(net[1].kind(), "ReLU");
  EXPECT_EQ(net.size(), 3U);
  ir::Graph graph;
  Tracer tracer(graph, TraceMode::Inference);
  EXPECT_EQ(net(tracer.input("x", {DType::F32, Shape{7, 4}})).shape(), (Shape{7, 2}));
}

TEST(Module, SummaryListsModulesShapesAndCounts) {
  Network net;
  net.fc1.freeze();
  EXPECT_EQ(net.summary(),
            "Module  Kind       Parameter                        Elements\n"
            "(root)  Module\n"
            "conv1   Conv2d     weight [10, 1, 5, 5]                  250\n"
            "                   bias [10]                              10\n"
            "bn      BatchNorm  weight [10]                            10\n"
            "                   bias [10]                              10\n"
            "                   running_mean [10] (buffer)             10\n"
            "                   running_var [10] (buffer)              10\n"
            "                   num_batches_tracked [] (buffer)         1\n"
            "fc1     Linear     weight [256, 320] (frozen)         81,920\n"
            "                   bias [256] (frozen)                   256\n"
            "fc2     Linear     weight [10, 256]                    2,560\n"
            "Total 85,016 parameters, 2,840 trainable, 82,176 frozen\n");
}

TEST(Parameter, StartsFromItsInitializerUnderTheSeedOfTheRoot) {
  Network net;
  const HostTensor first = net.fc1.weight.value();
  EXPECT_TRUE(first.sameBits(ir::initialValue(net.fc1.weight.variable(), 0)));
  net.setSeed(7);
  EXPECT_FALSE(net.fc1.weight.value().sameBits(first));
  EXPECT_TRUE(net.fc1.weight.value().sameBits(ir::initialValue(net.fc1.weight.variable(), 7)));
  EXPECT_THAT(messageOf([&] { net.fc1.setSeed(1); }), HasSubstr("root"));
}

TEST(Parameter, ASetValueIsWhatItStartsFrom) {
  Network net;
  HostTensor value = HostTensor::full({DType::F32, Shape{10}}, 3.0);
  net.conv1.bias->setValue(value);
  value.set(0, 9.0);  // the parameter has its own copy
  EXPECT_EQ(net.conv1.bias->value().at(0), 3.0);
  EXPECT_EQ(ir::initialValue(net.conv1.bias->variable(), 0).at(9), 3.0);
  EXPECT_THAT(messageOf([&] { net.conv1.bias->setValue(HostTensor(DType::F64, Shape{10})); }),
              HasSubstr("f64"));
  EXPECT_THAT(messageOf([&] { net.bn.runningMean.setTrainable(true); }), HasSubstr("buffer"));
}

class MapStore : public StateStore {
 public:
  HostTensor read(std::string_view variable) override { return values.find(variable)->second; }
  void write(std::string_view variable, const HostTensor& value) override {
    values.insert_or_assign(std::string(variable), value);
  }
  bool contains(std::string_view variable) override { return values.contains(variable); }

  std::map<std::string, HostTensor, std::less<>> values;
};

TEST(Parameter, IsReadFromAndWrittenToTheModelThatHoldsIt) {
  Network net;
  const auto store = std::make_shared<MapStore>();
  const TensorType type{DType::F32, Shape{10}};
  store->values.emplace("conv1.bias", HostTensor::full(type, 5.0));
  net.link()->setStore(store);
  EXPECT_EQ(net.conv1.bias->value().at(0), 5.0);
  net.conv1.bias->setValue(HostTensor::full(type, 6.0));
  EXPECT_EQ(store->values.at("conv1.bias").at(3), 6.0);
  EXPECT_EQ(net.bn.bias.value().at(0), 0.0);  // not in the store: the initial value
  net.link()->setStore(nullptr);
  EXPECT_NE(net.conv1.bias->value().at(0), 6.0);
  EXPECT_THAT(messageOf([&] { net.fc1.link(); }), HasSubstr("root"));
}

TEST(Init, BoundsFollowFromTheFans) {
  const Shape conv{8, 3, 5, 5};
  EXPECT_EQ(init::fanIn(conv), 75);
  EXPECT_EQ(init::fanOut(conv), 200);
  EXPECT_NEAR(init::kaimingUniform(conv).b, std::sqrt(6.0 / 75), 1e-15);
  EXPECT_NEAR(init::kaimingNormal(conv).b, std::sqrt(2.0 / 75), 1e-15);
  EXPECT_NEAR(init::xavierUniform(conv).a, -std::sqrt(6.0 / 275), 1e-15);
  EXPECT_NEAR(init::xavierNormal(conv, 2.0).b, 2 * std::sqrt(2.0 / 275), 1e-15);
  EXPECT_NEAR(init::layerDefault(75).b, 1 / std::sqrt(75.0), 1e-15);
  EXPECT_EQ(init::normal(1.0, 2.0).a, 1.0);
  EXPECT_THAT(messageOf([] { init::fanIn(Shape{3}); }), HasSubstr("rank 2"));
  EXPECT_THAT(messageOf([] { init::uniform(1.0, 0.0); }), HasSubstr("bound"));
  EXPECT_THAT(messageOf([] { init::normal(0.0, -1.0); }), HasSubstr("negative"));
}

TEST(Init, LayersStartAsPyTorchs) {
  Module root;
  const Linear fc(root, "fc", 16, 400);
  const Embedding table(root, "table", 400, 16);
  double sum = 0.0;
  double largest = 0.0;
  for (const double w : fc.weight.value().toDoubles()) {
    EXPECT_LE(std::abs(w), 0.25);
    sum += w;
    largest = std::max(largest, std::abs(w));
  }
  EXPECT_GT(largest, 0.249);
  EXPECT_NEAR(sum / 6400, 0.0, 0.01);  // 5 deviations of the mean of U(-1/4, 1/4)
  EXPECT_EQ(fc.bias->initializer(), fc.weight.initializer());
  EXPECT_EQ(table.weight.initializer(), ir::Initializer::normal(0.0, 1.0));
}

}  // namespace
}  // namespace sluice::nn
