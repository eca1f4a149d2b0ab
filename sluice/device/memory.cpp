#include "sluice/device/memory.h"

#include "sluice/base/error.h"

namespace sluice::device {

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::Device:
      return "device";
    case MemoryKind::Pinned:
      return "pinned";
    case MemoryKind::Host:
      break;
  }
  return "host";
}

std::byte* hostPointer(Address address) {
  if (address.memory == nullptr) {
    return nullptr;
  }
  std::byte* const host = address.memory->host();
  SLUICE_CHECK(host != nullptr, "the host uses memory that only its device can read");
  return host + address.offset;
}

}  // namespace sluice::device
