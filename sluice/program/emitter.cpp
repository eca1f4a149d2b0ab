#include "sluice/program/emitter.h"

#include <algorithm>
#include <unordered_set>

#include "sluice/base/error.h"

namespace sluice::program {
namespace {

using device::Choice;
using device::Layout;
using ir::Op;
using ir::OpId;
using ir::Value;

/// Axes of extent 1 have no storage order: both layouts put every element in the same place.
bool sameStorage(const Shape& shape, const Layout& a, const Layout& b) {
  if (a == b) {
    return true;
  }
  if (a.kind == Layout::Kind::Opaque || b.kind == Layout::Kind::Opaque) {
    return false;
  }
  const std::vector<std::int64_t> x = device::strides(shape, a);
  const std::vector<std::int64_t> y = device::strides(shape, b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (shape.dims()[i] > 1 && x[i] != y[i]) {
      return false;
    }
  }
  return true;
}

bool canBeChannelsLast(const TensorType& type) {
  return type.shape.rank() >= 3 && type.shape.rank() <= 5;
}

SegmentKind segmentOf(ir::Pass pass) {
  switch (pass) {
    case ir::Pass::Forward:
      return SegmentKind::Forward;
    case ir::Pass::Backward:
      return SegmentKind::Backward;
    case ir::Pass::Update:
      return SegmentKind::Update;
  }
  return SegmentKind::Forward;
}

class Emitter {
 public:
  Emitter(const ir::Graph& graph, const device::KernelTable& kernels, StatePlan& state)
      : graph_(graph), kernels_(kernels), state_(state) {
    order_.assign(graph.order().begin(), graph.order().end());
    std::ranges::stable_sort(order_, {}, [&](OpId id) { return graph.op(id).place.pass; });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Op& op = graph.op(order_[i]);
      if (op.is(ir::kAssign)) {
        assigns_[op.attrs.text("var")].push_back(i);
      }
      for (const Value v : op.inputs) {
        lastUse_[v] = i;
      }
    }
    for (const ir::Output& output : graph.outputs()) {
      lastUse_[output.value] = order_.size();
    }
    // A view lives in the memory of its operand: its uses count for the operand.
    for (std::size_t i = order_.size(); i-- > 0;) {
      const Op& op = graph.op(order_[i]);
      if (op.def->traits.view) {
        const auto used = lastUse_.find(op.out());
        if (used != lastUse_.end()) {
          lastUse_[op.inputs[0]] = std::max(lastUse_[op.inputs[0]], used->second);
        }
      }
    }
  }

  Emitted run() {
    for (position_ = 0; position_ < order_.size(); ++position_) {
      const Op& op = graph_.op(order_[position_]);
      segment_ = segmentOf(op.place.pass);
      try {
        emitOp(op);
      } catch (Error& error) {
        error.at("op '" + op.name + "'");
        throw;
      }
    }
    for (const ir::Output& output : graph_.outputs()) {
      emitOutput(output);
    }
    // Storage changes of variables, emitted where they were first needed, run in front of the loop.
    std::ranges::stable_sort(result_.calls, {}, &EmittedCall::segment);
    return std::move(result_);
  }

 private:
  /// One stored form of a value.
  struct Material {
    Layout layout;
    BufferId buffer;
  };

  BufferId newBuffer(std::string name, std::size_t bytes, BufferUse use) {
    result_.buffers.push_back({.name = std::move(name), .bytes = bytes});
    result_.uses.push_back(use);
    return BufferId(result_.buffers.size() - 1);
  }

  void emitOp(const Op& op) {
    if (op.is(ir::kInput)) {
      const BufferId buffer = newBuffer(op.name, op.outputs[0].bytes(), BufferUse::Feed);
      result_.feeds.push_back({op.name, op.outputs[0], buffer});
      materials_[op.out()] = {{Layout::plain(), buffer}};
    } else if (op.is(ir::kConstant)) {
      const BufferId buffer = newBuffer(op.name, op.outputs[0].bytes(), BufferUse::Constant);
      result_.constants.push_back({buffer, op.attrs.tensor("value")});
      materials_[op.out()] = {{Layout::plain(), buffer}};
    } else if (op.is(ir::kVariable)) {
      emitVariable(op);
    } else if (op.is(ir::kAssign)) {
      emitAssign(op);
    } else if (op.def->traits.view) {
      materials_[op.out()] = {{Layout::plain(), materialize(op.inputs[0], Layout::plain())}};
    } else {
      emitKernel(op);
    }
  }

