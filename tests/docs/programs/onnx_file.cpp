// A module becomes an ONNX file, which is read, run and trained over one and two devices; what was
// trained is written and read again.
#include <cstdio>

#include "sluice/sluice.h"

using namespace sluice;

struct Net : nn::Module {
  nn::Linear first{*this, "first", 4, 16};
  nn::Linear last{*this, "last", 16, 2};

  nn::Tensor forward(nn::Tensor x) { return last(nn::tanh(first(x))); }
};

/// Trains the file, 4 micro-batches of 8 rows per update, and returns it as a file again.
std::string train(int devices, const HostTensor& x, const HostTensor& labels, double& loss) {
  Builder builder(onnx::importModel("net.onnx", {.shapes = {{"input0", Shape{8, 4}}}}));
  const TensorId y = builder.graph().outputs()[0].name;
  const TensorId target = builder.addInputTensor({DType::I64, Shape{8}}, "labels");
  const TensorId nll = builder.aiGraphcore().nllloss(builder.aiOnnx().softmax(y), target);
  builder.addOutputTensor(nll);
  Options options;
  if (devices > 1) {
    options.virtualGraphMode(VirtualGraphMode::Auto)
        .devicesPerReplica(devices)
        .enablePipelining(true);
  }
  options.training.gradientAccumulation(4);
  auto model = trainingModel(builder, nll, options, optim::AdamW(0.02));
  for (int step = 0; step < 60; ++step) {
    loss = meanOf(model.run({x, labels}).back());
  }
  return builder.getModelProto();
}

int main() try {
  HostTensor x(DType::F32, Shape{32, 4});
  HostTensor labels(DType::I64, Shape{32});
  for (std::int64_t i = 0; i < 32; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) {
      x.set(4 * i + j, (i >> j) % 2 == 0 ? -1 : 1);
    }
    labels.set(i, i % 16 < 8 ? 0 : 1);
  }
  Net net;
  auto source = inferenceModel(net, Options());
  const HostTensor expected = source(x);
  writeFileAtomically("net.onnx", source.getModelProto());

  Builder reader(onnx::importModel("net.onnx"));
  const bool runs = inferenceModel(reader, Options()).run({x})[0].sameBits(expected);

  double loss = 0;
  double same = 0;
  const std::string trained = train(2, x, labels, loss);
  const bool equal = trained == train(1, x, labels, same) && loss == same;
  writeFileAtomically("trained.onnx", trained);
  Builder again(onnx::importModel("trained.onnx"));
  Options test;
  test.deviceIterations(4);  // the file has 8 rows per micro-batch
  const double percent = accuracy(inferenceModel(again, test).run({x, labels})[0], labels);
  std::printf("loss %.4f, accuracy %.0f%%\n", loss, percent);
  return runs && equal && loss < 0.05 && percent == 100 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
