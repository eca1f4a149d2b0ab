#include "sluice/program/loaded.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ops/custom_op.h"
#include "sluice/program/verify.h"

namespace sluice::program {
namespace {

using device::KernelCall;
using device::Layout;

constexpr std::size_t kMostSize = std::size_t{1} << 48;
constexpr std::size_t kMostAlignment = std::size_t{1} << 20;
constexpr std::size_t kMostDevices = 4096;
constexpr std::int32_t kMostMicroBatches = 1 << 24;
constexpr std::size_t kFewSlots = 1024;

template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) {
    raise<FileError>("{}", fmt::format(format, std::forward<Args>(args)...));
  }
}

bool isDevice(std::int32_t device, const Program& p) {
  return p.devices.has(device);
}

/// Numbers that no sum or product of the checks to come overflows with.
void requireSizes(const Program& p) {
  require(!p.devices.empty() && p.devices.size() <= kMostDevices,
          "it is for {} devices",
          p.devices.size());
  require(p.microBatchesPerRound >= 1 && p.microBatchesPerRound <= kMostMicroBatches,
          "it has {} micro-batches",
          p.microBatchesPerRound);
  require(p.messages.empty(), "it is a part of a program");
  std::size_t slots = 0;
  for (const Buffer& buffer : p.buffers) {
    require(std::has_single_bit(buffer.alignment) && buffer.alignment <= kMostAlignment,
            "buffer '{}' is aligned to {}",
            buffer.name,
            buffer.alignment);
    require(buffer.slots >= 1 && static_cast<std::size_t>(buffer.slots) <=
                                     kMostSize / std::max(buffer.slotStride(), std::size_t{1}),
            "buffer '{}' has {} slots of {} bytes",
            buffer.name,
            buffer.slots,
            buffer.bytes);
    slots += static_cast<std::size_t>(buffer.slots);
  }
  // Every slot has a task that names it.
  require(slots <= 4 * (p.slots.size() + p.buffers.size()) + kFewSlots,
          "its buffers have {} slots, its tasks name {}",
          slots,
          p.slots.size());
  for (const Lane& lane : p.lanes) {
    require(isDevice(lane.device, p) && lane.peer >= -1 &&
                (lane.peer == -1 || isDevice(lane.peer, p) || lane.kind == LaneKind::Fetch ||
                 lane.kind == LaneKind::Flush),
            "a lane is on device {} with peer {}",
            lane.device,
            lane.peer);
  }
  if (p.barriers) {
    for (const std::vector<std::int32_t>& group : p.barriers->groups) {
      require(std::ranges::all_of(group, [&](std::int32_t d) { return isDevice(d, p); }),
              "a barrier names a device that is not there");
    }
  }
}

/// The types that the op gives for these operands.
std::vector<TensorType> inferred(const KernelCall& call) {
  if (call.def == &ir::kAssign) {  // as a kernel it writes the variable's slice
    return call.inputTypes;
  }
  return call.def->infer({*call.def, call.attrs, call.inputTypes, {}});
}

void requireCall(const KernelCall& call) {
  const ir::OpDef& def = *call.def;
  const auto inputs = static_cast<int>(call.inputTypes.size());
  require(def.infer != nullptr || &def == &ir::kAssign, "op {} has no kernel", def.name);
  require(&def != &ops::kHostCall, "op '{}' calls a function of another process", call.name);
  require(inputs >= def.minInputs && (def.maxInputs == ir::kVariadic || inputs <= def.maxInputs),
          "op {} '{}' has {} operands",
          def.name,
          call.name,
          inputs);
  require(inferred(call) == call.outputTypes,
          "op {} '{}' has results of other types than its operands give",
          def.name,
          call.name);
}

void requireVariables(const Program& p, const StatePlan& plan) {
  for (const Buffer& buffer : p.buffers) {
    if (buffer.region != Region::State) {
      continue;
    }
    const PlacedVariable* placed = plan.find(buffer.name);
    require(placed != nullptr, "variable '{}' has no place", buffer.name);
    const std::vector<StateSlice> slices = placed->slices();
    require(buffer.slots == 1 && buffer.bytes == placed->variable.type.bytes() &&
                std::ranges::find(slices, StateSlice{buffer.device, buffer.offset}) != slices.end(),
            "variable '{}' is not where the state plan has it",
            buffer.name);
  }
}

/// Slices of the staging memory, which no two users share.
class StagingCheck {
 public:
  explicit StagingCheck(const Program& p) : p_(p), used_(p.devices.size()) {}

  void run() {
    for (const Port& feed : p_.feeds) {
      const Buffer& buffer = p_.buffer(feed.buffer);
      take(buffer.device,
           feed.staging,
           buffer.slotStride() * static_cast<std::size_t>(buffer.slots));
    }
    for (const Port& drain : p_.drains) {
      take(p_.buffer(drain.buffer).device, drain.staging, drain.type.bytes());
    }
    for (const Lane& lane : p_.lanes) {
      std::size_t largest = 0;
      for (const Task& task : lane.tasks) {
        if (task.kind == TaskKind::Transfer) {
          largest = std::max(largest, p_.transfers[task.subject].bytes);
        }
      }
      take(lane.device, lane.staging, largest);
    }
    for (auto& slices : used_) {
      std::ranges::sort(slices);
      for (std::size_t i = 1; i < slices.size(); ++i) {
        require(slices[i - 1].second <= slices[i].first, "two ports share staging memory");
      }
    }
  }

