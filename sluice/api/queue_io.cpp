#include "sluice/api/queue_io.h"

namespace sluice {

InfeedFeed::InfeedFeed(data::InfeedQueue& queue, const BatchLayout& layout)
    : queue_(queue),
      layout_(layout),
      inUse_(queue.types().size() * static_cast<std::size_t>(layout.replicationFactor)) {
  queue_.resume();
}

const void* InfeedFeed::take(std::int32_t input, std::int64_t microBatch) {
  const std::int64_t replica = microBatch % layout_.replicationFactor;
  const std::int64_t number =
      microBatch / layout_.replicationFactor * layout_.inputReplicas() + layout_.inputOf(replica);
  const std::scoped_lock lock(mutex_);
  while (first_ + static_cast<std::int64_t>(window_.size()) <= number) {
    std::vector<HostTensor> tensors = queue_.dequeue();
    const auto takes = static_cast<std::int64_t>(tensors.size()) * layout_.inputGroupSize;
    window_.push_back({std::move(tensors), takes});
  }
  Element& element = window_[static_cast<std::size_t>(number - first_)];
  // The engine copies a micro-batch of an input before it takes the next one of the same replica.
  HostTensor& taken = inUse_[static_cast<std::size_t>(input * layout_.replicationFactor + replica)];
  taken = element.tensors[static_cast<std::size_t>(input)];
  --element.takes;
  while (!window_.empty() && window_.front().takes == 0) {
    window_.pop_front();
    ++first_;
  }
  return taken.bytes();
}

OutfeedSink::OutfeedSink(data::OutfeedQueue& queue,
                         const program::Program& program,
                         std::int64_t replicas)
    : queue_(queue), replicas_(replicas) {
  data::Types types;
  std::vector<std::string> names;
  for (const program::Port& stream : program.drains) {
    types.push_back(stream.type);
    names.push_back(stream.name);
  }
  queue_.define(types, replicas, names);
  queue_.begin();
}

void OutfeedSink::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  queue_.put(static_cast<std::size_t>(output), microBatch % replicas_, data);
}

}  // namespace sluice
