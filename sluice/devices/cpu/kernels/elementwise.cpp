// All element-wise ops and `fused`: runs a BlockProgram over tiles of the result.
#include <algorithm>
#include <vector>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/block_run.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/tile_kernel.h"

namespace sluice::devices::cpu {
namespace {

class Elementwise : public TileKernel {
 public:
  Elementwise(BlockProgram program, BlockProgram direct)
      : program_(std::move(program)), direct_(std::move(direct)) {}

  std::int64_t tiles() const override { return tilesOf(program_); }

  void runTile(const KernelRun& run, std::int64_t tile) const override {
    const bool shared = std::ranges::any_of(direct_.lateReads, [&](const LateRead& late) {
      return run.inputs[late.input] == run.outputs[late.output];
    });
    runBlocksOfTile(shared ? program_ : direct_, {run.inputs, run.outputs}, tile);
  }

 private:
  BlockProgram program_;
  BlockProgram direct_;  // the same with fewer copies, where no operand is in the way
};

}  // namespace

bool supportsElementwise(const ir::OpView& op) {
  return compileBlocks(op, device::plainChoice(op, "")).has_value();
}

device::Choice chooseElementwise(const ir::OpView& op, const device::Tuning& /*tuning*/) {
  device::Choice choice = device::plainChoice(op, "");
  const std::int64_t rank = op.outputs[0].shape.rank();
  if (rank >= 3 && rank <= 5) {
    choice.rule = device::LayoutRule::Follow;
  }
  return choice;
}

std::unique_ptr<Kernel> makeElementwise(const ir::OpView& op, const device::Choice& choice) {
  std::optional<BlockProgram> program = compileBlocks(op, choice);
  std::optional<BlockProgram> direct = compileBlocks(op, choice, Writes::AtOnce);
  SLUICE_CHECK(program && direct, "{} does not compile to blocks", op.def.name);
  return std::make_unique<Elementwise>(std::move(*program), std::move(*direct));
}

}  // namespace sluice::devices::cpu