 private:
  void take(std::int32_t device, std::optional<std::size_t> offset, std::size_t bytes) {
    if (!offset || bytes == 0) {
      return;
    }
    require(isDevice(device, p_), "remote memory has no staging memory");
    const auto d = static_cast<std::size_t>(device);
    const std::size_t room = p_.devices[d].stagingBytes;
    require(*offset <= room && bytes <= room - *offset,
            "{} bytes at {} do not fit in {} bytes of staging memory",
            bytes,
            *offset,
            room);
    used_[d].emplace_back(*offset, *offset + bytes);
  }

  const Program& p_;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> used_;  // by device
};

void requireCollectives(const Program& p, std::int32_t replicas) {
  for (const Collective& collective : p.collectives) {
    const std::int64_t whole = collective.kind == CollectiveKind::SumPart
                                   ? collective.operand.shape.elements()
                                   : collective.type.shape.elements();
    const std::int64_t part = ir::partOf(whole, replicas);
    const std::int64_t from =
        collective.kind == CollectiveKind::Gather ? part : collective.operand.shape.elements();
    const std::int64_t to =
        collective.kind == CollectiveKind::SumPart ? part : collective.type.shape.elements();
    require(collective.operand.dtype == collective.type.dtype &&
                collective.operand.shape.elements() == from &&
                collective.type.shape.elements() == to &&
                (collective.kind != CollectiveKind::Sum || from == to),
            "collective '{}' makes {} from {} of {} replicas",
            collective.name,
            collective.type.str(),
            collective.operand.str(),
            replicas);
  }
}

bool followsOrIs(const Layout& layout, const TensorType& type) {
  const std::int64_t rank = type.shape.rank();
  return layout.isPlain() || (layout.kind == Layout::Kind::ChannelsLast && rank >= 3 && rank <= 5);
}

/// The choice with the layouts that lowering may give to a kernel that follows its operands.
void applyFollowed(const KernelCall& call, device::Choice& choice) {
  if (choice.rule != device::LayoutRule::Follow || call.outputTypes.empty()) {
    return;
  }
  const std::int64_t rank = call.outputTypes[0].shape.rank();
  const Layout& layout = call.choice.outputs.empty() ? Layout::plain() : call.choice.outputs[0];
  if (!followsOrIs(layout, call.outputTypes[0])) {
    return;
  }
  const auto apply = [&](const std::vector<TensorType>& types, std::vector<Layout>& layouts) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].shape.rank() == rank) {
        layouts[i] = layout;
      }
    }
  };
  apply(call.inputTypes, choice.inputs);
  apply(call.outputTypes, choice.outputs);
}

std::string keyOf(const TensorType& type, const Layout& layout) {
  return fmt::format("{} {} {}", type.str(), layout.opaqueBytes, layout.blob);
}

}  // namespace

void requireSound(const Program& program, const StatePlan& plan, std::int32_t replicas) {
  requireSizes(program);
  for (const Segment& segment : program.segments) {
    for (const KernelCall& call : segment.calls) {
      requireCall(call);
    }
  }
  try {
    verify(program);
  } catch (const InternalError& error) {  // a wrong program of a file is no bug of this library
    raise<FileError>("{}", error.message());
  }
  requireVariables(program, plan);
  StagingCheck(program).run();
  requireCollectives(program, replicas);
}

std::string otherChoice(const Program& program, std::span<const Target> targets) {
  std::set<std::string> opaque;  // layouts that a kernel of these devices wants
  std::vector<const KernelCall*> reorders;
  for (const Segment& segment : program.segments) {
    const auto d = static_cast<std::size_t>(segment.device);
    const device::KernelTable& kernels = *targets[std::min(d, targets.size() - 1)].kernels;
    for (const KernelCall& call : segment.calls) {
      device::Choice choice = kernels.choose(call.view());
      if (call.def == &device::kReorder) {
        choice.inputs = call.choice.inputs;
        choice.outputs = call.choice.outputs;
        reorders.push_back(&call);
      } else {
        applyFollowed(call, choice);
      }
      if (choice != call.choice) {
        return fmt::format("{} '{}' would run as '{}', not as '{}'{}",
                           call.def->name,
                           call.name,
                           choice.implementation,
                           call.choice.implementation,
                           choice.implementation == call.choice.implementation
                               ? ", and with other layouts or settings"
                               : "");
      }
      if (call.def == &device::kReorder) {
        continue;
      }
      for (std::size_t i = 0; i < choice.inputs.size(); ++i) {
        opaque.insert(keyOf(call.inputTypes[i], choice.inputs[i]));
      }
      for (std::size_t i = 0; i < choice.outputs.size(); ++i) {
        opaque.insert(keyOf(call.outputTypes[i], choice.outputs[i]));
      }
    }
  }
  for (const KernelCall* call : reorders) {
    for (const Layout& layout : {call->choice.inputs[0], call->choice.outputs[0]}) {
      const TensorType& type = call->inputTypes[0];
      if (!followsOrIs(layout, type) && !opaque.contains(keyOf(type, layout))) {
        return fmt::format("'{}' is stored in a layout that no kernel wants", call->name);
      }
    }
  }
  return {};
}

}  // namespace sluice::program
