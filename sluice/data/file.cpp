#include "sluice/data/file.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"

namespace sluice::data {
MappedFile::MappedFile(const std::string& path) {
  const InputFile file(path);
  size_ = file.size();
  if (size_ == 0) {
    return;  // nothing can be mapped
  }
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) {  // NOLINT: the macro of the system
    raise<FileError>("cannot map '{}': {}", path, std::strerror(errno));
  }
  memory_ = {static_cast<const std::byte*>(memory),
             [memory, size = size_](const std::byte*) { ::munmap(memory, size); }};
}

std::uint64_t littleEndian(std::string_view bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i > 0; --i) {
    value = (value << 8) | static_cast<unsigned char>(bytes[offset + i - 1]);
  }
  return value;
}

}  // namespace sluice::data
