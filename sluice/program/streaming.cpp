#include "sluice/program/streaming.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

namespace sluice::program {
namespace {

/// An accumulating assign adds to what its output holds.
bool addsToOutput(const device::KernelCall& call) {
  return call.def == &ir::kAssign && call.attrs.text("mode") != "set";
}

using parallel::SegmentInfo;
using parallel::Streaming;
using parallel::StreamOrder;

/// How one segment uses a buffer.
struct SegmentUse {
  std::int32_t segment = 0;
  bool writes = false;
  bool readsFirst = false;  ///< finds a use in what was there before
};

/// Segments that use one copy.
struct Window {
  BufferId buffer;
  std::vector<SegmentUse> uses;
};

/// Inference without phases keeps no activation for later.
bool streamsActivations(const Streaming& streaming) {
  const bool leave = streaming.hasPhases() || !streaming.travel.empty();
  return leave && (streaming.activations || !streaming.tensors.empty());
}

class Streams {
 public:
  Streams(Emitted& emitted, const Streaming& streaming)
      : emitted_(emitted),
        streaming_(streaming),
        uses_(emitted.buffers.size()),
        elements_(emitted.buffers.size(), 0) {
    for (const EmittedCall& e : emitted.calls) {
      noteUses(e);
    }
    noteReductions();
    Table<std::int32_t> last(1, -1);
    before_.assign(emitted.segments.size(), -1);
    for (const EmittedCall& e : emitted.calls) {
      const auto device = static_cast<std::size_t>(infoOf(e.segment).device);
      last.resize(std::max(last.size(), device + 1), -1);
      if (last[device] != e.segment) {
        before_[e.segment] = last[device];
        last[device] = e.segment;
      }
    }
  }

  void run() {
    for (const StreamedVariable& variable : emitted_.streamed) {
      streamVariable(variable);
    }
    if (streamsActivations(streaming_)) {
      const std::size_t before = emitted_.buffers.size();
      for (std::size_t b = 0; b < before; ++b) {
        if (isActivation(b)) {
          streamActivation(BufferId(b));
        }
      }
    }
    rename();
  }

 private:
  const SegmentInfo& infoOf(std::int32_t segment) const { return emitted_.segments[segment]; }

  void noteUses(const EmittedCall& e) {
    const auto use = [&](std::int32_t b) -> std::pair<SegmentUse&, bool> {
      std::vector<SegmentUse>& uses = uses_[b];
      const bool isNew = uses.empty() || uses.back().segment != e.segment;
      if (isNew) {
        uses.push_back({.segment = e.segment});
      }
      return {uses.back(), isNew};
    };
    for (std::size_t i = 0; i < e.call.inputs.size(); ++i) {
      const std::int32_t b = e.call.inputs[i];
      elements_[b] = e.call.inputTypes[i].shape.elements();
      const auto [at, isNew] = use(b);
      at.readsFirst = at.readsFirst || isNew;
    }
    for (const std::int32_t b : e.call.outputs) {
      const auto [at, isNew] = use(b);
      at.writes = true;
      at.readsFirst = at.readsFirst || (isNew && addsToOutput(e.call));
    }
  }

  /// A sum of the update over replicas reads its operand for the kernels that read the sum; one of
  /// the loop reads it right behind those that make it.
  void noteReductions() {
    for (const Collective& collective : emitted_.collectives) {
      const std::vector<SegmentUse>& readers = uses_[collective.to.index()];
      if (readers.empty() || !collective.oncePerRound) {
        continue;
      }
      std::vector<SegmentUse>& uses = uses_[collective.from.index()];
      const std::int32_t segment = readers[0].segment;
      const auto at = std::ranges::lower_bound(uses, segment, {}, &SegmentUse::segment);
      if (at == uses.end() || at->segment != segment) {
        uses.insert(at, {.segment = segment, .readsFirst = true});
      }
    }
  }

  bool isLate(const SegmentInfo& info) const {
    return info.kind == SegmentKind::Update && !info.inLoop;
  }
  bool isInLoop(const SegmentInfo& info) const { return !info.oncePerRound() || info.inLoop; }

  bool isForward(const SegmentInfo& info) const {
    return info.kind == SegmentKind::Forward || (info.kind == SegmentKind::Pack && info.part == 0);
  }

