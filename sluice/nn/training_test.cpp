// A whole training step of a traced module: forward, gradients, update.
#include <gtest/gtest.h>

#include "sluice/nn/modules.h"
#include "sluice/optim/optimizers.h"
#include "sluice/optim/update_context.h"
#include "sluice/transforms/autodiff.h"
#include "tests/support/layer_run.h"

namespace sluice::nn {
namespace {

struct Regression : Module {
  Linear fc{*this, "fc", 1, 1, {.dtype = DType::F64}};
};

TEST(Training, AStepOfLinearRegressionEqualsTheFormula) {
  Regression net;
  net.fc.weight.setValue(HostTensor::of<double>(Shape{1, 1}, {0.5}));
  net.fc.bias->setValue(HostTensor::of<double>(Shape{1}, {-1.0}));
  const optim::SGD sgd(0.1);

  ir::Graph graph;
  {
    Tracer tracer(graph, TraceMode::Training);
    const Tensor x = tracer.input("x", {DType::F64, Shape{2, 1}});
    const Tensor y = tracer.input("y", {DType::F64, Shape{2, 1}});
    const Tensor loss = mean(square(net.fc(x) - y));
    graph.addOutput("loss", loss.value());
    const std::vector<ir::Value> reads = {net.fc.weight.use().value(), net.fc.bias->use().value()};
    const std::vector<ir::Value> grads = transforms::differentiate(graph, loss.value(), reads);
    optim::UpdateContext update(tracer.builder(), {{"fc.weight", grads[0]}, {"fc.bias", grads[1]}});
    sgd.expand(update);
  }

  ops::TensorMap state = stateOf(net);
  for (const auto& [name, value] : sgd.scalars()) {
    state.emplace(name, HostTensor::scalar<double>(value));
  }
  const ops::TensorMap inputs = {{"x", HostTensor::of<double>(Shape{2, 1}, {1, 3})},
                                 {"y", HostTensor::of<double>(Shape{2, 1}, {3, 7})}};
  // The errors are 0.5 - 1 - 3 = -3.5 and 1.5 - 1 - 7 = -6.5.
  EXPECT_NEAR(ops::evaluate(graph, inputs, state).at("loss").at(0), (12.25 + 42.25) / 2, 1e-12);
  EXPECT_NEAR(state.at("fc.weight").at(0), 0.5 + 0.1 * (3.5 * 1 + 6.5 * 3), 1e-12);
  EXPECT_NEAR(state.at("fc.bias").at(0), -1.0 + 0.1 * (3.5 + 6.5), 1e-12);
}

}  // namespace
}  // namespace sluice::nn
