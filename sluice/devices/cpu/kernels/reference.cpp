#include <vector>

#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

/// Runs the op's own plain loops.
class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const ir::OpView& op)
      : def_(op.def),
        attrs_(op.attrs),
        inputs_(op.inputs.begin(), op.inputs.end()),
        outputs_(op.outputs.begin(), op.outputs.end()) {}

  void run(const KernelRun& run) override {
    def_.reference({{def_, attrs_, inputs_, outputs_}, run.inputs, run.outputs, run.info});
  }

 private:
  const ir::OpDef& def_;
  ir::Attrs attrs_;
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
};

}  // namespace

bool supportsReference(const ir::OpView& op) {
  return op.def.reference != nullptr;
}

std::unique_ptr<Kernel> makeReference(const ir::OpView& op, const device::Choice&) {
  return std::make_unique<ReferenceKernel>(op);
}

}  // namespace sluice::devices::cpu
