// trilu: the kept part of every row is copied, the rest is zero; rows in parallel.
#include <algorithm>
#include <cstring>

#include "sluice/devices/cpu/kernels/grains.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

class Trilu : public Kernel {
 public:
  explicit Trilu(const ir::OpView& op)
      : elementBytes_(byteSize(op.inputs[0].dtype)),
        rows_(op.inputs[0].shape[op.inputs[0].shape.rank() - 2]),
        columns_(op.inputs[0].shape[op.inputs[0].shape.rank() - 1]),
        total_(columns_ == 0 ? 0 : op.inputs[0].shape.elements() / columns_),
        upper_(op.attrs.flag("upper")),
        diagonal_(std::clamp(op.integer("diagonal"), -rows_ - 1, columns_ + 1)) {}

  void run(const KernelRun& run) override {
    const std::int64_t perTile = itemsPerTile(columns_);
    run.workers.parallelFor(ceilDiv(total_, perTile), [&](std::int64_t tile) {
      const std::int64_t last = std::min(total_, (tile + 1) * perTile);
      for (std::int64_t row = tile * perTile; row < last; ++row) {
        copyRow(run, row);
      }
    });
  }

 private:
  void copyRow(const KernelRun& run, std::int64_t row) const {
    const std::int64_t at = row % rows_ + diagonal_;
    const std::int64_t first = upper_ ? std::clamp<std::int64_t>(at, 0, columns_) : 0;
    const std::int64_t end = upper_ ? columns_ : std::clamp<std::int64_t>(at + 1, 0, columns_);
    const auto bytes = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * elementBytes_;
    };
    const std::byte* from = run.in<std::byte>(0) + bytes(row * columns_);
    std::byte* to = run.out<std::byte>(0) + bytes(row * columns_);
    std::memset(to, 0, bytes(first));
    std::memcpy(to + bytes(first), from + bytes(first), bytes(end - first));
    std::memset(to + bytes(end), 0, bytes(columns_ - end));
  }

  std::size_t elementBytes_;
  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t total_;  ///< rows of all matrices
  bool upper_;
  std::int64_t diagonal_;
};

}  // namespace

std::unique_ptr<Kernel> makeTrilu(const ir::OpView& op, const device::Choice& /*choice*/) {
  return std::make_unique<Trilu>(op);
}

}  // namespace sluice::devices::cpu
