#include "sluice/runtime/model_state.h"

#include <algorithm>
#include <set>

#include "sluice/base/error.h"

namespace sluice::runtime {
namespace {

/// Who knows all replicas writes what each has a part of.
HostTensor firstValue(const ir::Variable& variable, std::uint64_t seed) {
  return variable.split ? HostTensor::full(variable.type, 0) : ir::initialValue(variable, seed);
}

}  // namespace

ModelState::ModelState(std::vector<device::Device*> devices,
                       std::uint64_t seed,
                       const std::string& remotePath)
    : devices_(std::move(devices)),
      others_(devices_.size(), false),
      seed_(seed),
      state_(devices_.size()),
      transient_(devices_.size()),
      staging_(devices_.size()),
      remoteState_(remotePath.empty() ? "" : remotePath + ".state", RemoteMemory::Undo::Yes),
      remoteTransient_(remotePath.empty() ? "" : remotePath + ".activations") {
  for (device::Device* device : devices_) {
    queues_.push_back(device->makeQueue());
  }
  lockRemote();
}

/// One lock serves all devices of a kind.
void ModelState::lockRemote() {
  const auto found = std::ranges::find_if(
      devices_, [](const device::Device* device) { return device->info().copyEngines > 0; });
  if (found != devices_.end()) {
    remoteState_.copiedBy(**found);
    remoteTransient_.copiedBy(**found);
  }
}

void ModelState::addDevice(device::Device* device) {
  devices_.push_back(device);
  queues_.push_back(device->makeQueue());
  others_.push_back(false);
  state_.emplace_back();
  transient_.emplace_back();
  staging_.emplace_back();
  lockRemote();
}

void ModelState::leaveToOthers(std::int32_t device) {
  const auto d = static_cast<std::size_t>(device);
  SLUICE_CHECK(others_[d] || state_[d] == nullptr, "device {} has variables already", device);
  others_[d] = true;
}

void ModelState::adopt(program::StatePlan plan) {
  std::vector<std::unique_ptr<device::Memory>> grown(devices_.size());
  awaitCopies([&] {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const std::size_t bytes = plan.bytes(static_cast<std::int32_t>(d));
      const std::size_t before = state_[d] != nullptr ? state_[d]->bytes() : 0;
      if (bytes > before && !others_[d]) {
        grown[d] = devices_[d]->allocate(bytes);
      }
      if (grown[d] != nullptr && before > 0) {
        queues_[d]->copy(grown[d]->at(), state_[d]->at(), before);
      }
    }
    remoteState_.grow(plan.bytes(program::kRemote));
  });
  std::set<std::string, std::less<>> added;
  for (const program::PlacedVariable& placed : plan.variables()) {
    if (plan_.find(placed.variable.name) == nullptr) {
      added.insert(placed.variable.name);
    }
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (grown[d] != nullptr) {
      state_[d] = std::move(grown[d]);
    }
  }
  plan_ = std::move(plan);
  unwritten_.merge(added);
  ++generation_;
}

void ModelState::writeFirstValues() {
  if (unwritten_.empty()) {
    return;
  }
  awaitCopies([&] {
    for (const std::string& name : unwritten_) {
      const program::PlacedVariable& placed = require(name);
      if (isHere(placed.device)) {
        store({placed.device, placed.offset}, firstValue(placed.variable, seed_));
      }
    }
  });
  unwritten_.clear();
}

void ModelState::bringTo(const program::Program& program) {
  writeFirstValues();
  std::set<std::int32_t> written;
  for (const program::Segment& segment : program.segments) {
    for (const device::KernelCall& call : segment.calls) {
      written.insert(call.outputs.begin(), call.outputs.end());
    }
  }
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const program::Buffer& buffer = program.buffers[b];
    const program::PlacedVariable* placed =
        buffer.region == program::Region::State ? plan_.find(buffer.name) : nullptr;
    if (placed == nullptr || placed->more.empty()) {
      continue;
    }
    const std::vector<program::StateSlice> slices = placed->slices();
    if (!std::ranges::all_of(slices, [&](const auto& slice) { return isHere(slice.device); })) {
      raise<Unsupported>(
          "variable '{}' is written on several devices, and they belong to different processes: "
          "place it on one of them",
          buffer.name);
    }
    const program::StateSlice wanted{buffer.device, buffer.offset};
    const program::StateSlice from = currentSlice(*placed);
    const auto used = static_cast<std::size_t>(std::ranges::find(slices, wanted) - slices.begin());
    std::vector<bool>& current = current_[buffer.name];
    current.resize(slices.size(), false);
    current[0] = current[0] || std::ranges::find(current, true) == current.end();
    if (!current[used]) {
      HostTensor value(placed->variable.type);
      load(from, value);
      store(wanted, value);
    }
    if (written.contains(static_cast<std::int32_t>(b))) {
      current.assign(slices.size(), false);
    }
    current[used] = true;
  }
}

void ModelState::reserveTransient(std::int32_t device, std::size_t bytes) {
  if (device == program::kRemote) {
    remoteTransient_.grow(bytes);
    return;
  }
  const auto d = static_cast<std::size_t>(device);
  if (bytes > (transient_[d] != nullptr ? transient_[d]->bytes() : 0)) {
    transient_[d].reset();  // free first: the budget has no room for both
    transient_[d] = devices_[d]->allocate(bytes);
    ++generation_;
  }
}

void ModelState::reserveStaging(std::int32_t device, std::size_t bytes) {
  const auto d = static_cast<std::size_t>(device);
  if (bytes > (staging_[d] != nullptr ? staging_[d]->bytes() : 0)) {
    staging_[d].reset();
    staging_[d] = devices_[d]->allocatePinned(bytes);
    ++generation_;
  }
}

