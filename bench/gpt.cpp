// Training of a character-level GPT in two sizes, one device of one thread, against PyTorch with
// one thread. Prints one JSON object.
//
//   bench_gpt [launches] [unfused]
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "bench/support/compare.h"
#include "bench/support/shapes.h"
#include "sluice/sluice.h"
#include "tests/support/networks.h"
#include "tests/support/random_tensor.h"

namespace {

using namespace sluice;
using bench::Json;

const std::map<std::string, testing::GptShape> kShapes(bench::kGptShapes.begin(),
                                                       bench::kGptShapes.end());

/// Steps that are timed, after some to warm up.
int stepsOf(const testing::GptShape& shape) {
  return shape.width <= 64 ? 100 : 12;
}

Json train(const testing::GptShape& shape, bool fusion) {
  testing::Gpt net(shape);
  auto model = trainingModel(net, Options().threads(1).fusion(fusion), optim::AdamW(1e-3));
  const TensorType ids{DType::I64, {shape.batchSize, shape.context}};
  const auto vocabulary = static_cast<double>(shape.vocabulary);
  const std::array<HostTensor, 2> step = {testing::randomTensor(1, ids, 0, vocabulary),
                                          testing::randomTensor(2, ids, 0, vocabulary)};
  model.compile(step);
  const int steps = stepsOf(shape);
  Json result = bench::perUpdate(
      bench::timeCalls([&] { model.run(step); }, std::max(3, steps / 10), steps), 1.0);
  result["compile_ms"] = 1e3 * model.compilationTime();
  return result;
}

Json compare(const bench::Launch& ours, const testing::GptShape& shape, int launches) {
  std::vector<bench::Launch> peers;
  for (const char* attention : {"matmul", "module"}) {
    for (const char* optimizer : {"single", "foreach"}) {
      peers.push_back(bench::torch("gpt_torch.py",
                                   {attention,
                                    optimizer,
                                    std::to_string(shape.width),
                                    std::to_string(shape.layers),
                                    std::to_string(stepsOf(shape))}));
    }
  }
  return bench::compare(ours, peers, launches);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && argv[1] == std::string_view("--train")) {
    std::cout << train(kShapes.at(argv[2]), argc < 4) << "\n";
    return 0;
  }
  const int launches = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  Json report;
  for (const auto& [name, shape] : kShapes) {
    std::vector<std::string> arguments = {"--train", name};
    arguments.insert(arguments.end(), argv + std::min(argc, 2), argv + argc);
    report[name] = compare(bench::self(std::move(arguments)), shape, launches);
  }
  std::cout << report.dump(2) << "\n";
  return 0;
}
