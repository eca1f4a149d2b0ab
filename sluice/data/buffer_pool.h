// Memory for batches that is used again. A tensor of the pool owns its memory like any other: only
// when the last copy or view of it is gone does the memory come back, so a batch that somebody
// keeps never changes. Safe to use from several threads.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

class BufferPool {
 public:
  /// Keeps at most this many free buffers; more are freed.
  explicit BufferPool(std::size_t kept);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// With any content. May outlive the pool.
  HostTensor tensor(const TensorType& type);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;  // shared with the tensors that are out
};

}  // namespace sluice::data
