// Training of ResNet-18 on images of 224 x 224, batch 4, SGD with momentum, one device of one
// thread, against PyTorch with one thread. Prints one JSON object.
//
//   bench_resnet [launches]
#include "tests/support/resnet.h"

#include <array>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/sluice.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;

constexpr std::int64_t kBatch = bench::kResNetBatch;

bench::Json train() {
  testing::ResNet net({});
  Options options;
  options.threads(1);
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.01, .momentum = 0.9}));
  const std::array<HostTensor, 2> step = {
      testing::randomTensor(1, {DType::F32, {kBatch, 3, 224, 224}}, -1, 1),
      testing::randomTensor(2, {DType::I64, {kBatch}}, 0, 1000)};
  model.compile(step);
  bench::Json result = bench::perUpdate(bench::timeCalls([&] { model.run(step); }, 2, 7), 1.0);
  result["compile_ms"] = 1e3 * model.compilationTime();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1] == std::string_view("--train")) {
    std::cout << train() << "\n";
    return 0;
  }
  std::vector<bench::Launch> peers;
  for (const char* format : {"contiguous", "channels_last"}) {
    peers.push_back(bench::torch("resnet_torch.py", {format}));
  }
  const int launches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  std::cout << bench::compare(bench::self({"--train"}), peers, launches).dump(2) << "\n";
  return 0;
}
