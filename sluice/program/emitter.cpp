#include "sluice/program/emitter.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/ops/fused.h"
#include "sluice/ops/shape_ops.h"
#include "sluice/program/emit_uses.h"

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

std::vector<OpId> bySegment(const ir::Graph& graph, const parallel::SegmentPlan& plan) {
  std::vector<OpId> order(graph.order().begin(), graph.order().end());
  std::ranges::stable_sort(order, {}, [&](OpId id) { return plan.of(id); });
  return order;
}

bool canBeChannelsLast(const TensorType& type) {
  return type.shape.rank() >= 3 && type.shape.rank() <= 5;
}

class Emitter {
 public:
  Emitter(const EmitInput& input,
          std::span<const device::KernelTable* const> kernels,
          StatePlan& state)
      : graph_(input.graph),
        plan_(input.plan),
        homes_(input.homes),
        streaming_(input.streaming),
        packsAll_(input.packsInLoop),
        kernels_(kernels),
        state_(state),
        order_(bySegment(graph_, plan_)),
        uses_(graph_, order_) {
    for (std::int32_t d = 0; d < plan_.devices; ++d) {
      result_.segments.push_back({.kind = SegmentKind::Pack, .device = d});
    }
    result_.segments.insert(result_.segments.end(), plan_.segments.begin(), plan_.segments.end());
    for (const OpId id : order_) {
      if (graph_.op(id).is(ir::kConstant)) {
        // Stored on each device that reads it, which may come before the device it is placed on.
        materials_[graph_.op(id).out()] = {};
      }
    }
  }

