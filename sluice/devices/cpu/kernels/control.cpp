// loop and branch: their bodies as kernels over planned scratch memory (body_plan.h). A kernel of a
// body is the one that its op would have alone, so its bits are the same (R2). A carried value lies
// in the memory of the loop's result; if a new value cannot be written over the old one, the two
// take turns with a second place in scratch.
#include <cstring>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/cpu_segment.h"
#include "sluice/devices/cpu/kernel_table.h"
#include "sluice/devices/cpu/kernels/body_plan.h"
#include "sluice/devices/cpu/kernels/kernels.h"
#include "sluice/ops/control_ops.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;

bool supportsBody(const ir::Graph& body, const device::KernelTable& table) {
  for (const ir::OpId id : body.order()) {
    const ir::Op& op = body.op(id);
    const std::vector<TensorType> types = body.inputTypes(op);
    if (!op.is(ir::kInput) && !op.is(ir::kConstant) && !table.supports(ir::view(op, types))) {
      return false;
    }
  }
  return true;
}

const device::KernelTable& plainTable() {
  static const device::KernelTable kTable("cpu", tableEntries(), {});
  return kTable;
}

BodyFrame frameOf(const ops::LoopView& loop) {
  return {.fixedFrom = loop.carried + loop.scanned, .carried = loop.carried, .rows = true};
}

BodyFrame frameOf(const ir::Graph& branch) {
  return {.fixedFrom = branch.inputs().size()};
}

/// Plans a body, and notes the choices that were made.
BodyPlan planNew(const ir::Graph& body,
                 const BodyFrame& frame,
                 const device::Tuning& tuning,
                 std::vector<Choice>& made) {
  const device::KernelTable table("cpu", tableEntries(), tuning);
  return planBody(
      body, frame, [&](const ir::OpView& op) { return made.emplace_back(table.choose(op)); });
}

/// The same plan from choices that were made before, which are taken from the front of `choices`.
BodyPlan planAgain(const ir::Graph& body,
                   const BodyFrame& frame,
                   std::span<const Choice>& choices) {
  return planBody(body, frame, [&](const ir::OpView& op) {
    if (choices.empty() || choices.front().inputs.size() != op.inputs.size() ||
        choices.front().outputs.size() != op.outputs.size()) {
      raise<Unsupported>("{} in a body has no choice of a kernel that fits: compile again",
                         op.def.name);
    }
    Choice choice = choices.front();
    choices = choices.subspan(1);
    return choice;
  });
}

/// The kernels of a body and the addresses that they work on.
class Body {
 public:
  explicit Body(BodyPlan plan)
      : plan_(std::move(plan)), before_(plan_.before), each_(plan_.each), buffers_(plan_.buffers) {
    for (BodyPlan::Constant& constant : plan_.constants) {
      buffers_[constant.buffer] = constant.value.bytes();
    }
  }

  const BodyPlan& plan() const { return plan_; }
  std::byte* at(std::size_t buffer) const { return buffers_[buffer]; }
  void bind(std::size_t buffer, std::byte* address) { buffers_[buffer] = address; }
  void bind(std::size_t buffer, const void* address) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): kernels only read their inputs
    bind(buffer, static_cast<std::byte*>(const_cast<void*>(address)));
  }
  void bindScratch(void* scratch) {
    for (const BodyPlan::Placed& placed : plan_.placed) {
      buffers_[placed.buffer] = static_cast<std::byte*>(scratch) + placed.offset;
    }
  }

  void runBefore(const KernelRun& run) { before_.run(buffers_, run.info, run.workers, never_); }
  void runOnce(const KernelRun& run) { each_.run(buffers_, run.info, run.workers, never_); }

 private:
  BodyPlan plan_;
  CpuSegment before_;
  CpuSegment each_;
  std::vector<std::byte*> buffers_;
  std::function<bool()> never_ = [] { return false; };
};

