// ResNet-18 with batch norm, end to end: a narrow one against the reference kernels, the whole one
// learning its batch with the same bits on one and two threads.
#include "tests/support/resnet.h"

#include <cmath>

#include <gtest/gtest.h>

#include "sluice/api/session.h"
#include "tests/e2e/networks.h"
#include "tests/e2e/reference_training.h"
#include "tests/support/random_tensor.h"

namespace sluice {
namespace {

using testing::makeInputs;

/// All layers of ResNet-18, an eighth of the channels.
struct NarrowResNet : testing::ResNet {
  NarrowResNet() : ResNet({.width = 8, .classes = 3}) {}
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{4, 3, 64, 64}}, {DType::I64, Shape{4}}};
  }
};

struct ResNet18 : testing::ResNet {
  ResNet18() : ResNet({.classes = 10}) {}
  static std::vector<TensorType> inputs() {
    return {{DType::F32, Shape{2, 3, 32, 32}}, {DType::I64, Shape{2}}};
  }
};

/// How far a is from b, in units of what b moved from its first value.
double distance(const HostTensor& a, const HostTensor& b, const HostTensor& first) {
  double difference = 0;
  double moved = 0;
  for (std::int64_t i = 0; i < a.shape().elements(); ++i) {
    difference += std::pow(a.at(i) - b.at(i), 2);
    moved += std::pow(b.at(i) - first.at(i), 2);
  }
  return std::sqrt(difference / moved);
}

TEST(ResNet, GradientsAndStatisticsAreThoseOfTheReferenceKernels) {
  const optim::SGD oneStep(1.0);  // the weights then move by their gradients
  testing::ReferenceTraining<NarrowResNet> reference(oneStep);
  const ops::TensorMap before = reference.variables();
  const std::vector<HostTensor> inputs = makeInputs(NarrowResNet::inputs(), 0, 1);
  NarrowResNet net;
  auto model = TypedModel<NarrowResNet>(net, Options(), oneStep.clone());
  const HostTensor loss = model.run(inputs).back();
  EXPECT_LT(testing::relativeDifference(loss, reference.step(inputs)), 1e-5);
  int compared = 0;
  for (const auto& [name, value] : reference.variables()) {
    if (value.dtype() == DType::F32 && value.shape().rank() > 0) {
      EXPECT_LT(distance(model.session().read(name), value, before.at(name)), 2e-5) << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 20 + 20 * 4 + 2);  // convolutions, norms, fc
}

TEST(ResNet, FusionAndThreadsChangeNoBit) {
  const testing::Bits base = testing::train<NarrowResNet>(Options(), 3);
  EXPECT_EQ(base, testing::train<NarrowResNet>(Options().fusion(false), 3));
  EXPECT_EQ(base, testing::train<NarrowResNet>(Options().threads(3), 3));
}

TEST(ResNet, LearnsItsBatchWithTheSameBitsOnOneAndTwoThreads) {
  const auto train = [](int threads) {
    ResNet18 net;
    auto model = trainingModel(net, Options().threads(threads), optim::SGD(0.02));
    const std::vector<HostTensor> inputs = makeInputs(ResNet18::inputs(), 0, 1);
    std::vector<double> losses;
    for (int update = 0; update < 5; ++update) {
      losses.push_back(model.run(inputs).back().at(0));
    }
    EXPECT_LT(losses.back(), 0.1 * losses.front());
    return testing::bitsOf(model.session());
  };
  EXPECT_EQ(train(1), train(2));
}

}  // namespace
}  // namespace sluice
