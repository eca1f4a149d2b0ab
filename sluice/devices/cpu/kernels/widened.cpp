// float16 and bfloat16 for ops whose kernels compute in float32: operands are widened into scratch,
// the float32 kernel runs, and its results are rounded once. Layouts are those of that kernel.
#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/convert.h"
#include "sluice/devices/cpu/kernels/kernels.h"

namespace sluice::devices::cpu {
namespace {

bool isHalf(const TensorType& type) {
  return type.dtype == DType::F16 || type.dtype == DType::BF16;
}

std::vector<TensorType> widenedTypes(std::span<const TensorType> types) {
  std::vector<TensorType> result(types.begin(), types.end());
  for (TensorType& type : result) {
    type.dtype = isHalf(type) ? DType::F32 : type.dtype;
  }
  return result;
}

/// The op as the float32 kernel sees it.
struct WidenedOp {
  explicit WidenedOp(const ir::OpView& op)
      : inputs(widenedTypes(op.inputs)),
        outputs(widenedTypes(op.outputs)),
        view{op.def, op.attrs, inputs, outputs} {}

  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
  ir::OpView view;

  /// nullptr if there is no kernel for these types.
  const KernelEntry* kernel() const {
    for (const KernelEntry& entry : kernelEntries()) {
      if (entry.op == view.def.name && entry.make != makeWidened &&
          (entry.supports == nullptr || entry.supports(view))) {
        return &entry;
      }
    }
    return nullptr;
  }
};

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// Bytes of scratch that widened copies of the operands take.
std::size_t copiesOf(const ir::OpView& op) {
  std::size_t bytes = 0;
  for (const std::span<const TensorType> types : {op.inputs, op.outputs}) {
    for (const TensorType& type : types) {
      bytes += isHalf(type) ? aligned(2 * type.bytes()) : 0;
    }
  }
  return bytes;
}

class Widened : public Kernel {
 public:
  Widened(const ir::OpView& op, std::unique_ptr<Kernel> kernel)
      : inputs_(op.inputs.begin(), op.inputs.end()),
        outputs_(op.outputs.begin(), op.outputs.end()),
        kernel_(std::move(kernel)),
        wideInputs_(inputs_.size()),
        wideOutputs_(outputs_.size()) {}

  void run(const KernelRun& run) override {
    auto* next = static_cast<std::byte*>(run.scratch);
    const auto take = [&](const TensorType& type) {
      auto* copy = reinterpret_cast<float*>(next);
      next += aligned(2 * type.bytes());
      return copy;
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      wideInputs_[i] = run.inputs[i];
      if (isHalf(inputs_[i])) {
        float* copy = take(inputs_[i]);
        toFloat(inputs_[i].dtype, run.inputs[i], copy, inputs_[i].shape.elements(), run.workers);
        wideInputs_[i] = copy;
      }
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      wideOutputs_[i] = isHalf(outputs_[i]) ? take(outputs_[i]) : run.outputs[i];
    }
    kernel_->run({.inputs = wideInputs_,
                  .outputs = wideOutputs_,
                  .scratch = next,
                  .info = run.info,
                  .workers = run.workers});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (isHalf(outputs_[i])) {
        fromFloat(outputs_[i].dtype,
                  static_cast<const float*>(wideOutputs_[i]),
                  run.outputs[i],
                  outputs_[i].shape.elements(),
                  run.workers);
      }
    }
  }

 private:
  std::vector<TensorType> inputs_;
  std::vector<TensorType> outputs_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<const void*> wideInputs_;
  std::vector<void*> wideOutputs_;
};

}  // namespace

bool supportsWidened(const ir::OpView& op) {
  const auto anyHalf = [](std::span<const TensorType> types) {
    return std::ranges::any_of(types, isHalf);
  };
  return (anyHalf(op.inputs) || anyHalf(op.outputs)) && WidenedOp(op).kernel() != nullptr;
}

device::Choice chooseWidened(const ir::OpView& op, const device::Tuning& tuning) {
  const WidenedOp wide(op);
  const KernelEntry* entry = wide.kernel();
  device::Choice choice = entry->choose == nullptr ? device::plainChoice(wide.view, "")
                                                   : entry->choose(wide.view, tuning);
  choice.scratchBytes += copiesOf(op);
  return choice;
}

std::unique_ptr<Kernel> makeWidened(const ir::OpView& op, const device::Choice& choice) {
  const WidenedOp wide(op);
  const KernelEntry* entry = wide.kernel();
  SLUICE_CHECK(entry != nullptr, "{} has no float32 kernel", op.def.name);
  return std::make_unique<Widened>(op, entry->make(wide.view, choice));
}

}  // namespace sluice::devices::cpu
