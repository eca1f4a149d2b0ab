// one_hot: zeros, then a one for every index in range.
#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/moves.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

class OneHot : public Kernel {
 public:
  explicit OneHot(const ir::OpView& op)
      : type_(op.outputs[0]),
        indexType_(op.inputs[0].dtype),
        view_(ops::aroundAxis(type_.shape, ops::axisAttr(op, type_.shape))) {}

  void run(const KernelRun& run) override {
    fillZero(run.out<std::byte>(0), type_.bytes(), run.workers);
    withIndices(indexType_, run.inputs[0], [&](const auto* indices) {
      dispatch(type_.dtype, [&]<class T>(T) { place<T>(run, indices); });
    });
  }

 private:
  template <class T, class Index>
  void place(const KernelRun& run, const Index* indices) const {
    const std::int64_t count = view_.outer * view_.inner;
    const std::int64_t perTile = itemsPerTile(1);
    T* out = run.out<T>(0);
    run.workers.parallelFor(ceilDiv(count, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(count, (tile + 1) * perTile);
      for (std::int64_t i = tile * perTile; i < last; ++i) {
        const std::int64_t index = resolved(indices[i], view_.extent);
        if (index >= 0 && index < view_.extent) {
          out[(i / view_.inner * view_.extent + index) * view_.inner + i % view_.inner] =
              ops::narrow<T>(static_cast<ops::Wide<T>>(1));
        }
      }
    });
  }

  TensorType type_;
  DType indexType_;
  ops::AxisView view_;
};

}  // namespace

std::unique_ptr<Kernel> makeOneHot(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<OneHot>(op);
}

}  // namespace sluice::devices::cpu
