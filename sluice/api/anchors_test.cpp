// Anchored tensors and synthetic data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/api/compiled_program.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// y = relu(w x), loss = sum of y² over the micro-batch; w starts as 2.
struct AnchoredNet : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  AnchoredNet() { fc.weight.setValue(HostTensor::full({DType::F32, Shape{1, 1}}, 2)); }
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x) {
    nn::Tensor y;
    {
      const nn::Block block("A");
      y = fc(x);
    }
    const nn::Block block("B");
    y = nn::relu(y);
    return {y, nn::sum(y * y)};
  }
};

Options halves(Options options = Options()) {
  options.setExecutionStrategy(PipelinedExecution{"A", "B"});
  return options;
}

HostTensor oneToFour() {
  return HostTensor::of<float>(Shape{4, 1}, {1, 2, 3, 4});
}

std::vector<double> valuesOf(const HostTensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
    values.push_back(tensor.at(i));
  }
  return values;
}

TEST(Anchors, BringBackInnerTensorsUnderEveryStrategy) {
  for (const bool cut : {false, true}) {
    AnchoredNet net;
    Options options = cut ? halves() : Options();
    options.deviceIterations(4)
        .outputMode(OutputMode::Final)
        .anchorTensor("product", "fc/matmul", OutputMode::All)
        .anchorTensor("every", "fc/matmul", OutputMode::EveryN, 2)
        .anchorTensor("total", "fc/matmul", OutputMode::Sum)
        .anchorTensor("same", "fc/matmul");
    auto model = inferenceModel(net, options);
    const auto [y, loss] = model(oneToFour());
    EXPECT_EQ(valuesOf(y), (std::vector<double>{8}));
    EXPECT_EQ(valuesOf(loss), (std::vector<double>{64}));
    EXPECT_EQ(valuesOf(model.getAnchoredTensor("product")), (std::vector<double>{2, 4, 6, 8}));
    EXPECT_EQ(valuesOf(model.getAnchoredTensor("every")), (std::vector<double>{4, 8}));
    EXPECT_EQ(valuesOf(model.getAnchoredTensor("total")), (std::vector<double>{20}));
    EXPECT_EQ(valuesOf(model.getAnchoredTensor("same")), (std::vector<double>{8}));
    EXPECT_THAT(model.getTensorNames(), AllOf(Contains("fc/matmul"), Contains("input0")));
  }
}

TEST(Anchors, BringBackGradientsWithoutChangingTheTraining) {
  const auto train = [](bool anchored) {
    AnchoredNet net;
    Options options = halves();
    options.training.gradientAccumulation(4);
    if (anchored) {
      options.anchorTensor("g", "Gradient___fc.weight", OutputMode::All);
    }
    auto model = trainingModel(net, options, optim::SGD(0.01));
    model(oneToFour());
    if (anchored) {
      // d(sum (w x)²)/dw = 2 w x².
      EXPECT_EQ(valuesOf(model.getAnchoredTensor("g")), (std::vector<double>{4, 16, 36, 64}));
      EXPECT_THAT(model.getTensorNames(), Contains("Gradient___fc.weight"));
    }
    return net.fc.weight.value().hash();
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Anchors, RefuseUnknownNamesAndPeriods) {
  AnchoredNet net;
  auto wrong = inferenceModel(net, Options().anchorTensor("x", "fc/none"));
  EXPECT_THAT(messageOf([&] { wrong(oneToFour()); }),
              AllOf(HasSubstr("anchorTensor 'x'"), HasSubstr("no tensor 'fc/none'")));
  auto model = inferenceModel(net, Options().anchorTensor("x", "fc/matmul"));
  EXPECT_THAT(messageOf([&] { model.getTensorNames(); }), HasSubstr("not compiled"));
  EXPECT_THAT(messageOf([&] { model.getAnchoredTensor("x"); }), HasSubstr("no value yet"));
  EXPECT_THAT(messageOf([&] { model.getAnchoredTensor("y"); }), HasSubstr("anchored as 'y'"));
  EXPECT_THAT(messageOf([&] {
                inferenceModel(net,
                               Options().deviceIterations(4).anchorTensor(
                                   "x", "fc/matmul", OutputMode::EveryN, 3));
              }),
              AllOf(HasSubstr("period 3"), HasSubstr("anchorTensor 'x'")));
}

TEST(SyntheticData, NeedsNoInputAfterTheFirstCompile) {
  AnchoredNet net;
  auto model = inferenceModel(
      net, Options().deviceIterations(4).syntheticDataMode(SyntheticDataMode::Zeros));
  const auto [y, loss] = model(oneToFour());
  EXPECT_EQ(valuesOf(y), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_TRUE(model.program().feeds.empty());
  for (const program::Lane& lane : model.program().lanes) {
    for (const program::Task& task : lane.tasks) {
      EXPECT_NE(task.kind, program::TaskKind::Feed);
    }
  }
  const std::vector<HostTensor> again = model.run({});
  EXPECT_EQ(again[0].shape(), (Shape{4, 1}));
  EXPECT_EQ(again[1].shape(), Shape{4});
}

TEST(SyntheticData, IsTheSameInEveryStepAndMicroBatch) {
  struct Identity : nn::Module {
    std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor ids) {
      return {x * 1.0, ids + ids};
    }
  };
  const auto run = [](SyntheticDataMode mode) {
    Identity net;
    auto model = inferenceModel(net, Options().deviceIterations(2).syntheticDataMode(mode));
    const auto [x, ids] =
        model(HostTensor(DType::F32, Shape{2, 1000}), HostTensor(DType::I64, Shape{2}));
    EXPECT_EQ(x.rows(0, 1).hash(), x.rows(1, 1).hash());
    EXPECT_EQ(x.hash(), model.run({})[0].hash());
    EXPECT_EQ(valuesOf(ids), (std::vector<double>{0, 0}));
    return valuesOf(x.rows(0, 1));
  };
  const std::vector<double> normal = run(SyntheticDataMode::RandomNormal);
  const std::vector<double> uniform = run(SyntheticDataMode::RandomUniform);
  const auto meanSquare = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) {
      sum += v * v;
    }
    return sum / static_cast<double>(values.size());
  };
  // 1 and 1/3, with a thousand samples.
  EXPECT_NEAR(meanSquare(normal), 1.0, 0.2);
  EXPECT_NEAR(meanSquare(uniform), 1.0 / 3, 0.05);
  EXPECT_GE(*std::ranges::min_element(uniform), 0.0);
}

TEST(SyntheticData, TrainsReplicasAndPipelines) {
  AnchoredNet net;
  Options options =
      halves(Options().syntheticDataMode(SyntheticDataMode::RandomUniform).replicationFactor(2));
  options.training.gradientAccumulation(2);
  auto model = trainingModel(net, options, optim::SGD(0.001));
  const double before = model(oneToFour()).second.at(0);
  EXPECT_LT(model.run({})[1].at(0), before);
}

}  // namespace
}  // namespace sluice
