#include "sluice/data/memory_loader.h"

#include <cstring>

#include "sluice/base/error.h"

namespace sluice::data {

MemoryLoader::MemoryLoader(std::vector<HostTensor> tensors,
                           std::int64_t batchSize,
                           Shuffle shuffle,
                           std::uint64_t seed)
    : tensors_(std::move(tensors)), batchSize_(batchSize), shuffle_(shuffle), seed_(seed) {
  if (tensors_.empty() || batchSize < 1) {
    raise<InvalidArgument>("a loader needs tensors and a positive batch size, got {} and {}",
                           tensors_.size(),
                           batchSize);
  }
  for (const HostTensor& tensor : tensors_) {
    if (tensor.shape().rank() == 0 || tensor.shape()[0] != tensors_[0].shape()[0]) {
      raise<InvalidArgument>(
          "the tensors of a data set must have one number of samples, got {} and {}",
          tensors_[0].type().str(),
          tensor.type().str());
    }
  }
  samples_ = tensors_[0].shape()[0];
}

const std::vector<std::int64_t>& MemoryLoader::orderOf(std::int64_t epoch) const {
  if (orderEpoch_ == epoch) {
    return order_;
  }
  order_ = sampleOrder(samples_, shuffle_, seed_, epoch);
  orderEpoch_ = epoch;
  return order_;
}

std::vector<HostTensor> MemoryLoader::batch(std::int64_t epoch, std::int64_t index) const {
  if (epoch < 0 || index < 0 || index >= batches()) {
    raise<InvalidArgument>(
        "there is no batch {} in epoch {}; an epoch has {}", index, epoch, batches());
  }
  const std::vector<std::int64_t>& order = orderOf(epoch);
  std::vector<HostTensor> result;
  for (const HostTensor& tensor : tensors_) {
    std::vector<std::int64_t> dims = tensor.shape().dims();
    dims[0] = batchSize_;
    HostTensor& out = result.emplace_back(TensorType{tensor.dtype(), Shape(std::move(dims))});
    const std::size_t row = tensor.byteCount() / static_cast<std::size_t>(samples_);
    for (std::int64_t i = 0; i < batchSize_ && row > 0; ++i) {
      const auto sample = order[static_cast<std::size_t>(index * batchSize_ + i)];
      std::memcpy(out.bytes() + row * static_cast<std::size_t>(i),
                  tensor.bytes() + row * static_cast<std::size_t>(sample),
                  row);
    }
  }
  return result;
}

}  // namespace sluice::data
