#include "sluice/devices/cuda/cuda_segment.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cuda/compiler.h"
#include "sluice/devices/cuda/cuda_capture.h"
#include "sluice/devices/cuda/cuda_error.h"
#include "sluice/devices/cuda/kernel_table.h"

namespace sluice::devices::cuda {

int Faults::add(std::string name) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) {
    return static_cast<int>(found - names_.begin());
  }
  names_.push_back(std::move(name));
  return static_cast<int>(names_.size() - 1);
}

bool Faults::isSet() const {
  return std::atomic_ref<std::int32_t>(record().ready).load(std::memory_order_acquire) != 0;
}

std::exception_ptr Faults::read(bool take) {
  if (!isSet()) {
    return nullptr;
  }
  const std::scoped_lock lock(mutex_);
  const Fault fault = record();
  if (take) {
    record() = {};
  }
  const std::string& name = names_[static_cast<std::size_t>(fault.call)];
  try {
    if (fault.kind == 1) {
      raise<InvalidArgument>(
          "{}: index {} is out of range for an axis of extent {}", name, fault.value, fault.limit);
    }
    raise<InvalidArgument>(
        "{}: label {} is out of range for {} classes", name, fault.value, fault.limit);
  } catch (...) {
    return std::current_exception();
  }
}

namespace {

std::set<std::string> textsOf(std::span<const device::KernelCall> calls) {
  std::set<std::string> texts;
  for (const device::KernelCall& call : calls) {
    const KernelEntry& entry = entryOf(call.view(), call.choice);
    if (entry.isGenerated()) {
      if (Source source = entry.source(call.view(), call.choice); !source.isEmpty()) {
        texts.insert(std::move(source.text));
      }
    }
  }
  return texts;
}

/// The text of a call that writes variables or is element-wise, if it is small.
std::optional<Source> smallSource(const device::KernelCall& call) {
  const bool isUpdate =
      call.def->name == "assign" || call.def->name == "fused" || call.def->traits.elementwise;
  const KernelEntry& entry = entryOf(call.view(), call.choice);
  if (!isUpdate || !entry.isGenerated() || call.choice.scratchBytes > 0) {
    return std::nullopt;
  }
  Source source = entry.source(call.view(), call.choice);
  return isJoinable(source) ? std::optional(std::move(source)) : std::nullopt;
}

std::vector<std::size_t> bytesOf(std::span<const TensorType> types,
                                 std::span<const device::Layout> layouts) {
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < types.size(); ++i) {
    bytes.push_back(layouts[i].bytes(types[i]));
  }
  return bytes;
}

/// A call that launches nothing ends where those before it do.
Nodes withoutRepeats(Nodes nodes) {
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

}  // namespace

CudaSegment::CudaSegment(std::span<const device::KernelCall> calls,
                         const MakeContext& context,
                         Faults& faults)
    : context_(context), faults_(faults) {
  Modules::ofProcess().add(textsOf(calls), context);
  for (const device::KernelCall& call : calls) {
    std::string name = std::string(call.def->name) + " '" + call.name + "'";
    const int number = faults.add(name);
    try {
      calls_.push_back({makeKernel(call.view(), call.choice, context),
                        call.inputs,
                        call.outputs,
                        std::vector<void*>(call.inputs.size()),
                        std::vector<void*>(call.outputs.size()),
                        call.scratch,
                        std::move(name),
                        number,
                        bytesOf(call.inputTypes, call.choice.inputs),
                        bytesOf(call.outputTypes, call.choice.outputs),
                        call.choice.scratchBytes,
                        smallSource(call),
                        call.def->name == "assign"});
    } catch (Error& error) {
      error.at(call.name);
      throw;
    }
    readsRun_ = readsRun_ || calls_.back().kernel->readsRun();
  }
}

Access CudaSegment::accessOf(const Call& call, std::span<const device::Address> buffers) {
  Access access;
  const auto add = [&](std::vector<ByteRange>& ranges, std::int32_t buffer, std::size_t bytes) {
    if (buffer >= 0 && bytes > 0) {
      ranges.push_back(
          {reinterpret_cast<std::uintptr_t>(pointerTo(buffers[static_cast<std::size_t>(buffer)])),
           bytes});
    }
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    add(access.reads, call.inputs[i], call.inputBytes[i]);
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    add(access.writes, call.outputs[i], call.outputBytes[i]);
  }
  add(access.writes, call.scratch, call.scratchBytes);
  return access;
}

