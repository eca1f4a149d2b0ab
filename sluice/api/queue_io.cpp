#include "sluice/api/queue_io.h"

#include <cstring>

#include "sluice/api/step.h"
#include "sluice/base/error.h"

namespace sluice {

QueueFeed::QueueFeed(data::InfeedQueue* queue, std::int64_t replicas)
    : queue_(queue), replicas_(replicas) {
  if (queue != nullptr) {
    streams_.resize(queue->types().size() * static_cast<std::size_t>(replicas));
  }
}

const void* QueueFeed::take(std::int32_t input, std::int64_t microBatch) {
  const std::scoped_lock lock(mutex_);
  SLUICE_CHECK(queue_ != nullptr, "a step without an infeed takes input {}", input);
  while (dequeued_ <= microBatch) {
    std::vector<HostTensor> element = queue_->dequeue();
    for (std::size_t i = 0; i < element.size(); ++i) {
      stream(i, dequeued_ % replicas_).tensors.push_back(std::move(element[i]));
    }
    ++dequeued_;
  }
  Stream& own = stream(static_cast<std::size_t>(input), microBatch % replicas_);
  for (; own.first < microBatch / replicas_; ++own.first) {
    own.tensors.pop_front();
  }
  return own.tensors.front().bytes();
}

QueueSink::QueueSink(data::OutfeedQueue* queue,
                     const data::Types& types,
                     std::int64_t replicas,
                     std::int64_t sumOver)
    : queue_(queue), types_(types), replicas_(replicas), sumOver_(sumOver) {
  if (sumOver > 1) {
    for (const TensorType& type : types) {
      for (std::int64_t r = 0; r < replicas; ++r) {
        sums_.emplace_back(type);
      }
    }
  }
}

void QueueSink::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  const auto o = static_cast<std::size_t>(output);
  if (queue_ == nullptr || o >= types_.size()) {
    return;
  }
  const std::int64_t replica = microBatch % replicas_;
  if (sumOver_ == 1) {
    queue_->put(o, replica, data);
    return;
  }
  const std::int64_t part = microBatch / replicas_ % sumOver_;
  HostTensor& sum =
      sums_[o * static_cast<std::size_t>(replicas_) + static_cast<std::size_t>(replica)];
  if (part > 0) {
    addTo(sum.dtype(), sum.bytes(), data, sum.byteCount());
  } else if (sum.byteCount() > 0) {
    std::memcpy(sum.bytes(), data, sum.byteCount());
  }
  if (part == sumOver_ - 1) {
    queue_->put(o, replica, sum.bytes());
  }
}

}  // namespace sluice