  BufferId stateBuffer(const std::string& variable) {
    const auto found = stateBuffers_.find(variable);
    if (found != stateBuffers_.end()) {
      return found->second;
    }
    const PlacedVariable& placed = state_.add(*graph_.findVariable(variable), 0);
    const BufferId id = newBuffer(variable, placed.variable.type.bytes(), BufferUse::State);
    Buffer& buffer = result_.buffers[id.index()];
    buffer.region = Region::State;
    buffer.device = placed.device;
    buffer.offset = placed.offset;
    stateBuffers_.emplace(variable, id);
    return id;
  }

  /// A read is the variable's own slice, unless the variable is assigned before the last use of the
  /// value read: then the value is copied out.
  void emitVariable(const Op& op) {
    const std::string& variable = op.attrs.text("var");
    const BufferId slice = stateBuffer(variable);
    const auto used = lastUse_.find(op.out());
    const std::size_t last = used == lastUse_.end() ? position_ : used->second;
    for (const std::size_t assign : assigns_[variable]) {
      if (assign > position_ && assign < last) {
        materials_[op.out()] = {
            {Layout::plain(), emitCopy(slice, op.outputs[0], op.name, BufferUse::Local)}};
        return;
      }
    }
    materials_[op.out()] = {{Layout::plain(), slice}};
    variableOf_[op.out()] = variable;
  }

  void emitAssign(const Op& op) {
    const std::string& variable = op.attrs.text("var");
    const BufferId slice = stateBuffer(variable);
    const BufferId value = materialize(op.inputs[0], Layout::plain());
    const TensorType& type = graph_.type(op.inputs[0]);
    if (op.attrs.text("mode") == "set") {
      emitReorder({Layout::plain(), value}, {Layout::plain(), slice}, type, segment_, op.name);
      result_.calls.back().assignCopy = true;
      return;
    }
    EmittedCall call{.segment = segment_, .elementwise = true};
    call.call = {.def = op.def,
                 .attrs = op.attrs,
                 .inputTypes = {type},
                 .outputTypes = {type},
                 .name = op.name};
    call.call.choice = kernels_.choose(call.call.view());
    call.call.inputs = {value.value};
    call.call.outputs = {slice.value};
    result_.calls.push_back(std::move(call));
  }

  BufferId emitCopy(BufferId from, const TensorType& type, const std::string& name, BufferUse use) {
    const BufferId to = newBuffer(name, type.bytes(), use);
    emitReorder({Layout::plain(), from}, {Layout::plain(), to}, type, segment_, name);
    return to;
  }

  void emitReorder(const Material& from,
                   const Material& to,
                   const TensorType& type,
                   SegmentKind segment,
                   const std::string& name) {
    EmittedCall call{.segment = segment};
    call.call = {.def = &device::kReorder,
                 .attrs = {},
                 .inputTypes = {type},
                 .outputTypes = {type},
                 .name = name};
    call.call.choice = kernels_.choose(call.call.view());
    call.call.choice.inputs = {from.layout};
    call.call.choice.outputs = {to.layout};
    call.call.inputs = {from.buffer.value};
    call.call.outputs = {to.buffer.value};
    result_.calls.push_back(std::move(call));
  }

  /// The buffer that holds `value` in `wanted`; inserts the storage change the first time. Changes
  /// of a variable that the micro-batch loop does not write are hoisted in front of the loop.
  BufferId materialize(Value value, const Layout& wanted) {
    std::vector<Material>& forms = materials_.at(value);
    const TensorType& type = graph_.type(value);
    for (const Material& form : forms) {
      if (sameStorage(type.shape, form.layout, wanted)) {
        return form.buffer;
      }
    }
    // Only plain storage converts to and from everything.
    if (!wanted.isPlain() && !forms.front().layout.isPlain()) {
      materialize(value, Layout::plain());
    }
    const auto plain =
        std::ranges::find_if(forms, [&](const Material& m) { return m.layout.isPlain(); });
    const Material source = wanted.isPlain() ? forms.front() : *plain;
    const std::string& name = graph_.op(value.op).name;
    const auto variable = variableOf_.find(value);
    const bool hoist = variable != variableOf_.end() && segment_ != SegmentKind::Update &&
                       !assignedInLoop(variable->second);
    if (hoist) {
      std::vector<Material>& packed = packed_[variable->second];
      for (const Material& form : packed) {
        if (form.layout == wanted) {
          forms.push_back(form);
          return form.buffer;
        }
      }
      const Material form{wanted, newBuffer(name, wanted.bytes(type), BufferUse::Packed)};
      emitReorder(source, form, type, SegmentKind::Pack, name);
      packed.push_back(form);
      forms.push_back(form);
      return form.buffer;
    }
    const Material form{wanted, newBuffer(name, wanted.bytes(type), BufferUse::Local)};
    emitReorder(source, form, type, segment_, name);
    forms.push_back(form);
    return form.buffer;
  }

