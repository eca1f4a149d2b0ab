#include "sluice/devices/cpu/kernels/body_plan.h"

#include <algorithm>
#include <unordered_map>

#include "sluice/base/error.h"
#include "sluice/ops/fused.h"
#include "sluice/schedule/offsets.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::KernelCall;
using device::Layout;
using ir::Value;

class Planner {
 public:
  Planner(const ir::Graph& body, const BodyFrame& frame, ChooseKernel choose)
      : body_(body), frame_(frame), choose_(choose) {}

  BodyPlan run() {
    addInputs();
    for (std::size_t i = 0; i < body_.outputs().size(); ++i) {
      addBuffer(0, Kind::Outside);
    }
    alignRows();
    for (const ir::OpId id : body_.order()) {
      addOp(body_.op(id));
    }
    plan_.unchanged.assign(frame_.carried, false);
    for (std::size_t i = 0; i < body_.outputs().size(); ++i) {
      addOutput(i);
    }
    plan_.each.insert(plan_.each.begin(), copies_.begin(), copies_.end());
    elementwise_.insert(elementwise_.begin(), copies_.size(), false);
    rename();
    for (std::size_t i = 0; i < frame_.carried; ++i) {
      plan_.spare.emplace_back();
      if (!mayOverwrite(i)) {
        spares_.push_back(i);
      }
    }
    place();
    return std::move(plan_);
  }

 private:
  enum class Kind : std::uint8_t { Outside, Constant, Scratch };
  struct Buffer {
    std::size_t bytes;
    Kind kind;
    bool fixed;  ///< the same in every iteration
  };
  /// One stored form of a value.
  struct Form {
    Layout layout;
    std::size_t buffer;
  };

  std::size_t addBuffer(std::size_t bytes, Kind kind, bool fixed = false) {
    buffers_.push_back({bytes, kind, fixed});
    return buffers_.size() - 1;
  }

  std::size_t outputBuffer(std::size_t i) const { return body_.inputs().size() + i; }

