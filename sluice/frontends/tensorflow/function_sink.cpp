#include "sluice/frontends/tensorflow/function_sink.h"

#include <cstring>

namespace sluice {

FunctionSink::FunctionSink(data::OutfeedQueue* queue,
                           const data::Types& types,
                           std::int64_t replicas,
                           std::int64_t sumOver)
    : queue_(queue), outputs_(types.size()), replicas_(replicas), sumOver_(sumOver) {
  for (const TensorType& type : types) {
    for (std::int64_t r = 0; r < replicas && sumOver > 1; ++r) {
      sums_.emplace_back(type);
    }
  }
}

void FunctionSink::put(std::int32_t output, std::int64_t microBatch, const void* data) {
  const auto o = static_cast<std::size_t>(output);
  if (queue_ == nullptr || o >= outputs_) {
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
