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
      seed_(seed),
      state_(devices_.size()),
      transient_(devices_.size()),
      remoteState_(remotePath.empty() ? "" : remotePath + ".state", RemoteMemory::Undo::Yes),
      remoteTransient_(remotePath.empty() ? "" : remotePath + ".activations") {
  for (device::Device* device : devices_) {
    queues_.push_back(device->makeQueue());
  }
}

void ModelState::addDevice(device::Device* device) {
  devices_.push_back(device);
  queues_.push_back(device->makeQueue());
  state_.emplace_back();
  transient_.emplace_back();
}

void ModelState::adopt(program::StatePlan plan) {
  std::vector<device::Memory> grown(devices_.size());
  std::vector<std::unique_ptr<device::Queue>> queues;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    queues.push_back(devices_[d]->makeQueue());
    const std::size_t bytes = plan.bytes(static_cast<std::int32_t>(d));
    if (bytes > state_[d].bytes()) {
      grown[d] = devices_[d]->allocate(bytes);
      queues[d]->copy(grown[d].data(), state_[d].data(), state_[d].bytes());
    }
  }
  remoteState_.grow(plan.bytes(program::kRemote));
  for (const program::PlacedVariable& placed : plan.variables()) {
    if (plan_.find(placed.variable.name) != nullptr) {
      continue;
    }
    if (placed.device == program::kRemote) {
      store({placed.device, placed.offset}, firstValue(placed.variable, seed_));
      continue;
    }
    const auto d = static_cast<std::size_t>(placed.device);
    const device::Memory& memory = grown[d].data() != nullptr ? grown[d] : state_[d];
    const HostTensor value = firstValue(placed.variable, seed_);
    queues[d]->copy(memory.data() + placed.offset, value.bytes(), value.byteCount());
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    queues[d]->finish();
    if (grown[d].data() != nullptr) {
      state_[d] = std::move(grown[d]);
    }
  }
  plan_ = std::move(plan);
  ++generation_;
}

void ModelState::bringTo(const program::Program& program) {
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
    const program::StateSlice wanted{buffer.device, buffer.offset};
    const program::StateSlice from = currentSlice(*placed);
    const auto used = static_cast<std::size_t>(std::ranges::find(slices, wanted) - slices.begin());
    std::vector<bool>& current = current_[buffer.name];
    current.resize(slices.size(), false);
    current[0] = current[0] || std::ranges::find(current, true) == current.end();
    if (!current[used]) {
      const auto queue = devices_[static_cast<std::size_t>(wanted.device)]->makeQueue();
      queue->copy(address(wanted), address(from), placed->variable.type.bytes());
      queue->finish();
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
  if (bytes > transient_[d].bytes()) {
    transient_[d] = {};  // free first: the budget has no room for both
    transient_[d] = devices_[d]->allocate(bytes);
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

std::byte* ModelState::address(const program::StateSlice& slice) const {
  const auto d = static_cast<std::size_t>(slice.device);
  return (isAttached() ? state_[d].data() : saved_[d].get()) + slice.offset;
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
  HostTensor value(placed.variable.type);
  load(currentSlice(placed), value);
  return value;
}

void ModelState::load(const program::StateSlice& slice, HostTensor& value) const {
  if (slice.device == program::kRemote) {
    remoteState_.read(slice.offset, static_cast<std::byte*>(value.bytes()), value.byteCount());
    return;
  }
  const auto queue = devices_[static_cast<std::size_t>(slice.device)]->makeQueue();
  queue->copy(value.bytes(), address(slice), value.byteCount());
  queue->finish();
}

void ModelState::store(const program::StateSlice& slice, const HostTensor& value) {
  if (slice.device == program::kRemote) {
    remoteState_.write(
        slice.offset, static_cast<const std::byte*>(value.bytes()), value.byteCount());
    return;
  }
  const auto queue = devices_[static_cast<std::size_t>(slice.device)]->makeQueue();
  queue->copy(address(slice), value.bytes(), value.byteCount());
  queue->finish();
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
}

void ModelState::beginStep(const WrittenState& written, Copies copies) {
  copied_ = copies == Copies::Yes || hasJournal();
  if (!copied_) {
    return;
  }
  remoteState_.keep();
  before_.resize(written.bytes);
  std::byte* to = before_.data();
  for (const WrittenSlice& slice : written.slices) {
    if (slice.device != program::kRemote) {
      queueOf(slice.device).copy(to, address({slice.device, slice.offset}), slice.bytes);
    } else if (!hasJournal()) {
      remoteState_.read(slice.offset, to, slice.bytes);
    }
    to += slice.bytes;
  }
  finishCopies();
}

void ModelState::undoStep(const WrittenState& written) {
  remoteState_.undo();
  const std::byte* from = before_.data();
  for (const WrittenSlice& slice : written.slices) {
    if (slice.device != program::kRemote) {
      queueOf(slice.device).copy(address({slice.device, slice.offset}), from, slice.bytes);
    } else if (!hasJournal()) {
      remoteState_.write(slice.offset, from, slice.bytes);
    }
    from += slice.bytes;
  }
  finishCopies();
}

void ModelState::finishCopies() {
  for (const auto& queue : queues_) {
    queue->finish();
  }
}

void ModelState::detach() {
  if (!isAttached()) {
    return;
  }
  std::vector<std::unique_ptr<std::byte[]>> saved;
  std::vector<std::size_t> bytes;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    bytes.push_back(state_[d].bytes());
    saved.push_back(std::make_unique<std::byte[]>(bytes[d]));
    const auto queue = devices_[d]->makeQueue();
    queue->copy(saved[d].get(), state_[d].data(), bytes[d]);
    queue->finish();
  }
  saved_ = std::move(saved);
  savedBytes_ = std::move(bytes);
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    state_[d] = {};
    transient_[d] = {};
  }
  ++generation_;
}

void ModelState::attach() {
  if (isAttached()) {
    return;
  }
  std::vector<device::Memory> memory(devices_.size());
  for (std::size_t d = 0; d < saved_.size(); ++d) {
    if (savedBytes_[d] > 0) {
      memory[d] = devices_[d]->allocate(savedBytes_[d]);
      const auto queue = devices_[d]->makeQueue();
      queue->copy(memory[d].data(), saved_[d].get(), savedBytes_[d]);
      queue->finish();
    }
  }
  state_ = std::move(memory);
  saved_.clear();
  ++generation_;
}

std::span<std::byte> ModelState::state(std::int32_t device) const {
  const device::Memory& memory = state_[static_cast<std::size_t>(device)];
  return {memory.data(), memory.bytes()};
}

std::span<std::byte> ModelState::transient(std::int32_t device) const {
  const device::Memory& memory = transient_[static_cast<std::size_t>(device)];
  return {memory.data(), memory.bytes()};
}

}  // namespace sluice::runtime
