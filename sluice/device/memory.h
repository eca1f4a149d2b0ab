// Memory that a device works on, and addresses in it. An address is opaque: only the kind of device
// that made a memory knows where it is. The host may use the pointer that `host` returns, which is
// null for memory that only the device can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::device {

/// Device: kernels work on it. Pinned: host memory that a device can copy from and to by itself.
/// Host: any other host memory.
enum class MemoryKind : std::uint8_t { Device, Pinned, Host };
std::string_view name(MemoryKind kind);

class Memory;

/// A byte of a memory; the memory must outlive every use of the address.
struct Address {
  const Memory* memory = nullptr;
  std::size_t offset = 0;

  Address operator+(std::size_t bytes) const { return {memory, offset + bytes}; }
  bool operator==(const Address&) const = default;
};

class Memory {
 public:
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  MemoryKind kind() const { return kind_; }
  std::size_t bytes() const { return bytes_; }
  /// The address for the host; null if the host cannot read the memory.
  std::byte* host() const { return host_; }
  Address at(std::size_t offset = 0) const { return {this, offset}; }

 protected:
  Memory(MemoryKind kind, std::byte* host, std::size_t bytes)
      : kind_(kind), host_(host), bytes_(bytes) {}

 private:
  MemoryKind kind_;
  std::byte* host_;
  std::size_t bytes_;
};

/// Wraps bytes that the host owns, to copy from or to them. The bytes must outlive this object.
class HostMemory final : public Memory {
 public:
  HostMemory(void* data, std::size_t bytes)
      : Memory(MemoryKind::Host, static_cast<std::byte*>(data), bytes) {}
  /// For memory that is only copied from.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  HostMemory(const void* data, std::size_t bytes) : HostMemory(const_cast<void*>(data), bytes) {}
};

/// The address of a byte for the host; null if the address has no memory, as for tensors without
/// elements. Throws InternalError if the host cannot read the memory.
std::byte* hostPointer(Address address);

}  // namespace sluice::device