  Emitted run() {
    for (position_ = 0; position_ < order_.size(); ++position_) {
      const Op& op = graph_.op(order_[position_]);
      segment_ = segmentOf(op.id);
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
    sortFeeds();
    // Storage changes of variables, emitted where they were first needed, run in front of the loop;
    // copies for outputs at the end of the segment that makes the value.
    std::ranges::stable_sort(result_.calls, {}, &EmittedCall::segment);
    return std::move(result_);
  }

 private:
  /// One stored form of a value. Forms made by a segment exist for the segments behind it.
  struct Material {
    Layout layout;
    BufferId buffer;
    std::int32_t segment = -1;  ///< -1: there before the loop, or brought by a transfer
    std::int32_t only = -1;     ///< the one segment that it exists for; -1: any
  };

  /// Feeds come in the order of the model's inputs, wherever these are first read.
  void sortFeeds() {
    std::unordered_map<std::string, std::size_t> position;
    for (const OpId id : graph_.inputs()) {
      position.emplace(graph_.op(id).name, position.size());
    }
    std::ranges::sort(result_.feeds, {}, [&](const Port& feed) { return position.at(feed.name); });
  }

  std::int32_t segmentOf(OpId id) const { return plan_.devices + plan_.of(id); }
  const parallel::SegmentInfo& info(std::int32_t segment) const {
    return result_.segments[segment];
  }
  std::int32_t device() const { return info(segment_).device; }
  std::int32_t deviceOf(BufferId buffer) const { return result_.buffers[buffer.index()].device; }

  /// On the device of the segment being emitted.
  BufferId newBuffer(std::string name, std::size_t bytes, BufferUse use) {
    result_.buffers.push_back({.name = std::move(name), .device = device(), .bytes = bytes});
    result_.uses.push_back(use);
    return BufferId(result_.buffers.size() - 1);
  }

  void emitOp(const Op& op) {
    if (op.is(ir::kInput)) {
      const BufferId buffer = newBuffer(op.name, op.outputs[0].bytes(), BufferUse::Feed);
      result_.feeds.push_back({op.name, op.outputs[0], buffer});
      materials_[op.out()] = {{Layout::plain(), buffer}};
    } else if (op.is(ir::kVariable)) {
      emitVariable(op);
    } else if (op.is(ir::kAssign)) {
      emitAssign(op);
    } else if (op.def->traits.view) {
      materials_[op.out()] = {
          {Layout::plain(), materialize(op.inputs[0], Layout::plain()), segment_}};
    } else if (ops::crossesReplicas(*op.def)) {
      emitReduction(op);
    } else if (!op.is(ir::kConstant)) {
      emitKernel(op);
    }
  }

  /// The result is there when the parts of the segment behind this one begin.
  void emitReduction(const Op& op) {
    const TensorType& type = op.outputs[0];
    const bool once = info(segment_).oncePerRound();
    BufferId from = materialize(op.inputs[0], Layout::plain());
    const bool constant = result_.uses[from.index()] == BufferUse::Constant;
    if (constant || (!once && !isMadeByKernels(from))) {
      from = emitCopy(from, graph_.type(op.inputs[0]), op.name, BufferUse::Local);
    }
    BufferUse& use = result_.uses[from.index()];
    use = use == BufferUse::Local ? BufferUse::Sent : use;
    const BufferId to = newBuffer(op.name, type.bytes(), BufferUse::Received);
    const CollectiveKind kind = op.is(ops::kReplicaGather)       ? CollectiveKind::Gather
                                : op.is(ops::kReplicaSumScatter) ? CollectiveKind::SumPart
                                                                 : CollectiveKind::Sum;
    result_.collectives.push_back({op.name, from, to, type, kind, graph_.type(op.inputs[0]), once});
    materials_[op.out()] = {{Layout::plain(), to}};
  }

  /// Whether kernels of this device write it for every micro-batch: then exchanges come behind them
  /// in the order of the kernels, whatever else the buffer waits for.
  bool isMadeByKernels(BufferId buffer) const {
    const BufferUse use = result_.uses[buffer.index()];
    return use == BufferUse::Local || use == BufferUse::Sent || use == BufferUse::Drain;
  }

  /// Whether the variable is in remote memory: where other programs have it, else as planned.
  bool isRemote(const std::string& variable) const {
    const PlacedVariable* known = state_.find(variable);
    return known != nullptr ? known->device == kRemote : streaming_.variables.contains(variable);
  }

  /// This device's window on a remote variable.
  BufferId windowOn(const std::string& variable) {
    const auto [known, isNew] = streamed_.emplace(variable, result_.streamed.size());
    if (isNew) {
      const PlacedVariable& placed = state_.add(*graph_.findVariable(variable), kRemote);
      const BufferId remote = newBuffer(variable, placed.variable.type.bytes(), BufferUse::Remote);
      Buffer& buffer = result_.buffers[remote.index()];
      buffer.device = kRemote;
      buffer.region = Region::State;
      buffer.offset = placed.offset;
      result_.streamed.push_back({uses_.beginsAnew(placed.variable), remote, {}});
    }
    for (const BufferId window : result_.streamed[known->second].windows) {
      if (deviceOf(window) == device()) {
        return window;
      }
    }
    const std::size_t bytes = graph_.findVariable(variable)->type.bytes();
    const BufferId window = newBuffer(variable, bytes, BufferUse::Window);
    result_.buffers[window.index()].window = true;
    result_.streamed[known->second].windows.push_back(window);
    return window;
  }

  BufferId stateBuffer(const std::string& variable) {
    if (isRemote(variable)) {
      return windowOn(variable);
    }
    const auto found = stateBuffers_.find(variable);
    if (found != stateBuffers_.end()) {
      return found->second;
    }
    const PlacedVariable* known = state_.find(variable);
    const std::int32_t home = known != nullptr ? known->device : homes_.at(variable);
    const PlacedVariable& placed = state_.add(*graph_.findVariable(variable), home);
    // What the loop writes has to be where it is written, wherever other programs have it.
    const std::int32_t wanted =
        uses_.isAssignedInLoop(variable) ? homes_.at(variable) : placed.device;
    const BufferId id = newBuffer(variable, placed.variable.type.bytes(), BufferUse::State);
    const StateSlice slice = state_.sliceOn(variable, wanted);
    Buffer& buffer = result_.buffers[id.index()];
    buffer.region = Region::State;
    buffer.device = slice.device;
    buffer.offset = slice.offset;
    stateBuffers_.emplace(variable, id);
    return id;
  }

  /// A read is the variable's own slice, unless the variable is assigned before the last use of the
  /// value read: then the value is copied out.
  void emitVariable(const Op& op) {
    const std::string& variable = op.attrs.text("var");
    const BufferId slice = stateBuffer(variable);
    // A value of the update that another device reads is sent, which is no read of its own segment.
    const bool sentByUpdate = info(segment_).kind == SegmentKind::Update &&
                              uses_.isAssigned(variable) && uses_.isReadElsewhere(op.out());
    if (uses_.isOverwritten(op, position_) || sentByUpdate) {
      requireHome(variable, slice, "reads");
      materials_[op.out()] = {
          {Layout::plain(), emitCopy(slice, op.outputs[0], op.name, BufferUse::Local), segment_}};
      return;
    }
    materials_[op.out()] = {{Layout::plain(), slice}};
    variableOf_[op.out()] = variable;
  }

  void requireHome(const std::string& variable, BufferId slice, std::string_view does) const {
    if (deviceOf(slice) != device()) {
      raise<Unsupported>(
          "device {} {} variable '{}', which changes during the loop and lives on device {}: keep "
          "what uses it on one device",
          device(),
          does,
          variable,
          deviceOf(slice));
    }
  }

  void emitAssign(const Op& op) {
    const std::string& variable = op.attrs.text("var");
    const BufferId slice = stateBuffer(variable);
    requireHome(variable, slice, "assigns");
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
    call.call.choice = kernelsOf(call.segment).choose(call.call.view());
    call.call.inputs = {value.value};
    call.call.outputs = {slice.value};
    result_.calls.push_back(std::move(call));
  }

  /// Of the device that the segment runs on.
  const device::KernelTable& kernelsOf(std::int32_t segment) const {
    const std::int32_t device = result_.segments[segment].device;
    return *kernels_[std::min(static_cast<std::size_t>(device), kernels_.size() - 1)];
  }

  BufferId emitCopy(BufferId from, const TensorType& type, const std::string& name, BufferUse use) {
    const BufferId to = newBuffer(name, type.bytes(), use);
    emitReorder({Layout::plain(), from}, {Layout::plain(), to}, type, segment_, name);
    return to;
  }

  void emitReorder(const Material& from,
                   const Material& to,
                   const TensorType& type,
                   std::int32_t segment,
                   const std::string& name) {
    EmittedCall call{.segment = segment};
    call.call = {.def = &device::kReorder,
                 .attrs = {},
                 .inputTypes = {type},
                 .outputTypes = {type},
                 .name = name};
    call.call.choice = kernelsOf(call.segment).choose(call.call.view());
    call.call.choice.inputs = {from.layout};
    call.call.choice.outputs = {to.layout};
    call.call.inputs = {from.buffer.value};
    call.call.outputs = {to.buffer.value};
    result_.calls.push_back(std::move(call));
  }

  /// Whether the segment being emitted may read the form. Weight gradients may be delayed, so what
  /// only they have made is there for them and the update.
  bool visible(const Material& form) const {
    if (deviceOf(form.buffer) != device() || (form.only >= 0 && form.only != segment_)) {
      return false;
    }
    if (form.segment < 0 || form.segment == segment_) {
      return true;
    }
    const parallel::SegmentInfo& maker = info(form.segment);
    const bool delayed = maker.kind == SegmentKind::BackwardWeight;
    const bool behind = info(segment_).kind == SegmentKind::Update ||
                        (info(segment_).kind == maker.kind && info(segment_).stage == maker.stage);
    return form.segment < segment_ && (!delayed || behind);
  }

  /// The buffer that holds `value` in `wanted`, for the segment being emitted; inserts the storage
  /// change the first time. Changes of a constant, and of a variable that the micro-batch loop does
  /// not write, are hoisted in front of the loop.
  BufferId materialize(Value value, const Layout& wanted) {
    const auto known = materials_.find(value);
    SLUICE_CHECK(known != materials_.end(),
                 "'{}' is read in front of the segment that makes it",
                 graph_.op(value.op).name);
    std::vector<Material>& forms = known->second;
    const TensorType& type = graph_.type(value);
    const Material* plain = nullptr;
    const Material* any = nullptr;
    for (const Material& form : forms) {
      if (!visible(form)) {
        continue;
      }
      if (sameStorage(type.shape, form.layout, wanted)) {
        return form.buffer;
      }
      any = any == nullptr ? &form : any;
      plain = plain == nullptr && form.layout.isPlain() ? &form : plain;
    }
    if (any == nullptr) {
      forms.push_back(bring(value));
      return materialize(value, wanted);
    }
    // Only plain storage converts to and from everything.
    if (!wanted.isPlain() && plain == nullptr) {
      materialize(value, Layout::plain());
      return materialize(value, wanted);
    }
    const Material source = wanted.isPlain() ? *any : *plain;
    const std::string& name = graph_.op(value.op).name;
    const auto variable = variableOf_.find(value);
    const bool streamed = variable != variableOf_.end() && isRemote(variable->second);
    if (variable != variableOf_.end() && info(segment_).kind != SegmentKind::Update &&
        !uses_.isAssignedInLoop(variable->second) && !packsInLoop(streamed)) {
      forms.push_back(streamed && streaming_.order == parallel::StreamOrder::PhaseMajor
                          ? packedForPhase(variable->second, source, type, wanted)
                          : packed(variable->second, source, type, wanted));
      return forms.back().buffer;
    }
    if (graph_.op(value.op).is(ir::kConstant) && info(segment_).kind != SegmentKind::Update &&
        !packsAll_) {
      forms.push_back(packedCopy(name, source, type, wanted));
      return forms.back().buffer;
    }
    const Material form{wanted,
                        newBuffer(name, wanted.bytes(type), BufferUse::Local),
                        segment_,
                        streamed || (packsAll_ && variable != variableOf_.end()) ? segment_ : -1};
    emitReorder(source, form, type, segment_, name);
    forms.push_back(form);
    return form.buffer;
  }

  /// The packed copy of a variable on this device.
  Material packed(const std::string& variable,
                  const Material& source,
                  const TensorType& type,
                  const Layout& wanted) {
    std::vector<Material>& known = packed_[variable];
    for (const Material& form : known) {
      if (form.layout == wanted && deviceOf(form.buffer) == device()) {
        return form;
      }
    }
    known.push_back(packedCopy(variable, source, type, wanted));
    return known.back();
  }

  /// Made in front of the loop.
  Material packedCopy(const std::string& name,
                      const Material& source,
                      const TensorType& type,
                      const Layout& wanted) {
    Material form{wanted, newBuffer(name, wanted.bytes(type), BufferUse::Packed)};
    emitReorder(source, form, type, device(), name);  // the Pack of device d is segment d
    return form;
  }

  /// Whether every micro-batch changes the storage of variables anew: of remote ones if it loads
  /// them anew.
  bool packsInLoop(bool remote) const {
    return packsAll_ || (remote && streaming_.order == parallel::StreamOrder::MicroBatchMajor);
  }

  /// The packed copy of a remote variable for one pass of a phase.
  Material packedForPhase(const std::string& variable,
                          const Material& source,
                          const TensorType& type,
                          const Layout& wanted) {
    std::int32_t pack = segment_;
    while (info(pack).kind != SegmentKind::Pack || info(pack).device != device()) {
      --pack;
    }
    // Both passes of the phase take turns: what packs for them comes before the first.
    if (info(segment_).kind != SegmentKind::Forward &&
        streaming_.sharesPhase(info(segment_).stage)) {
      do {
        --pack;
      } while (info(pack).kind != SegmentKind::Pack || info(pack).device != device());
    }
    Material form{
        wanted, newBuffer(variable, wanted.bytes(type), BufferUse::Local), pack, segment_};
    emitReorder(source, form, type, pack, variable);
    return form;
  }

  /// Puts a value onto this device that is not there yet.
  Material bring(Value value) {
    const Op& producer = graph_.op(value.op);
    const TensorType& type = graph_.type(value);
    if (producer.is(ir::kConstant)) {
      const BufferId buffer = newBuffer(producer.name, type.bytes(), BufferUse::Constant);
      result_.constants.push_back({buffer, producer.attrs.tensor("value")});
      return {Layout::plain(), buffer};
    }
    if (const auto variable = variableOf_.find(value); variable != variableOf_.end()) {
      return mirror(variable->second, type);
    }
    if (producer.def->traits.view) {
      // Its operand may be a variable or a constant, which are not sent like values of the loop.
      return {Layout::plain(), materialize(producer.inputs[0], Layout::plain()), segment_};
    }
    const Material from = materials_.at(value).front();
    BufferUse& use = result_.uses[from.buffer.index()];
    use = use == BufferUse::Local ? BufferUse::Sent : use;
    const std::size_t bytes = from.layout.bytes(type);
    const BufferId to = newBuffer(producer.name, bytes, BufferUse::Received);
    const bool once = from.segment >= 0 && info(from.segment).oncePerRound();
    result_.transfers.push_back({producer.name, from.buffer, to, bytes, once});
    return {from.layout, to};
  }

  /// This round's copy of a variable that lives on another device.
  Material mirror(const std::string& variable, const TensorType& type) {
    if (isRemote(variable)) {
      return {Layout::plain(), windowOn(variable)};
    }
    const BufferId slice = stateBuffer(variable);
    if (uses_.isAssignedInLoop(variable)) {
      requireHome(variable, slice, "reads");
    }
    for (const Material& form : mirrors_[variable]) {
      if (deviceOf(form.buffer) == device()) {
        return form;
      }
    }
    const BufferId to = newBuffer(variable, type.bytes(), BufferUse::Mirror);
    result_.transfers.push_back({variable, slice, to, type.bytes(), true});
    mirrors_[variable].push_back({Layout::plain(), to});
    return mirrors_[variable].back();
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
      const std::vector<Material>& forms = materials_.at(v);
      const bool last = !forms.empty() && forms.front().layout.kind == Layout::Kind::ChannelsLast;
      layout = last ? forms.front().layout : Layout::plain();
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
    EmittedCall call{.segment = segment_, .elementwise = ops::isElementwise(op)};
    call.call = {.def = op.def,
                 .attrs = op.attrs,
                 .inputTypes = graph_.inputTypes(op),
                 .outputTypes = op.outputs,
                 .name = op.name};
    Choice choice = kernelsOf(call.segment).choose(call.call.view());
    applyLayoutRule(op, choice);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      call.call.inputs.push_back(materialize(op.inputs[i], choice.inputs[i]).value);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      const BufferId buffer =
          newBuffer(op.name, choice.outputs[i].bytes(op.outputs[i]), BufferUse::Local);
      materials_[op.out(i)] = {{choice.outputs[i], buffer, segment_}};
      call.call.outputs.push_back(buffer.value);
    }
    if (choice.scratchBytes > 0) {
      call.call.scratch =
          newBuffer(op.name + "/scratch", choice.scratchBytes, BufferUse::Scratch).value;
    }
    call.call.choice = std::move(choice);
    result_.calls.push_back(std::move(call));
  }