const program::PlacedVariable& ModelState::require(std::string_view variable) const {
  const program::PlacedVariable* placed = plan_.find(variable);
  if (placed == nullptr) {
    raise<InvalidArgument>("the model has no variable '{}'", variable);
  }
  return *placed;
}

device::Address ModelState::address(const program::StateSlice& slice) const {
  return at(isAttached() ? state_ : saved_, slice.device)->at(slice.offset);
}

program::StateSlice ModelState::currentSlice(const program::PlacedVariable& placed) const {
  const auto known = current_.find(placed.variable.name);
  if (known == current_.end()) {
    return {placed.device, placed.offset};
  }
  const auto current = std::ranges::find(known->second, true) - known->second.begin();
  return placed.slices()[static_cast<std::size_t>(current)];
}

HostTensor ModelState::read(std::string_view variable) const {
  const program::PlacedVariable& placed = require(variable);
  if (unwritten_.contains(variable)) {
    return firstValue(placed.variable, seed_);
  }
  HostTensor value(placed.variable.type);
  load(currentSlice(placed), value);
  return value;
}

void ModelState::load(const program::StateSlice& slice, HostTensor& value) const {
  if (slice.device == program::kRemote) {
    remoteState_.read(slice.offset, static_cast<std::byte*>(value.bytes()), value.byteCount());
    return;
  }
  SLUICE_CHECK(isHere(slice.device), "device {} is that of another process", slice.device);
  device::copyOut(queueOf(slice.device), value.bytes(), address(slice), value.byteCount());
}

void ModelState::store(const program::StateSlice& slice, const HostTensor& value) {
  ++writes_;
  if (!isHere(slice.device)) {
    return;
  }
  if (slice.device == program::kRemote) {
    remoteState_.write(
        slice.offset, static_cast<const std::byte*>(value.bytes()), value.byteCount());
    return;
  }
  device::copyIn(queueOf(slice.device), address(slice), value.bytes(), value.byteCount());
}

void ModelState::write(std::string_view variable, const HostTensor& value) {
  const program::PlacedVariable& placed = require(variable);
  if (value.type() != placed.variable.type) {
    raise<InvalidArgument>("variable '{}' is {}, the value given {}",
                           variable,
                           placed.variable.type.str(),
                           value.type().str());
  }
  for (const program::StateSlice& slice : placed.slices()) {
    store(slice, value);
  }
  if (const auto found = unwritten_.find(variable); found != unwritten_.end()) {
    unwritten_.erase(found);
  }
}

void ModelState::beginStep(const WrittenState& written, Copies copies) {
  writeFirstValues();
  copied_ = copies == Copies::Yes || hasJournal();
  if (!copied_) {
    return;
  }
  remoteState_.keep();
  before_.resize(written.bytes);
  const device::HostMemory copy(before_.data(), before_.size());
  awaitCopies([&] {
    std::size_t at = 0;
    for (const WrittenSlice& slice : written.slices) {
      if (!isHere(slice.device)) {
        at += slice.bytes;
        continue;
      }
      if (slice.device != program::kRemote) {
        queueOf(slice.device).copy(copy.at(at), address({slice.device, slice.offset}), slice.bytes);
      } else if (!hasJournal()) {
        remoteState_.read(slice.offset, before_.data() + at, slice.bytes);
      }
      at += slice.bytes;
    }
  });
}

void ModelState::undoStep(const WrittenState& written) {
  ++writes_;
  remoteState_.undo();
  const device::HostMemory copy(before_.data(), before_.size());
  awaitCopies([&] {
    std::size_t at = 0;
    for (const WrittenSlice& slice : written.slices) {
      if (!isHere(slice.device)) {
        at += slice.bytes;
        continue;
      }
      if (slice.device != program::kRemote) {
        queueOf(slice.device).copy(address({slice.device, slice.offset}), copy.at(at), slice.bytes);
      } else if (!hasJournal()) {
        remoteState_.write(slice.offset, before_.data() + at, slice.bytes);
      }
      at += slice.bytes;
    }
  });
}

void ModelState::awaitCopies(FunctionRef<void()> issue) {
  std::exception_ptr failure;
  const auto keepFailure = [&](const auto& f) {
    try {
      f();
    } catch (...) {
      failure = failure == nullptr ? std::current_exception() : failure;
    }
  };
  keepFailure(issue);
  for (const auto& queue : queues_) {
    keepFailure([&] { queue->finish(); });
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
}

void ModelState::detach() {
  if (!isAttached()) {
    return;
  }
  writeFirstValues();
  std::vector<std::unique_ptr<device::Memory>> saved(devices_.size());
  awaitCopies([&] {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const std::size_t bytes = state_[d] != nullptr ? state_[d]->bytes() : 0;
      saved[d] = device::allocateOnHost(device::MemoryKind::Host, bytes, devices_[d]->info());
      if (bytes > 0) {
        queues_[d]->copy(saved[d]->at(), state_[d]->at(), bytes);
      }
    }
  });
  saved_ = std::move(saved);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    state_[d].reset();
    transient_[d].reset();
    staging_[d].reset();
  }
  ++generation_;
}

void ModelState::attach() {
  if (isAttached()) {
    return;
  }
  std::vector<std::unique_ptr<device::Memory>> memory(devices_.size());
  awaitCopies([&] {
    for (std::size_t d = 0; d < saved_.size(); ++d) {
      if (saved_[d]->bytes() > 0) {
        memory[d] = devices_[d]->allocate(saved_[d]->bytes());
        queues_[d]->copy(memory[d]->at(), saved_[d]->at(), saved_[d]->bytes());
      }
    }
  });
  state_ = std::move(memory);
  saved_.clear();
  ++generation_;
}

}  // namespace sluice::runtime
