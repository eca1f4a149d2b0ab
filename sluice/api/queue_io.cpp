#include "sluice/api/queue_io.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice {
namespace {

/// Defines what is enqueued: the outputs of the program by their names.
void begin(data::OutfeedQueue& queue, const program::Program& program, std::int64_t replicas) {
  data::Types types;
  std::vector<std::string> names;
  for (const program::Port& stream : program.drains) {
    types.push_back(stream.type);
    names.push_back(stream.name);
  }
  queue.define(types, replicas, names);
  queue.begin();
}

}  // namespace

FeedShare::FeedShare(const Processes& processes,
                     const program::Program& program,
                     const BatchLayout& layout)
    : inputs(std::ranges::count_if(program.feeds,
                                   [&](const program::Port& feed) {
                                     return processes.partOf(program.buffer(feed.buffer).device) ==
                                            processes.myPart();
                                   })),
      replicas(layout.replicationFactor / static_cast<std::int64_t>(processes.groupSize())) {
  firstReplica = static_cast<std::int64_t>(processes.myPlace()) * replicas;
}

InfeedFeed::InfeedFeed(data::InfeedQueue& queue,
                       const BatchLayout& layout,
                       std::optional<FeedShare> share)
    : queue_(queue),
      layout_(layout),
      share_(share),
      inUse_(queue.types().size() * static_cast<std::size_t>(layout.replicationFactor)) {
  queue_.resume();
}

std::int64_t InfeedFeed::takesOf(std::int64_t number, std::size_t tensors) const {
  if (!share_) {
    return static_cast<std::int64_t>(tensors) * layout_.inputGroupSize;
  }
  std::int64_t replicas = 0;
  for (std::int64_t r = share_->firstReplica; r < share_->firstReplica + share_->replicas; ++r) {
    replicas += layout_.inputOf(r) == number % layout_.inputReplicas() ? 1 : 0;
  }
  return share_->inputs * replicas;
}

void InfeedFeed::dequeue() {
  std::vector<HostTensor> tensors = queue_.dequeue();
  if (share_) {
    samples_.add(sampleOf(tensors));
  }
  const std::int64_t takes =
      takesOf(first_ + static_cast<std::int64_t>(window_.size()), tensors.size());
  window_.push_back({std::move(tensors), takes});
}

std::uint64_t InfeedFeed::finish() {
  const std::scoped_lock lock(mutex_);
  while (first_ + static_cast<std::int64_t>(window_.size()) < layout_.inputFactor()) {
    dequeue();
  }
  return samples_.digest();
}

const void* InfeedFeed::take(std::int32_t input, std::int64_t microBatch) {
  const std::int64_t replica = microBatch % layout_.replicationFactor;
  const std::int64_t number =
      microBatch / layout_.replicationFactor * layout_.inputReplicas() + layout_.inputOf(replica);
  const std::scoped_lock lock(mutex_);
  while (first_ + static_cast<std::int64_t>(window_.size()) <= number) {
    dequeue();
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
  begin(queue, program, replicas);
}

void OutfeedSink::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  queue_.put(static_cast<std::size_t>(output), microBatch % replicas_, data);
}

SharedOutfeed::SharedOutfeed(data::OutfeedQueue& queue,
                             const program::Program& program,
                             const std::vector<BatchLayout>& layouts,
                             const Processes& processes,
                             DataDigest data)
    : SharedSink(program, layouts, processes, std::move(data)), queue_(queue) {
  for (const BatchLayout& layout : layouts) {
    const std::int64_t iterations = layout.outputMicroBatches() / layout.replicationFactor;
    if (queue.capacity() != 0 && iterations > queue.capacity()) {
      raise<InvalidArgument>(
          "processes that share a model put all results of a call into the outfeed queue at its "
          "end: {} iterations, and the capacity of the queue is {}",
          iterations,
          queue.capacity());
    }
  }
  begin(queue, program, layouts.empty() ? 1 : layouts[0].replicationFactor);
}

std::vector<HostTensor> SharedOutfeed::takeResults() {
  const std::vector<HostTensor> results = SharedSink::takeResults();
  for (std::size_t o = 0; o < results.size(); ++o) {
    for (std::int64_t slot = 0; slot < layouts_[o].outputMicroBatches(); ++slot) {
      queue_.put(o,
                 slot % layouts_[o].replicationFactor,
                 results[o].bytes() + bytes_[o] * static_cast<std::size_t>(slot));
    }
  }
  return {};
}

}  // namespace sluice