  void emitOutput(const ir::Output& output) {
    segment_ = segmentOf(output.value.op);
    BufferId buffer = materialize(output.value, Layout::plain());
    BufferUse& use = result_.uses[buffer.index()];
    // An exchange between replicas comes behind all kernels of its segment: no copy could.
    const bool exchanged = use == BufferUse::Received && !info(segment_).oncePerRound();
    if (use == BufferUse::Local || use == BufferUse::Sent) {
      use = BufferUse::Drain;
    } else if (!exchanged) {
      // An input, a variable, a constant, or a value drained under another name already.
      buffer = emitCopy(buffer, graph_.type(output.value), output.name, BufferUse::Drain);
    }
    result_.drains.push_back({output.name, graph_.type(output.value), buffer});
  }

  const ir::Graph& graph_;
  const parallel::SegmentPlan& plan_;
  const parallel::VariableHomes& homes_;
  const parallel::Streaming& streaming_;
  bool packsAll_;
  std::span<const device::KernelTable* const> kernels_;
  StatePlan& state_;
  std::vector<OpId> order_;
  EmitUses uses_;
  std::size_t position_ = 0;
  std::int32_t segment_ = 0;  // being emitted; index into result_.segments
  std::unordered_map<Value, std::vector<Material>> materials_;
  std::unordered_map<Value, std::string> variableOf_;
  std::unordered_map<std::string, BufferId> stateBuffers_;
  std::unordered_map<std::string, std::size_t> streamed_;  // into result_.streamed
  std::unordered_map<std::string, std::vector<Material>> packed_;
  std::unordered_map<std::string, std::vector<Material>> mirrors_;
  Emitted result_;
};

}  // namespace

Emitted emit(const EmitInput& input,
             std::span<const device::KernelTable* const> kernels,
             StatePlan& state) {
  return Emitter(input, kernels, state).run();
}

}  // namespace sluice::program