  bool assignedInLoop(const std::string& variable) {
    return std::ranges::any_of(assigns_[variable], [&](std::size_t position) {
      return graph_.op(order_[position]).place.pass != ir::Pass::Update;
    });
  }

  /// The layout a following op takes: that of its largest operand of the output's rank.
  Layout layoutToFollow(const Op& op) {
    const TensorType& out = op.outputs[0];
    std::size_t largest = 0;
    Layout layout;
    for (const Value v : op.inputs) {
      const TensorType& type = graph_.type(v);
      if (type.shape.rank() != out.shape.rank() || type.bytes() <= largest) {
        continue;
      }
      largest = type.bytes();
      const Layout& first = materials_.at(v).front().layout;
      layout = first.kind == Layout::Kind::ChannelsLast ? first : Layout::plain();
    }
    return layout;
  }

  void applyLayoutRule(const Op& op, Choice& choice) {
    if (choice.rule == device::LayoutRule::Fixed || op.outputs.empty() ||
        !canBeChannelsLast(op.outputs[0])) {
      return;
    }
    const Layout layout = layoutToFollow(op);
    const std::int64_t rank = op.outputs[0].shape.rank();
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (graph_.type(op.inputs[i]).shape.rank() == rank) {
        choice.inputs[i] = layout;
      }
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if (op.outputs[i].shape.rank() == rank) {
        choice.outputs[i] = layout;
      }
    }
  }

  void emitKernel(const Op& op) {
    EmittedCall call{.segment = segment_, .elementwise = isElementwise(op)};
    call.call = {.def = op.def,
                 .attrs = op.attrs,
                 .inputTypes = graph_.inputTypes(op),
                 .outputTypes = op.outputs,
                 .name = op.name};
    Choice choice = kernels_.choose(call.call.view());
    applyLayoutRule(op, choice);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      call.call.inputs.push_back(materialize(op.inputs[i], choice.inputs[i]).value);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const BufferId buffer =
          newBuffer(op.name, choice.outputs[i].bytes(op.outputs[i]), BufferUse::Local);
      materials_[op.out(i)] = {{choice.outputs[i], buffer}};
      call.call.outputs.push_back(buffer.value);
    }
    if (choice.scratchBytes > 0) {
      call.call.scratch =
          newBuffer(op.name + "/scratch", choice.scratchBytes, BufferUse::Scratch).value;
    }
    call.call.choice = std::move(choice);
    result_.calls.push_back(std::move(call));
  }

  /// Whether every output element depends on the operand elements of the same position only.
  static bool isElementwise(const Op& op) {
    if (op.def->traits.elementwise) {
      return true;
    }
    if (op.def->name != "fused") {
      return false;
    }
    const ir::Graph& body = op.attrs.subgraph("body");
    return std::ranges::all_of(body.order(), [&](OpId id) {
      const Op& inner = body.op(id);
      return inner.def->traits.elementwise || inner.is(ir::kInput) || inner.is(ir::kConstant);
    });
  }

  void emitOutput(const ir::Output& output) {
    const Op& producer = graph_.op(output.value.op);
    segment_ = segmentOf(producer.place.pass);
    BufferId buffer = materialize(output.value, Layout::plain());
    if (result_.uses[buffer.index()] != BufferUse::Local) {
      // An input, a variable, a constant, or a value drained under another name already.
      buffer = emitCopy(buffer, graph_.type(output.value), output.name, BufferUse::Drain);
      moveBehindSegment();
    } else {
      result_.uses[buffer.index()] = BufferUse::Drain;
      moveBehindSegment();
    }
    result_.drains.push_back({output.name, graph_.type(output.value), buffer});
  }

  /// Calls emitted for outputs come last; they belong at the end of their segment.
  void moveBehindSegment() { std::ranges::stable_sort(result_.calls, {}, &EmittedCall::segment); }

  const ir::Graph& graph_;
  const device::KernelTable& kernels_;
  StatePlan& state_;
  std::vector<OpId> order_;
  std::size_t position_ = 0;
  SegmentKind segment_ = SegmentKind::Forward;
  std::unordered_map<Value, std::size_t> lastUse_;
  std::unordered_map<std::string, std::vector<std::size_t>> assigns_;
  std::unordered_map<Value, std::vector<Material>> materials_;
  std::unordered_map<Value, std::string> variableOf_;
  std::unordered_map<std::string, BufferId> stateBuffers_;
  std::unordered_map<std::string, std::vector<Material>> packed_;
  Emitted result_;
};

}  // namespace

Emitted emit(const ir::Graph& graph, const device::KernelTable& kernels, StatePlan& state) {
  return Emitter(graph, kernels, state).run();
}

}  // namespace sluice::program
