#include "sluice/device/device.h"

#include "sluice/base/error.h"

namespace sluice::device {

void Queue::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) {
    return;
  }
  SLUICE_CHECK(to != nullptr && from != nullptr, "a copy of {} bytes from or to nowhere", bytes);
  doCopy(to, from, bytes);
}

Memory Device::allocate(std::size_t bytes) {
  if (info().memoryBytes != 0 && bytes > info().memoryBytes) {
    raise<OutOfMemory>("device {} of kind {} has a budget of {} bytes, {} were asked for",
                       info().index,
                       info().kind,
                       info().memoryBytes,
                       bytes);
  }
  return doAllocate(bytes);
}

}  // namespace sluice::device
