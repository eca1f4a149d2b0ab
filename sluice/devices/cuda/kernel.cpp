#include "sluice/devices/cuda/kernel.h"

#include <vector>

#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_error.h"

namespace sluice::devices::cuda {
namespace {

class GeneratedKernel final : public Kernel {
 public:
  GeneratedKernel(const Source& source, const MakeContext& context) : readsRun_(source.readsRun) {
    if (source.isEmpty()) {
      return;
    }
    module_ = Modules::ofProcess().get(source.text, context);
    for (const Stage& stage : source.stages) {
      if (stage.blocks > 0) {
        launches_.push_back({module_->entry(stage.entry),
                             static_cast<unsigned>(stage.blocks),
                             static_cast<unsigned>(stage.threads)});
      }
    }
  }

  bool readsRun() const override { return readsRun_; }

  void launch(const KernelRun& run) override {
    arguments_.clear();
    // Arguments are given by their addresses, which cudaLaunchKernel only reads.
    for (void* const& input : run.inputs) {
      arguments_.push_back(const_cast<void**>(&input));  // NOLINT
    }
    for (void* const& output : run.outputs) {
      arguments_.push_back(const_cast<void**>(&output));  // NOLINT
    }
    KernelRun rest = run;
    arguments_.insert(arguments_.end(), {&rest.scratch, &rest.run, &rest.fault, &rest.call});
    for (const Launch& each : launches_) {
      check(
          cudaLaunchKernel(
              each.kernel, dim3(each.blocks), dim3(each.threads), arguments_.data(), 0, run.stream),
          "cudaLaunchKernel");
    }
  }

 private:
  struct Launch {
    const void* kernel;
    unsigned blocks;
    unsigned threads;
  };
  std::shared_ptr<const Module> module_;
  std::vector<Launch> launches_;
  std::vector<void*> arguments_;
  bool readsRun_;
};

}  // namespace

std::unique_ptr<Kernel> makeGenerated(const Source& source, const MakeContext& context) {
  return std::make_unique<GeneratedKernel>(source, context);
}

}  // namespace sluice::devices::cuda
