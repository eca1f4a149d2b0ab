// A program that has libsluice.so and nothing else of Sluice: what crosses the boundary keeps its
// type, address and bits.
#include <cmath>
#include <stdexcept>
#include <typeinfo>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"
#include "tests/custom/test_library.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using testing::messageOf;

struct OneWeight : nn::Module {
  nn::Linear fc{*this, "fc", 1, 1, {.bias = false}};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(fc(x), y); }
};

TEST(SharedLibrary, TrainsByTheClosedFormOfARegression) {
  // loss = (w - 2)², so w <- w - 2 lr (w - 2); with lr = 1/4 the distance to 2 halves each step.
  OneWeight net;
  net.fc.weight.setValue(HostTensor(DType::F32, Shape{1, 1}));
  auto model = trainingModel(net, Options(), optim::SGD(0.25));
  const HostTensor x = HostTensor::full({DType::F32, Shape{2, 1}}, 1.0);
  const HostTensor y = HostTensor::full({DType::F32, Shape{2, 1}}, 2.0);
  for (int k = 0; k < 12; ++k) {
    EXPECT_EQ(model(x, y).at(0), 4.0 * std::pow(0.25, k)) << "loss of step " << k;
  }
  EXPECT_EQ(net.fc.weight.value().at(0), 2.0 * (1.0 - std::pow(0.5, 12)));
}

TEST(SharedLibrary, ErrorsKeepTheirTypes) {
  EXPECT_THAT(messageOf<FileError>([] { loadCustomOps("none.so"); }), HasSubstr("none.so"));
  EXPECT_THAT(messageOf<InvalidArgument>([] { Options().deviceIterations(0); }),
              HasSubstr("deviceIterations"));
  try {
    Options().deviceIterations(0);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), typeid(InvalidArgument));
    EXPECT_NE(dynamic_cast<const InvalidArgument*>(&error), nullptr);
  }
}

TEST(SharedLibrary, OpsHaveOneAddress) {
  // The record is the library's; the linker may have copied it into this program.
  Builder builder;
  const TensorId x = builder.addInputTensor({DType::F32, Shape{4}}, "x");
  const ir::Op& op = builder.graph().op(builder.value(x).op);
  EXPECT_TRUE(op.is(ir::kInput));
  EXPECT_EQ(op.def, &ir::kInput);
}

TEST(SharedLibrary, ModulesAreDerivedOnBothSides) {
  OneWeight net;
  nn::Module* child = net.children().front();
  EXPECT_EQ(typeid(*child), typeid(nn::Linear));
  EXPECT_EQ(dynamic_cast<nn::Linear*>(child), &net.fc);
  EXPECT_EQ(net.kind(), "Module");
  EXPECT_EQ(child->kind(), "Linear");
}

struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Refusing : nn::Module {
  nn::Tensor forward(nn::Tensor) { throw Refusal("not today"); }
};

TEST(SharedLibrary, ErrorsOfAProgramPassThrough) {
  Refusing net;
  auto model = inferenceModel(net, Options());
  EXPECT_THROW(model(HostTensor(DType::F32, Shape{1, 1})), Refusal);
}

struct Leaky : nn::Module {
  nn::Tensor forward(nn::Tensor x) {
    return nn::customOp({x}, testing::use("LeakyRelu", {{"alpha", 0.5}}))[0];
  }
};

TEST(SharedLibrary, LoadsCustomOps) {
  testing::loadTestOps();
  Leaky net;
  auto model = inferenceModel(net, Options());
  const HostTensor y = model(HostTensor::of<float>(Shape{3}, {-4, 0, 3}));
  EXPECT_EQ(y.at(0), -2);
  EXPECT_EQ(y.at(1), 0);
  EXPECT_EQ(y.at(2), 3);
}

}  // namespace
}  // namespace sluice
