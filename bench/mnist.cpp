// Training of the MNIST network, batch 40, AdamW, one device of one thread, against PyTorch with
// one thread; compile time; what the engine adds per op. Prints one JSON object.
//
//   bench_mnist [launches] [unfused]
#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string_view>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/devices/cpu/cpu_device.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/ops/arithmetic_ops.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;
using bench::Json;
using Arguments = std::vector<std::string>;

constexpr std::int64_t kIterations = 10;

Json train(bool fusion) {
  testing::MnistNetwork net;
  Options options;
  options.deviceIterations(kIterations).threads(1).outputMode(OutputMode::All).fusion(fusion);
  auto model = trainingModel(net, options, optim::AdamW(1e-3));
  const std::int64_t images = bench::kMnistBatch * kIterations;
  const std::array<HostTensor, 2> step = {
      testing::randomTensor(1, {DType::F32, {images, 1, 28, 28}}, -1, 1),
      testing::randomTensor(2, {DType::I64, {images}}, 0, 10)};
  model.compile(step);
  Json result =
      bench::perUpdate(bench::timeCalls([&] { model.run(step); }, 10, 50), double{kIterations});
  result["compile_ms"] = 1e3 * model.compilationTime();
  return result;
}

/// Many additions on one element each, one after the other.
struct TinyOps : nn::Module {
  explicit TinyOps(int opCount) : ops(opCount) {}
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (int i = 0; i < ops; ++i) {
      x = x + y;
    }
    return x;
  }
  int ops;
};

double engineRun(int ops, const std::array<HostTensor, 2>& inputs) {
  TinyOps net(ops);
  auto model = inferenceModel(net, Options().fusion(false).threads(1));
  model.compile(inputs);
  return bench::timeCalls([&] { model.run(inputs); }, 20, 200).cpu;
}

/// The same kernel called as often in a bare loop.
double bareLoop(int ops, const std::array<HostTensor, 2>& inputs) {
  const auto device = devices::cpu::makeCpuDevice();
  const devices::cpu::OneOmpThread one;
  const std::vector<TensorType> types = {inputs[0].type(), inputs[1].type()};
  const std::vector<TensorType> outputs = {inputs[0].type()};
  const ir::Attrs attrs = ir::completeAttrs(ops::kAdd, {});
  const ir::OpView op{ops::kAdd, attrs, types, outputs};
  const auto kernel = devices::cpu::makeKernel(op, device->kernels().choose(op));
  HostTensor result(outputs[0]);
  const std::array<const void*, 2> in = {result.bytes(), inputs[1].bytes()};
  const std::array<void*, 1> out = {result.bytes()};
  Workers workers(1);
  const auto loop = [&] {
    for (int i = 0; i < ops; ++i) {
      kernel->run({in, out, nullptr, {}, workers});
    }
  };
  return bench::timeCalls(loop, 20, 200).cpu;
}

/// In CPU time of all threads. The difference of two lengths takes out what a step costs whatever
/// its length.
Json overhead() {
  constexpr int kShort = 100;
  constexpr int kLong = 2100;
  const std::array<HostTensor, 2> inputs = {HostTensor::full({DType::F32, {1}}, 1.0),
                                            HostTensor::full({DType::F32, {1}}, 1e-3)};
  const double shortRun = engineRun(kShort, inputs);
  const double perOp = (engineRun(kLong, inputs) - shortRun) / (kLong - kShort);
  const double bare = (bareLoop(kLong, inputs) - bareLoop(kShort, inputs)) / (kLong - kShort);
  return {{"us_per_op", perOp},
          {"bare_kernel_us", bare},
          {"overhead_us_per_op", perOp - bare},
          {"us_per_step", shortRun - kShort * perOp}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("--train")) {
    std::cout << train(argc < 3) << "\n";
    return 0;
  }
  std::vector<bench::Launch> peers;
  for (const char* format : {"contiguous", "channels_last"}) {
    for (const char* optimizer : {"single", "foreach"}) {
      peers.push_back(bench::torch("mnist_torch.py", {format, optimizer}));
    }
  }
  const int launches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  Json report =
      bench::compare(bench::self(argc > 2 ? Arguments{"--train", "unfused"} : Arguments{"--train"}),
                     peers,
                     launches);
  report["engine"] = overhead();
  std::cout << report.dump(2) << "\n";
  return 0;
}