  /// The phase in which a segment of the loop runs.
  std::int32_t phaseOf(const SegmentInfo& info) const {
    const auto stage = static_cast<std::size_t>(info.stage);
    return isForward(info) ? streaming_.forwardPhase[stage] : streaming_.backwardPhase[stage];
  }

  /// Whether a copy of a variable stays on the device from one segment to the next one that uses
  /// it.
  bool stays(std::int32_t from, std::int32_t to) const {
    const SegmentInfo& a = infoOf(from);
    const SegmentInfo& b = infoOf(to);
    if (isLate(b) && (isLate(a) || streaming_.order != StreamOrder::WholeLoop)) {
      // Behind the loop every bucket has its turn; with phases the loop has let go of it by then.
      return isLate(a) && before_[to] == from;
    }
    return !streaming_.hasPhases() || std::abs(phaseOf(b) - phaseOf(a)) <= parallel::kLivePhases;
  }

  /// The same of an activation.
  bool activationStays(std::int32_t from, std::int32_t to) const {
    if (streaming_.hasPhases()) {
      return stays(from, to);
    }
    const SegmentInfo& a = infoOf(from);
    const bool turns = isForward(a) && !isForward(infoOf(to));
    return !turns || !travelOf(a).leaves();
  }

  const parallel::TravelSlots& travelOf(const SegmentInfo& info) const {
    return streaming_.travel[static_cast<std::size_t>(info.stage)];
  }

  using Stays = bool (Streams::*)(std::int32_t from, std::int32_t to) const;
  std::vector<Window> windowsOf(BufferId buffer, Stays staysOn) const {
    std::vector<Window> windows;
    for (const SegmentUse& use : uses_[buffer.index()]) {
      if (windows.empty() || !(this->*staysOn)(windows.back().uses.back().segment, use.segment)) {
        windows.push_back({buffer, {}});
      }
      windows.back().uses.push_back(use);
    }
    return windows;
  }

  bool isPerMicroBatch(const Window& window) const {
    return streaming_.order == StreamOrder::MicroBatchMajor &&
           isInLoop(infoOf(window.uses[0].segment));
  }

  void streamVariable(const StreamedVariable& variable) {
    std::vector<Window> windows;
    for (const BufferId buffer : variable.windows) {
      std::vector<Window> more = windowsOf(buffer, &Streams::stays);
      windows.insert(windows.end(), more.begin(), more.end());
    }
    std::ranges::stable_sort(windows, {}, [](const Window& w) { return w.uses[0].segment; });
    std::vector<BufferId> taken;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      Window& window = windows[i];
      if (std::ranges::find(taken, window.buffer) != taken.end()) {
        const BufferId copy = copyOf(window.buffer, BufferUse::Window);
        redirect(window, copy);
        window.buffer = copy;
      }
      taken.push_back(window.buffer);
    }
    // By when they happen: windows of several devices may lie side by side.
    std::vector<TimedTransfer> transfers;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      addVariableTransfers(variable, windows, i, transfers);
    }
    std::ranges::stable_sort(transfers, {}, &TimedTransfer::when);
    for (TimedTransfer& timed : transfers) {
      emitted_.transfers.push_back(std::move(timed.transfer));
    }
  }

  struct TimedTransfer {
    std::pair<std::int32_t, bool> when;  ///< segment; false: before it, true: behind it
    Transfer transfer;
  };

  void addVariableTransfers(const StreamedVariable& variable,
                            const std::vector<Window>& windows,
                            std::size_t i,
                            std::vector<TimedTransfer>& transfers) const {
    const Window& window = windows[i];
    const bool once = !isPerMicroBatch(window);
    const Buffer& remote = emitted_.buffers[variable.remote.index()];
    const bool fetched = window.uses[0].readsFirst && !(variable.beginsAnew && once && i == 0);
    std::int32_t lastWrite = -1;
    for (const SegmentUse& use : window.uses) {
      lastWrite = use.writes ? use.segment : lastWrite;
    }
    const bool last = i + 1 == windows.size();
    if (fetched) {
      transfers.push_back({{window.uses[0].segment, false},
                           {remote.name, variable.remote, window.buffer, remote.bytes, once}});
    }
    if (lastWrite >= 0 && !(variable.beginsAnew && once && last)) {
      transfers.push_back(
          {{lastWrite, true}, {remote.name, window.buffer, variable.remote, remote.bytes, once}});
    }
  }

