// BufferPool: reuses the memory of batches. A tensor of the pool owns its memory like any other.
// The memory returns to the pool only when the last copy or view of the tensor is gone, so a batch
// that the user keeps never changes. Safe to use from several threads.
#pragma once

#include <cstddef>
#include <memory>

#include "sluice/tensor/host_tensor.h"

namespace sluice::data {

class BufferPool {
 public:
  /// Keeps at most this many unused buffers and frees the others.
  explicit BufferPool(std::size_t kept);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// A tensor with undefined contents, which may outlive the pool.
  HostTensor tensor(const TensorType& type);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;  // shared with the tensors in use
};

}  // namespace sluice::data
