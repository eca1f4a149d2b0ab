#include <algorithm>
#include <cstring>

#include "sluice/base/error.h"
#include "sluice/data/queues.h"

namespace sluice::data {

OutfeedQueue::OutfeedQueue(OutfeedMode mode, std::int64_t capacity)
    : mode_(mode), capacity_(capacity) {
  if (capacity < 0) {
    raise<InvalidArgument>("outfeed: the capacity must not be negative, got {}", capacity);
  }
}

void OutfeedQueue::define(const Types& types,
                          std::int64_t replicas,
                          const std::vector<std::string>& names) {
  const std::scoped_lock lock(mutex_);
  if (types.empty() || replicas < 1 || (!names.empty() && names.size() != types.size())) {
    raise<InvalidArgument>("outfeed: cannot enqueue {} tensors with {} names of {} replicas",
                           types.size(),
                           names.size(),
                           replicas);
  }
  if (defined_ && (types != types_ || replicas != replicas_ || names != names_)) {
    raise<InvalidArgument>(
        "outfeed: something else is enqueued to this queue already; every model needs its own");
  }
  if (!defined_) {
    types_ = types;
    replicas_ = replicas;
    names_ = names;
    counts_.assign(types.size() * static_cast<std::size_t>(replicas), 0);
    defined_ = true;
  }
}

void OutfeedQueue::begin() {
  const std::scoped_lock lock(mutex_);
  requireDefined();
  const std::int64_t whole = complete();
  slots_.resize(static_cast<std::size_t>(whole));
  std::ranges::fill(counts_, first_ + whole);
  interrupted_ = false;
}

void OutfeedQueue::interrupt() {
  const std::scoped_lock lock(mutex_);
  interrupted_ = true;
  changed_.notify_all();
}

void OutfeedQueue::requireDefined() const {
  if (!defined_) {
    raise<InvalidArgument>(
        "outfeed: nothing was enqueued to this queue yet: run a model with it before dequeuing");
  }
}

/// Tensors arrive in any order, so a later iteration may be whole before an earlier one.
std::int64_t OutfeedQueue::complete() const {
  const auto open = std::ranges::find_if(slots_, [](const Slot& s) { return s.missing > 0; });
  return open - slots_.begin();
}

/// Only if there is something to dequeue: who waits must not wait for what waits behind itself.
bool OutfeedQueue::full(std::int64_t iteration) const {
  return mode_ == OutfeedMode::All && capacity_ > 0 && iteration >= first_ + capacity_ &&
         complete() > 0;
}

OutfeedQueue::Slot& OutfeedQueue::slotFor(std::int64_t iteration) {
  while (first_ + static_cast<std::int64_t>(slots_.size()) <= iteration) {
    Slot& slot = slots_.emplace_back();
    slot.missing = counts_.size();
    slot.tensors = makeBatch(types_, replicas_);
  }
  return slots_[static_cast<std::size_t>(iteration - first_)];
}

void OutfeedQueue::put(std::size_t tensor, std::int64_t replica, const void* data) {
  std::unique_lock lock(mutex_);
  requireDefined();
  const std::size_t stream =
      tensor * static_cast<std::size_t>(replicas_) + static_cast<std::size_t>(replica);
  SLUICE_CHECK(stream < counts_.size(), "tensor {} of replica {}", tensor, replica);
  const std::int64_t iteration = counts_[stream];
  changed_.wait(lock, [&] { return closed_ || interrupted_ || !full(iteration); });
  if (interrupted_) {
    raise<Cancelled>("outfeed: the run that enqueues to this queue was stopped");
  }
  if (closed_) {
    raise<InvalidArgument>("outfeed: the queue was closed while a model enqueues to it");
  }
  ++counts_[stream];
  Slot& slot = slotFor(iteration);
  const std::size_t bytes = types_[tensor].bytes();
  if (bytes > 0) {
    std::memcpy(
        slot.tensors[tensor].bytes() + bytes * static_cast<std::size_t>(replica), data, bytes);
  }
  if (--slot.missing > 0) {
    return;
  }
  ++arrived_;
  while (mode_ == OutfeedMode::Last && complete() > 1) {
    slots_.pop_front();
    ++first_;
  }
  changed_.notify_all();
}

TensorType OutfeedQueue::resultType(std::size_t tensor, std::int64_t iterations) const {
  const TensorType ofReplicas =
      replicas_ > 1 ? batchType(types_[tensor], replicas_) : types_[tensor];
  return mode_ == OutfeedMode::All ? batchType(ofReplicas, iterations) : ofReplicas;
}

std::vector<HostTensor> OutfeedQueue::dequeue() {
  const std::scoped_lock lock(mutex_);
  requireDefined();
  const std::int64_t whole = complete();
  if (mode_ == OutfeedMode::Last && whole == 0) {
    raise<InvalidArgument>("outfeed: no iteration has ended yet, so there is no last one");
  }
  std::vector<HostTensor> results;
  for (std::size_t t = 0; t < types_.size(); ++t) {
    HostTensor& result = results.emplace_back(resultType(t, whole));
    const std::size_t bytes = types_[t].bytes() * static_cast<std::size_t>(replicas_);
    for (std::size_t i = 0; i < static_cast<std::size_t>(whole) && bytes > 0; ++i) {
      std::memcpy(result.bytes() + bytes * i, slots_[i].tensors[t].bytes(), bytes);
    }
  }
  if (mode_ == OutfeedMode::All) {
    slots_.erase(slots_.begin(), slots_.begin() + whole);
    first_ += whole;
  }
  arrived_ = 0;
  changed_.notify_all();
  return results;
}

std::map<std::string, HostTensor> OutfeedQueue::dequeueNamed() {
  std::vector<HostTensor> results = dequeue();
  if (names_.empty()) {
    raise<InvalidArgument>("outfeed: the tensors of this queue have no names; use dequeue()");
  }
  std::map<std::string, HostTensor> named;
  for (std::size_t t = 0; t < results.size(); ++t) {
    named.emplace(names_[t], std::move(results[t]));
  }
  return named;
}

bool OutfeedQueue::hasArrived(std::int64_t iterations) const {
  return (mode_ == OutfeedMode::All ? complete() : arrived_) >= iterations;
}

bool OutfeedQueue::await(std::int64_t iterations) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || hasArrived(iterations); });
  return hasArrived(iterations);
}

bool OutfeedQueue::awaitFor(std::chrono::milliseconds atMost, std::int64_t iterations) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, atMost, [&] { return closed_ || hasArrived(iterations); });
  return hasArrived(iterations);
}

std::int64_t OutfeedQueue::size() const {
  const std::scoped_lock lock(mutex_);
  return complete();
}

bool OutfeedQueue::isClosed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

void OutfeedQueue::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

}  // namespace sluice::data
