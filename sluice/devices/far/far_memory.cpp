#include "sluice/devices/far/far_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/devices/far/order_check.h"

namespace sluice::devices::far {
namespace {

[[noreturn]] void refuse(std::size_t bytes, int device, int error) {
  raise<OutOfMemory>(
      "the host cannot give {} bytes to far device {}: {}", bytes, device, std::strerror(error));
}

std::byte* map(std::size_t bytes, int access, int file) {
  void* made = ::mmap(nullptr, bytes, access, MAP_SHARED, file, 0);
  return made == MAP_FAILED ? nullptr : static_cast<std::byte*>(made);
}

}  // namespace

FarMemory::FarMemory(std::size_t bytes, int device, std::shared_ptr<OrderCheck> check)
    : Memory(device::MemoryKind::Device, nullptr, bytes),
      device_(device),
      check_(std::move(check)) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  mapped_ = (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  const int file = ::memfd_create("sluice-far", MFD_CLOEXEC);
  if (file < 0) {
    refuse(bytes, device, errno);
  }
  int error = ::ftruncate(file, static_cast<off_t>(mapped_)) == 0 ? 0 : errno;
  if (error == 0) {
    behind_ = map(mapped_, PROT_READ | PROT_WRITE, file);
    wall_ = behind_ == nullptr ? nullptr : map(mapped_, PROT_NONE, file);
    error = wall_ == nullptr ? errno : 0;
  }
  ::close(file);
  if (error != 0) {
    if (behind_ != nullptr) {
      ::munmap(behind_, mapped_);
    }
    refuse(bytes, device, error);
  }
}

FarMemory::~FarMemory() {
  if (check_) {
    check_->forget(*this);
  }
  ::munmap(behind_, mapped_);
  ::munmap(wall_, mapped_);
}

CheckedPinnedMemory::CheckedPinnedMemory(std::unique_ptr<device::Memory> memory,
                                         std::shared_ptr<OrderCheck> check)
    : Memory(memory->kind(), memory->host(), memory->bytes()),
      memory_(std::move(memory)),
      check_(std::move(check)) {}

CheckedPinnedMemory::~CheckedPinnedMemory() {
  check_->forget(*this);
}

}  // namespace sluice::devices::far
