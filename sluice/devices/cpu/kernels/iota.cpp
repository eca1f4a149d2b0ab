// iota: runs of equal numbers, tiles in parallel.
#include <algorithm>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/layout.h"

namespace sluice::devices::cpu {
namespace {

class Iota : public Kernel {
 public:
  explicit Iota(const ir::OpView& op)
      : type_(op.outputs[0]), view_(ops::aroundAxis(type_.shape, ops::axisAttr(op, type_.shape))) {}

  void run(const KernelRun& run) override {
    const std::int64_t total = type_.shape.elements();
    const std::int64_t perTile = itemsPerTile(1);
    dispatch(type_.dtype, [&]<class T>(T) {
      run.workers.parallelFor(ceilDiv(total, perTile), [&](std::int64_t tile) {
        fill(run.out<T>(0), tile * perTile, std::min(total, (tile + 1) * perTile));
      });
    });
  }

 private:
  template <class T>
  void fill(T* out, std::int64_t first, std::int64_t end) const {
    std::int64_t at = first / view_.inner % view_.extent;
    for (std::int64_t i = first; i < end;) {
      const std::int64_t length = std::min(view_.inner - i % view_.inner, end - i);
      std::fill_n(out + i, length, ops::narrow<T>(static_cast<ops::Wide<T>>(at)));
      i += length;
      at = at + 1 == view_.extent ? 0 : at + 1;
    }
  }

  TensorType type_;
  ops::AxisView view_;
};

}  // namespace

std::unique_ptr<Kernel> makeIota(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Iota>(op);
}

}  // namespace sluice::devices::cpu
