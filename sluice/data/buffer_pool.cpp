#include "sluice/data/buffer_pool.h"

#include <algorithm>
#include <mutex>
#include <vector>

namespace sluice::data {

struct BufferPool::Shelf {
  std::mutex mutex;  // guards both
  std::vector<HostTensor> free;
  std::size_t kept = 0;

  void giveBack(HostTensor memory) {
    const std::scoped_lock lock(mutex);
    if (free.size() < kept) {
      free.push_back(std::move(memory));
    }
  }
  HostTensor take(const TensorType& type) {
    {
      const std::scoped_lock lock(mutex);
      const auto found = std::ranges::find(free, type, &HostTensor::type);
      if (found != free.end()) {
        HostTensor memory = std::move(*found);
        free.erase(found);
        return memory;
      }
    }
    return HostTensor(type);
  }
};

BufferPool::BufferPool(std::size_t kept) : shelf_(std::make_shared<Shelf>()) {
  shelf_->kept = kept;
  constexpr std::size_t kUsual = 64;  // any number may be asked for
  shelf_->free.reserve(std::min(kept, kUsual));
}

BufferPool::~BufferPool() {
  const std::scoped_lock lock(shelf_->mutex);
  shelf_->kept = 0;
  shelf_->free.clear();
}

HostTensor BufferPool::tensor(const TensorType& type) {
  HostTensor memory = shelf_->take(type);
  std::byte* bytes = memory.bytes();
  return HostTensor::over(type,
                          {bytes, [shelf = shelf_, memory = std::move(memory)](std::byte*) mutable {
                             shelf->giveBack(std::move(memory));
                           }});
}

}  // namespace sluice::data
