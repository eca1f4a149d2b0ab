// two threads serve requests of different sizes with one model
#include <atomic>
#include <cstdio>
#include <thread>

#include "sluice/sluice.h"

using namespace sluice;

struct Net : nn::Module {
  nn::Linear a{*this, "a", 4, 16};
  nn::Linear b{*this, "b", 16, 2};
  nn::Tensor forward(nn::Tensor x) { return nn::softmax(b(nn::relu(a(x)))); }
};

int main() try {
  Net net;
  auto model = inferenceModel(net, Options());
  std::atomic<int> wrong = 0;
  HostTensor probe(DType::F32, Shape{1, 4});
  probe.set(0, 1);
  const HostTensor expected = model(probe);
  const auto serve = [&](int rows) {
    for (int i = 0; i < 50; ++i) {
      HostTensor x(DType::F32, Shape{rows, 4});
      x.set(0, 1);
      const HostTensor y = model(x);
      wrong += !y.rows(0, 1).sameBits(expected);
    }
  };
  std::thread one(serve, 1);
  std::thread two(serve, 3);
  one.join();
  two.join();
  std::printf("wrong %d\n", wrong.load());
  return wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
