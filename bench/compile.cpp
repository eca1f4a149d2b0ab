// Processor time to make and compile chains of linear layers for training, and how it grows with
// their number: the best of three runs each. Arguments: numbers of layers.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "bench/support/shapes.h"
#include "sluice/sluice.h"

namespace {

using namespace sluice;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kWidth = bench::kCompiledStack.width;

struct Chain : nn::Module {
  Chain(int count, bool activation) : activation_(activation) {
    for (int i = 0; i < count; ++i) {
      layers_.push_back(
          std::make_unique<nn::Linear>(*this, fmt::format("layer{}", i), kWidth, kWidth));
    }
  }
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) {
    for (const auto& layer : layers_) {
      const nn::Tensor z = (*layer)(x);
      x = activation_ ? nn::relu(z) : z;
    }
    return nn::mseLoss(x, y);
  }

 private:
  bool activation_;
  std::vector<std::unique_ptr<nn::Linear>> layers_;
};

template <class Rule>
double secondsFor(int layers, bool activation, const Rule& rule) {
  const std::clock_t start = std::clock();
  Chain net(layers, activation);
  auto model = trainingModel(net, Options(), rule);
  const std::vector<TensorType> types(2, {DType::F32, Shape{bench::kCompiledStack.batch, kWidth}});
  model.compile(std::span<const TensorType>(types));
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

template <class Rule>
void measure(std::string_view name,
             bool activation,
             const Rule& rule,
             const std::vector<int>& numbers) {
  double before = 0;
  for (const int layers : numbers) {
    double best = secondsFor(layers, activation, rule);
    for (int again = 0; again < 2; ++again) {
      best = std::min(best, secondsFor(layers, activation, rule));
    }
    const std::string growth =
        before > 0 ? fmt::format(", {:.2f} times the line above", best / before) : "";
    fmt::print("{}, {:5} layers: {:6.2f} s{}\n", name, layers, best, growth);
    before = best;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int> numbers = {400, 1000, 4000, 10000};
  if (argc > 1) {
    numbers.clear();
    for (int i = 1; i < argc; ++i) {
      numbers.push_back(std::max(1, std::atoi(argv[i])));
    }
  }
  measure("linear, SGD", false, optim::SGD(0.1), numbers);
  measure("linear and relu, AdamW", true, optim::AdamW(0.1), numbers);
}
