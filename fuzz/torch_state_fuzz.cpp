// The state of PyTorch's optimizer as any tensors: refused without a trace, or loaded; what is
// loaded comes out again as it went in.
#include "fuzz/small_net.h"
#include "fuzz/target.h"
#include "sluice/base/log.h"

using namespace sluice;

namespace {

bool same(const OptimizerStateDict& a, const OptimizerStateDict& b) {
  const NamedTensors flatA = flattened(a);
  const NamedTensors flatB = flattened(b);
  return std::ranges::equal(flatA, flatB, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.sameBits(y.second);
  });
}

}  // namespace

SLUICE_FUZZ_TARGET(torch_state) {
  static fuzz::SmallNet net;
  static auto model = fuzz::trained(net);
  static const OptimizerStateDict first = model.optimizerStateDict();
  log::setLevels("off");
  OptimizerStateDict torch;
  OptimizerStateDict own;
  const bool read = fuzz::accepts([&] {
    torch = sectioned(parseSafeTensors(fuzz::textOf(data, size), "fuzz").tensors);
    own = importTorch(model, torch);
  });
  if (!read) {
    return;
  }
  if (fuzz::accepts([&] { model.loadOptimizerStateDict(own); })) {
    const OptimizerStateDict again = importTorch(model, exportTorch(model));
    fuzz::require(same(again, model.optimizerStateDict()), "another state after a round trip");
    model.run(std::vector{fuzz::SmallNet::input()});
    model.loadOptimizerStateDict(first);
  }
  fuzz::require(same(model.optimizerStateDict(), first), "a refused state has left a trace");
}
