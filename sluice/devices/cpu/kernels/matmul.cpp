// matmul by oneDNN: runs the tiles of its plan, one primitive call or a loop of them each.
#include <algorithm>
#include <array>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/devices/cpu/kernels/matmul_blocks.h"
#include "sluice/devices/cpu/kernels/matmul_dots.h"
#include "sluice/devices/cpu/kernels/matmul_panels.h"
#include "sluice/devices/cpu/kernels/matmul_plan.h"
#include "sluice/devices/cpu/kernels/matmul_vectors.h"

namespace sluice::devices::cpu {
namespace {

using product::Offsets;
using product::Plan;
using product::Tile;

class MatMul : public TiledKernel {
 public:
  explicit MatMul(Plan plan)
      : plan_(std::move(plan)),
        elementBytes_(static_cast<std::int64_t>(byteSize(plan_.problem.compute))) {
    for (const Tile& tile : plan_.tiles) {
      const std::array<onednn::Call::Argument, 4> arguments = {
          {{DNNL_ARG_SRC, tile.desc.src_desc()},
           {DNNL_ARG_WEIGHTS, tile.desc.weights_desc()},
           {DNNL_ARG_DST, tile.desc.dst_desc()},
           {DNNL_ARG_SCRATCHPAD, tile.desc.scratchpad_desc()}}};
      calls_.emplace_back(dnnl::matmul(tile.desc), arguments);
    }
  }

  void runTiles(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) override {
    auto* scratch = static_cast<std::byte*>(run.scratch);
    const auto* a = run.in<std::byte>(0);
    const auto* b = run.in<std::byte>(1);
    auto* c = run.out<std::byte>(0);
    run.workers.parallelFor(static_cast<std::int64_t>(calls_.size()), [&](std::int64_t i) {
      const Tile& tile = plan_.tiles[static_cast<std::size_t>(i)];
      std::byte* own = scratch + static_cast<std::size_t>(i) * plan_.perTile();
      for (const Offsets& at : tile.runs) {
        std::byte* to = c + at.c * elementBytes_;
        std::byte* result = tile.staged == 0 ? to : own + plan_.padBytes;
        const std::array<const void*, 4> addresses = {
            a + at.a * elementBytes_, b + at.b * elementBytes_, result, own};
        calls_[static_cast<std::size_t>(i)].run(addresses);
        unstage(tile, result, to);
      }
      if (tile.output.end != 0) {
        epilogue(tile.output);
      }
    });
    finish(run, epilogue);
  }

 private:
  /// Columns from scratch to their place in the output.
  void unstage(const Tile& tile, const std::byte* from, std::byte* to) const {
    if (tile.staged == 0) {
      return;
    }
    const std::int64_t bytes = tile.staged * elementBytes_;
    for (std::int64_t row = 0; row < plan_.problem.d.m; ++row) {
      std::memcpy(to + row * plan_.problem.d.n * elementBytes_,
                  from + row * bytes,
                  static_cast<std::size_t>(bytes));
    }
  }

  /// The epilogue where tiles were not ranges of the output.
  void finish(const KernelRun& run, FunctionRef<void(const OutputTile&)> epilogue) const {
    if (plan_.tiles[0].output.end != 0) {
      return;
    }
    const std::int64_t cols = plan_.problem.d.n;
    const std::int64_t rows = plan_.elements / cols;
    const auto count = static_cast<std::int64_t>(plan_.tiles.size());
    const std::int64_t step = (rows + count - 1) / count;
    run.workers.parallelFor((rows + step - 1) / step, [&](std::int64_t i) {
      epilogue({i * step * cols, std::min(rows, (i + 1) * step) * cols});
    });
  }

  Plan plan_;
  std::int64_t elementBytes_;
  std::vector<onednn::Call> calls_;
};

bool isPanels(const std::string& config) {
  return config == kPanelsConfig || config == kPackedPanelsConfig;
}

/// Our own code where it is the best way, else a cut of oneDNN's.
std::string ruleConfig(const ir::OpView& op, const device::Tuning& tuning) {
  if (needsBlocks(op)) {
    return kBlocksConfig;
  }
  if (likesDots(op)) {
    return kDotsConfig;
  }
  if (likesVectors(op)) {
    return kVectorsConfig;
  }
  const std::string panels = likedPanels(op);
  return panels.empty() ? product::chooseCut(op, tuning) : panels;
}

}  // namespace

device::Choice chooseMatMul(const ir::OpView& op, const device::Tuning& tuning) {
  const auto entry = tuning.find(product::keyOf(op));
  const std::string config = entry == tuning.end() ? ruleConfig(op, tuning) : entry->second;
  const auto require = [&](bool can) {
    if (!can) {
      raise<ConfigFileError>("{}: '{}' cannot be done", product::keyOf(op), config);
    }
  };
  if (needsBlocks(op)) {
    require(config == kBlocksConfig);
    return chooseBlocks(op);
  }
  if (config == kDotsConfig) {
    require(canMultiplyDots(op));
    return chooseDots(op);
  }
  if (config == kVectorsConfig) {
    require(canMultiplyByVectors(op));
    return chooseVectors(op);
  }
  if (isPanels(config)) {
    require(canMultiplyPanels(op));
    return choosePanels(op, config);
  }
  device::Choice choice = device::plainChoice(op, "");
  choice.config = product::chooseCut(op, tuning);
  const Plan plan = product::planOf(op, choice.config);
  choice.scratchBytes = plan.scratchBytes();
  choice.inputs[1] = product::layoutOfB(plan.problem);
  return choice;
}

std::unique_ptr<TiledKernel> makeTiledMatMul(const ir::OpView& op, const device::Choice& choice) {
  if (choice.config == kDotsConfig) {
    return makeDots(op);
  }
  if (choice.config == kVectorsConfig) {
    return makeVectors(op);
  }
  if (isPanels(choice.config)) {
    return makePanels(op, choice);
  }
  if (choice.config == kBlocksConfig) {
    return makeBlocks(op, choice);
  }
  const onednn::OneThread oneThread;
  Plan plan = product::planOf(op, choice.config);
  if (plan.scratchBytes() != choice.scratchBytes ||
      product::layoutOfB(plan.problem) != choice.inputs[1]) {
    raise<Unsupported>("matmul: this oneDNN does not do what was planned");
  }
  return std::make_unique<MatMul>(std::move(plan));
}

std::unique_ptr<Kernel> makeMatMul(const ir::OpView& op, const device::Choice& choice) {
  return makeTiledMatMul(op, choice);
}

}  // namespace sluice::devices::cpu