  void addInputs() {
    const std::vector<ir::OpId> inputs = body_.inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const TensorType& type = body_.op(inputs[i]).outputs[0];
      addBuffer(type.bytes(), Kind::Outside, i >= frame_.fixedFrom);
      inputOf_.emplace(Value{inputs[i], 0}, i);
      forms_[{inputs[i], 0}] = {{Layout::plain(), i}};
    }
  }

  /// Kernels get copies of rows that are not aligned.
  void alignRows() {
    const std::vector<ir::OpId> inputs = body_.inputs();
    for (std::size_t i = frame_.carried; i < frame_.fixedFrom; ++i) {
      const TensorType& type = body_.op(inputs[i]).outputs[0];
      if (frame_.rows && type.bytes() % kBodyAlignment != 0) {
        const std::size_t copy = addBuffer(type.bytes(), Kind::Scratch);
        copies_.push_back(reorder({Layout::plain(), i}, {Layout::plain(), copy}, type));
        forms_[{inputs[i], 0}] = {{Layout::plain(), copy}};
      }
    }
  }

  /// The value whose memory a view shows.
  Value source(Value v) const {
    while (body_.op(v.op).def->traits.view) {
      v = body_.op(v.op).inputs[0];
    }
    return v;
  }

  static KernelCall reorder(const Form& from, const Form& to, const TensorType& type) {
    KernelCall call{
        .def = &device::kReorder,
        .attrs = {},
        .inputTypes = {type},
        .outputTypes = {type},
        .name = "reorder",
        .choice = {.implementation = "strided", .inputs = {from.layout}, .outputs = {to.layout}},
        .inputs = {static_cast<std::int32_t>(from.buffer)},
        .outputs = {static_cast<std::int32_t>(to.buffer)}};
    return call;
  }

  /// Appends a call to the list that its operands allow; returns whether it runs only once.
  bool append(KernelCall call, bool elementwise) {
    const bool fixed = std::ranges::all_of(
        call.inputs, [&](std::int32_t b) { return buffers_[static_cast<std::size_t>(b)].fixed; });
    for (const std::int32_t b : call.outputs) {
      buffers_[static_cast<std::size_t>(b)].fixed = fixed;
    }
    if (!fixed) {
      elementwise_.push_back(elementwise);
    }
    (fixed ? plan_.before : plan_.each).push_back(std::move(call));
    return fixed;
  }

  std::size_t materialize(Value value, const Layout& wanted) {
    value = source(value);
    std::vector<Form>& forms = forms_.at(value);
    for (const Form& form : forms) {
      if (form.layout == wanted) {
        return form.buffer;
      }
    }
    if (!wanted.isPlain() && !forms.front().layout.isPlain()) {
      materialize(value, Layout::plain());  // only plain storage converts to and from everything
    }
    const auto plain =
        std::ranges::find_if(forms, [](const Form& f) { return f.layout.isPlain(); });
    const Form from = plain == forms.end() ? forms.front() : *plain;
    const TensorType& type = body_.type(value);
    const Form to{wanted, addBuffer(wanted.bytes(type), Kind::Scratch)};
    append(reorder(from, to, type), false);
    forms.push_back(to);
    return to.buffer;
  }

  void addOp(const ir::Op& op) {
    if (op.is(ir::kInput)) {
      return;
    }
    if (op.is(ir::kConstant)) {
      const std::size_t buffer = addBuffer(op.outputs[0].bytes(), Kind::Constant, true);
      plan_.constants.push_back({buffer, op.attrs.tensor("value")});
      forms_[op.out()] = {{Layout::plain(), buffer}};
      return;
    }
    if (op.def->traits.view) {
      return;
    }
    KernelCall call{.def = op.def,
                    .attrs = op.attrs,
                    .inputTypes = body_.inputTypes(op),
                    .outputTypes = op.outputs,
                    .name = op.name,
                    .choice = {},
                    .inputs = {},
                    .outputs = {}};
    call.choice = choose_(call.view());
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      call.inputs.push_back(
          static_cast<std::int32_t>(materialize(op.inputs[i], call.choice.inputs[i])));
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const Layout& layout = call.choice.outputs[i];
      const std::size_t buffer = addBuffer(layout.bytes(op.outputs[i]), Kind::Scratch);
      forms_[op.out(i)] = {{layout, buffer}};
      call.outputs.push_back(static_cast<std::int32_t>(buffer));
    }
    kernelScratch_ = std::max(kernelScratch_, call.choice.scratchBytes);
    append(std::move(call), ops::isElementwise(op));
  }

  bool isAligned(std::size_t output) const {
    return !frame_.rows || output < frame_.carried ||
           body_.type(body_.outputs()[output].value).bytes() % kBodyAlignment == 0;
  }

  void addOutput(std::size_t i) {
    const Value value = source(body_.outputs()[i].value);
    if (const auto input = inputOf_.find(value);
        i < frame_.carried && input != inputOf_.end() && input->second == i) {
      plan_.unchanged[i] = true;
      return;
    }
    const std::size_t made = materialize(value, Layout::plain());
    const std::size_t wanted = outputBuffer(i);
    const Buffer& buffer = buffers_[made];
    if (buffer.kind == Kind::Scratch && !buffer.fixed && isAligned(i) &&
        !inputOf_.contains(value) && !renamed_.contains(made)) {
      renamed_.emplace(made, wanted);
      return;
    }
    const bool early = buffer.fixed || inputOf_.contains(value);
    KernelCall copy =
        reorder({Layout::plain(), made}, {Layout::plain(), wanted}, body_.type(value));
    if (early) {  // before the iteration overwrites what it carries
      copies_.push_back(std::move(copy));
    } else {
      elementwise_.push_back(false);
      plan_.each.push_back(std::move(copy));
    }
  }

  void rename() {
    for (KernelCall& call : plan_.each) {
      for (std::vector<std::int32_t>* list : {&call.inputs, &call.outputs}) {
        for (std::int32_t& b : *list) {
          const auto found = renamed_.find(static_cast<std::size_t>(b));
          b = found == renamed_.end() ? b : static_cast<std::int32_t>(found->second);
        }
      }
    }
  }

  /// Whether a carried value may be written over the one before: all that read the old one come
  /// before what writes the new one, or it works element by element.
  bool mayOverwrite(std::size_t carried) const {
    const auto in = static_cast<std::int32_t>(carried);
    const auto out = static_cast<std::int32_t>(outputBuffer(carried));
    bool written = false;
    for (std::size_t t = 0; t < plan_.each.size(); ++t) {
      const KernelCall& call = plan_.each[t];
      const auto write = std::ranges::find(call.outputs, out);
      const bool writes = write != call.outputs.end();
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        const bool element =
            writes && elementwise_[t] &&
            call.inputTypes[i] ==
                call.outputTypes[static_cast<std::size_t>(write - call.outputs.begin())];
        if (call.inputs[i] == in && (written || (writes && !element))) {
          return false;
        }
      }
      written = written || writes;
    }
    return true;
  }

  /// Gives everything in scratch its place.
  void place() {
    const auto end = static_cast<std::int64_t>(plan_.before.size() + plan_.each.size() + 1);
    std::unordered_map<std::size_t, schedule::Lifetime> lives;
    std::int64_t time = 0;
    const auto touch = [&](std::int32_t b) {
      const Buffer& buffer = buffers_[static_cast<std::size_t>(b)];
      if (buffer.kind == Kind::Scratch) {
        schedule::Lifetime& life =
            lives.emplace(b, schedule::Lifetime{time, time, buffer.bytes}).first->second;
        life.end = buffer.fixed ? end : time + 1;
      }
    };
    for (std::vector<KernelCall>* list : {&plan_.before, &plan_.each}) {
      for (const KernelCall& call : *list) {
        std::ranges::for_each(call.inputs, touch);
        std::ranges::for_each(call.outputs, touch);
        ++time;
      }
    }
    for (const std::size_t carried : spares_) {
      const std::size_t spare =
          addBuffer(body_.op(body_.inputs()[carried]).outputs[0].bytes(), Kind::Scratch);
      lives.emplace(spare, schedule::Lifetime{0, end, buffers_[spare].bytes});
      plan_.spare[carried] = spare;
    }
    if (kernelScratch_ > 0) {
      const std::size_t scratch = addBuffer(kernelScratch_, Kind::Scratch);
      lives.emplace(scratch, schedule::Lifetime{0, end, kernelScratch_});
      for (std::vector<KernelCall>* list : {&plan_.before, &plan_.each}) {
        for (KernelCall& call : *list) {
          call.scratch =
              call.choice.scratchBytes > 0 ? static_cast<std::int32_t>(scratch) : call.scratch;
        }
      }
    }
    setOffsets(lives);
    plan_.buffers = buffers_.size();
  }

  void setOffsets(const std::unordered_map<std::size_t, schedule::Lifetime>& lives) {
    std::vector<std::size_t> ids;
    ids.reserve(lives.size());
    for (const auto& [buffer, life] : lives) {
      ids.push_back(buffer);
    }
    std::ranges::sort(ids);  // the plan is a function of the body alone
    std::vector<schedule::Lifetime> list;
    list.reserve(ids.size());
    for (const std::size_t id : ids) {
      list.push_back(lives.at(id));
    }
    const schedule::OffsetPlan offsets = schedule::planOffsets(list, kBodyAlignment);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      plan_.placed.push_back({ids[i], offsets.offsets[i]});
    }
    plan_.scratchBytes = offsets.peak;
  }

  const ir::Graph& body_;
  const BodyFrame& frame_;
  ChooseKernel choose_;
  BodyPlan plan_;
  std::vector<Buffer> buffers_;
  std::unordered_map<Value, std::vector<Form>> forms_;  // of values that are no views
  std::unordered_map<Value, std::size_t> inputOf_;
  std::vector<KernelCall> copies_;  // at the start of an iteration
  std::vector<bool> elementwise_;   // of plan_.each
  std::unordered_map<std::size_t, std::size_t> renamed_;
  std::vector<std::size_t> spares_;  // carried values that need one
  std::size_t kernelScratch_ = 0;
};

}  // namespace

BodyPlan planBody(const ir::Graph& body, const BodyFrame& frame, ChooseKernel choose) {
  return Planner(body, frame, choose).run();
}

}  // namespace sluice::devices::cpu