class LoopKernel final : public Kernel {
 public:
  LoopKernel(const ir::OpView& op, BodyPlan plan)
      : count_(op.integer("count")),
        reverse_(op.attrs.flag("reverse")),
        carried_(static_cast<std::size_t>(op.integer("carried"))),
        scanned_(static_cast<std::size_t>(op.integer("scanned"))),
        body_(std::move(plan)) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      inputBytes_.push_back(i >= carried_ && i < carried_ + scanned_
                                ? ops::rowType(op.inputs[i]).bytes()
                                : op.inputs[i].bytes());
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      outputBytes_.push_back(i < carried_ ? op.outputs[i].bytes()
                                          : ops::rowType(op.outputs[i]).bytes());
    }
  }

  void run(const KernelRun& run) override {
    body_.bindScratch(run.scratch);
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      body_.bind(i, run.inputs[i]);
    }
    if (count_ > 0) {
      body_.runBefore(run);
    }
    for (std::int64_t i = 0; i < count_; ++i) {
      bindCarried(run, i);
      bindRows(run, static_cast<std::size_t>(reverse_ ? count_ - 1 - i : i));
      body_.runOnce(run);
    }
    for (std::size_t i = 0; i < carried_; ++i) {
      if ((count_ == 0 || body_.plan().unchanged[i]) && inputBytes_[i] > 0) {
        std::memcpy(run.outputs[i], run.inputs[i], inputBytes_[i]);
      }
    }
  }

 private:
  /// An iteration reads what the one before wrote; the last one writes the results.
  void bindCarried(const KernelRun& run, std::int64_t iteration) {
    for (std::size_t i = 0; i < carried_; ++i) {
      if (body_.plan().unchanged[i]) {
        continue;
      }
      const std::size_t result = run.inputs.size() + i;
      if (iteration > 0) {
        body_.bind(i, body_.at(result));
      }
      const std::optional<std::size_t>& spare = body_.plan().spare[i];
      const bool inSpare = spare && (count_ - 1 - iteration) % 2 != 0;
      body_.bind(result, inSpare ? body_.at(*spare) : static_cast<std::byte*>(run.outputs[i]));
    }
  }

  void bindRows(const KernelRun& run, std::size_t row) {
    for (std::size_t i = carried_; i < carried_ + scanned_; ++i) {
      body_.bind(i, run.in<std::byte>(i) + row * inputBytes_[i]);
    }
    for (std::size_t i = carried_; i < run.outputs.size(); ++i) {
      body_.bind(run.inputs.size() + i, run.out<std::byte>(i) + row * outputBytes_[i]);
    }
  }

  std::int64_t count_;
  bool reverse_;
  std::size_t carried_;
  std::size_t scanned_;
  std::vector<std::size_t> inputBytes_;   // of what the body gets
  std::vector<std::size_t> outputBytes_;  // of what it returns
  Body body_;
};

class BranchKernel final : public Kernel {
 public:
  BranchKernel(BodyPlan yes, BodyPlan no) : yes_(std::move(yes)), no_(std::move(no)) {}

  void run(const KernelRun& run) override {
    Body& body = *run.in<bool>(0) ? yes_ : no_;
    body.bindScratch(run.scratch);
    for (std::size_t i = 1; i < run.inputs.size(); ++i) {
      body.bind(i - 1, run.inputs[i]);
    }
    for (std::size_t i = 0; i < run.outputs.size(); ++i) {
      body.bind(run.inputs.size() - 1 + i, static_cast<std::byte*>(run.outputs[i]));
    }
    body.runBefore(run);
    body.runOnce(run);
  }

 private:
  Body yes_;
  Body no_;
};

}  // namespace

bool supportsLoop(const ir::OpView& op) {
  return supportsBody(op.attrs.subgraph("body"), plainTable());
}

Choice chooseLoop(const ir::OpView& op, const device::Tuning& tuning) {
  const ops::LoopView loop(op.attrs);
  std::vector<Choice> made;
  const BodyPlan plan = planNew(loop.body, frameOf(loop), tuning, made);
  Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = plan.scratchBytes;
  choice.config = choicesText(made);
  return choice;
}

std::unique_ptr<Kernel> makeLoop(const ir::OpView& op, const Choice& choice) {
  const ops::LoopView loop(op.attrs);
  const std::vector<Choice> made = parseChoices(choice.config);
  std::span<const Choice> left = made;
  BodyPlan plan = planAgain(loop.body, frameOf(loop), left);
  if (plan.scratchBytes != choice.scratchBytes) {
    raise<Unsupported>("a loop now needs {} bytes of scratch, and {} when it was compiled",
                       plan.scratchBytes,
                       choice.scratchBytes);
  }
  return std::make_unique<LoopKernel>(op, std::move(plan));
}

bool supportsBranch(const ir::OpView& op) {
  return supportsBody(op.attrs.subgraph("then"), plainTable()) &&
         supportsBody(op.attrs.subgraph("else"), plainTable());
}

Choice chooseBranch(const ir::OpView& op, const device::Tuning& tuning) {
  std::vector<Choice> made;
  const ir::Graph& thenBody = op.attrs.subgraph("then");
  const ir::Graph& elseBody = op.attrs.subgraph("else");
  const BodyPlan yes = planNew(thenBody, frameOf(thenBody), tuning, made);
  const BodyPlan no = planNew(elseBody, frameOf(elseBody), tuning, made);
  Choice choice = device::plainChoice(op, "");
  choice.scratchBytes = std::max(yes.scratchBytes, no.scratchBytes);
  choice.config = choicesText(made);
  return choice;
}

std::unique_ptr<Kernel> makeBranch(const ir::OpView& op, const Choice& choice) {
  const std::vector<Choice> made = parseChoices(choice.config);
  std::span<const Choice> left = made;
  const ir::Graph& thenBody = op.attrs.subgraph("then");
  const ir::Graph& elseBody = op.attrs.subgraph("else");
  BodyPlan yes = planAgain(thenBody, frameOf(thenBody), left);
  BodyPlan no = planAgain(elseBody, frameOf(elseBody), left);
  if (std::max(yes.scratchBytes, no.scratchBytes) != choice.scratchBytes) {
    raise<Unsupported>("a branch now needs {} bytes of scratch, and {} when it was compiled",
                       std::max(yes.scratchBytes, no.scratchBytes),
                       choice.scratchBytes);
  }
  return std::make_unique<BranchKernel>(std::move(yes), std::move(no));
}

}  // namespace sluice::devices::cpu