KernelRun CudaSegment::runOf(Call& call,
                             const Launch& how,
                             std::span<const device::Address> buffers) {
  const auto find = [&](std::span<const std::int32_t> indices, std::vector<void*>& pointers) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      pointers[i] = pointerTo(buffers[static_cast<std::size_t>(indices[i])]);
    }
    return std::span<void* const>(pointers);
  };
  return {.stream = how.stream,
          .inputs = find(call.inputs, call.in),
          .outputs = find(call.outputs, call.out),
          .scratch = call.scratch < 0 ? nullptr
                                      : pointerTo(buffers[static_cast<std::size_t>(call.scratch)]),
          .run = how.run,
          .fault = faults_.pointer(),
          .call = call.number};
}

void CudaSegment::launchCall(Call& call,
                             const Launch& how,
                             std::span<const device::Address> buffers) {
  try {
    call.kernel->launch(runOf(call, how, buffers));
    if (how.synchronise) {
      check(cudaStreamSynchronize(how.stream), "cudaStreamSynchronize");
    }
  } catch (Error& error) {
    error.at(call.name);
    throw;
  }
}

void CudaSegment::launchJoined(const Unit& unit,
                               const Launch& how,
                               std::span<const device::Address> buffers) {
  std::vector<KernelRun> runs;
  for (const std::size_t call : unit.calls) {
    runs.push_back(runOf(calls_[call], how, buffers));
  }
  try {
    unit.joined->launch(runs);
  } catch (Error& error) {
    error.at(fmt::format("{} kernels from {}", runs.size(), calls_[unit.calls.front()].name));
    throw;
  }
}

void CudaSegment::launch(const Launch& how, std::span<const device::Address> buffers) {
  for (Call& call : calls_) {
    launchCall(call, how, buffers);
  }
}

std::vector<CudaSegment::Unit> CudaSegment::unitsFor(
    std::span<const device::Address> buffers) const {
  std::vector<Access> accesses;
  std::vector<bool> isLast(calls_.size(), true);  // no later call has to do with it
  for (const Call& call : calls_) {
    accesses.push_back(accessOf(call, buffers));
  }
  for (const std::vector<std::size_t>& earlier : launchOrder(accesses)) {
    for (const std::size_t call : earlier) {
      isLast[call] = false;
    }
  }
  // What others wait for is left alone, so that nobody waits for more than before.
  std::vector<std::size_t> pointers(calls_.size(), 0);
  for (std::size_t k = 0; k < calls_.size(); ++k) {
    if (calls_[k].small && (isLast[k] || calls_[k].accumulates)) {
      pointers[k] = calls_[k].inputs.size() + calls_[k].outputs.size();
    }
  }
  std::vector<Unit> units;
  for (std::vector<std::size_t>& group : joinedOrder(accesses, pointers)) {
    Unit unit{.calls = std::move(group), .joined = std::nullopt};
    std::vector<JoinedPart> parts;
    for (const std::size_t call : unit.calls) {
      if (unit.calls.size() > 1) {
        parts.push_back({&*calls_[call].small, pointers[call]});
      }
    }
    if (!parts.empty()) {
      unit.joined.emplace(parts, context_);
    }
    units.push_back(std::move(unit));
  }
  return units;
}

std::vector<Access> CudaSegment::accessesOf(std::span<const Unit> units,
                                            std::span<const device::Address> buffers) const {
  std::vector<Access> accesses(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const std::size_t call : units[u].calls) {
      const Access access = accessOf(calls_[call], buffers);
      std::ranges::copy(access.reads, std::back_inserter(accesses[u].reads));
      std::ranges::copy(access.writes, std::back_inserter(accesses[u].writes));
    }
  }
  return accesses;
}

void CudaSegment::record(const Launch& how,
                         std::span<const device::Address> buffers,
                         std::span<const Unit> units) {
  const std::vector<std::vector<std::size_t>> order = launchOrder(accessesOf(units, buffers));
  const Nodes begin = lastNodes(how.stream);
  std::vector<Nodes> ends(units.size());
  std::vector<bool> isLast(units.size(), true);  // no later unit follows it
  for (std::size_t u = 0; u < units.size(); ++u) {
    Nodes before = order[u].empty() ? begin : Nodes();
    for (const std::size_t earlier : order[u]) {
      isLast[earlier] = false;
      before.insert(before.end(), ends[earlier].begin(), ends[earlier].end());
    }
    continueAfter(how.stream, withoutRepeats(std::move(before)));
    if (units[u].joined) {
      launchJoined(units[u], how, buffers);
    } else {
      launchCall(calls_[units[u].calls.front()], how, buffers);
    }
    ends[u] = lastNodes(how.stream);
  }
  Nodes all;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (isLast[u]) {
      all.insert(all.end(), ends[u].begin(), ends[u].end());
    }
  }
  if (!units.empty()) {
    continueAfter(how.stream, withoutRepeats(std::move(all)));
  }
}

}  // namespace sluice::devices::cuda