  bool isActivation(std::size_t b) const {
    const BufferUse use = emitted_.uses[b];
    const bool kind = use == BufferUse::Local || use == BufferUse::Sent || use == BufferUse::Feed ||
                      use == BufferUse::Drain || use == BufferUse::Received;
    return kind && std::ranges::all_of(uses_[b], [&](const SegmentUse& each) {
             return !infoOf(each.segment).oncePerRound();
           });
  }

  void streamActivation(BufferId buffer) {
    const std::vector<Window> windows = windowsOf(buffer, &Streams::activationStays);
    if (windows.size() < 2 || staysOnChip(buffer)) {
      return;
    }
    const Buffer local = emitted_.buffers[buffer.index()];
    const BufferId remote = copyOf(buffer, BufferUse::Remote);
    // With phases, memory is planned by phase, so slots need no limit.
    const parallel::TravelSlots slots = streaming_.hasPhases()
                                            ? parallel::TravelSlots{2, 2}
                                            : travelOf(infoOf(windows[0].uses.back().segment));
    emitted_.buffers[remote.index()].device = kRemote;
    emitted_.transfers.push_back({local.name, buffer, remote, local.bytes, false});
    limitSlots(buffer, slots.out);
    for (std::size_t i = 1; i < windows.size(); ++i) {
      const BufferId copy = copyOf(buffer, BufferUse::Received);
      limitSlots(copy, slots.in);
      redirect(windows[i], copy);
      emitted_.transfers.push_back({local.name, remote, copy, local.bytes, false});
    }
  }

  void limitSlots(BufferId buffer, std::int32_t slots) {
    if (slots == 1) {
      emitted_.withoutLookahead.insert(buffer);
    }
  }

  bool staysOnChip(BufferId buffer) const {
    const std::string& name = emitted_.buffers[buffer.index()].name;
    auto own = streaming_.tensors.find(name);
    if (own ==
        streaming_.tensors.end()) {  // numbered where values are traced: transforms/number_names.h
      own = streaming_.tensors.find(name.substr(0, name.rfind('#')));
    }
    return own != streaming_.tensors.end()
               ? own->second
               : !streaming_.activations ||
                     elements_[buffer.index()] < streaming_.minActivationElements;
  }

  BufferId copyOf(BufferId buffer, BufferUse use) {
    Buffer copy = emitted_.buffers[buffer.index()];
    emitted_.buffers.push_back(std::move(copy));
    emitted_.uses.push_back(use);
    return BufferId(emitted_.buffers.size() - 1);
  }

  void redirect(const Window& window, BufferId to) {
    for (const SegmentUse& use : window.uses) {
      renames_.push_back({use.segment, window.buffer.value, to.value});
    }
  }

  void rename() {
    std::ranges::sort(renames_);
    for (Collective& collective : emitted_.collectives) {
      const std::vector<SegmentUse>& readers = uses_[collective.to.index()];
      const bool late = collective.oncePerRound && !readers.empty();
      const std::int32_t segment = late ? readers[0].segment : -1;
      collective.from = BufferId(renamed(segment, collective.from.value));
    }
    for (EmittedCall& e : emitted_.calls) {
      for (std::vector<std::int32_t>* list : {&e.call.inputs, &e.call.outputs}) {
        for (std::int32_t& b : *list) {
          b = renamed(e.segment, b);
        }
      }
    }
  }

  /// What the segment calls the buffer now.
  std::int32_t renamed(std::int32_t segment, std::int32_t b) const {
    const auto found = std::ranges::lower_bound(renames_, Rename{segment, b, 0});
    return found != renames_.end() && found->segment == segment && found->from == b ? found->to : b;
  }

  struct Rename {
    std::int32_t segment = 0;
    std::int32_t from = 0;
    std::int32_t to = 0;
    auto operator<=>(const Rename&) const = default;
  };

  Emitted& emitted_;
  const Streaming& streaming_;
  Table<std::vector<SegmentUse>> uses_;  // by buffer, in the order of the round
  Table<std::int64_t> elements_;         // by buffer
  Table<std::int32_t> before_;           // by segment: the one before on its device
  std::vector<Rename> renames_;
};

}  // namespace

void addStreams(Emitted& emitted, const Streaming& streaming) {
  if (streamsActivations(streaming) || !emitted.streamed.empty()) {
    Streams(emitted, streaming).run();
  }
}

}  // namespace sluice::program
