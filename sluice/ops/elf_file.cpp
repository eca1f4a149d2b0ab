#include "sluice/ops/elf_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <elf.h>
#include <link.h>

#include "sluice/base/error.h"

namespace sluice::ops {
namespace {

using FileHeader = ElfW(Ehdr);
using Segment = ElfW(Phdr);
using Section = ElfW(Shdr);

/// The header of the program that runs: what a library must agree with.
constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr unsigned char kOrder =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  raise<FileError>("'{}' cannot be loaded as a shared library: {}", name, why);
}

template <class T>
T recordAt(const InputFile& file, std::uint64_t offset) {
  T record{};
  file.read(offset, std::as_writable_bytes(std::span(&record, 1)));
  return record;
}

void requireInside(const InputFile& file,
                   std::string_view name,
                   std::string_view what,
                   std::uint64_t offset,
                   std::uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset) {
    refuse(name,
           fmt::format("it is cut off: {} of {} bytes at {} should be in its {} bytes",
                       what,
                       bytes,
                       offset,
                       file.size()));
  }
}

}  // namespace

void requireWholeLibrary(const InputFile& file, std::string_view name) {
  std::array<char, SELFMAG> magic = {};
  file.read(0,
            std::as_writable_bytes(std::span(magic).first(
                std::min<std::size_t>(magic.size(), static_cast<std::size_t>(file.size())))));
  if (std::memcmp(magic.data(), ELFMAG, magic.size()) != 0) {
    refuse(name, "it is no ELF file");
  }
  requireInside(file, name, "the header", 0, sizeof(FileHeader));
  const auto header = recordAt<FileHeader>(file, 0);
  if (header.e_ident[EI_CLASS] != kClass || header.e_ident[EI_DATA] != kOrder ||
      header.e_type != ET_DYN) {
    refuse(name, "it is an ELF file of another kind: no shared library, or for another machine");
  }
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Segment) ||
      (header.e_shnum != 0 && header.e_shentsize != sizeof(Section))) {
    refuse(name, "its tables are damaged");
  }
  requireInside(file,
                name,
                "the table of segments",
                header.e_phoff,
                std::uint64_t{header.e_phnum} * sizeof(Segment));
  requireInside(file,
                name,
                "the table of sections",
                header.e_shoff,
                std::uint64_t{header.e_shnum} * sizeof(Section));
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = recordAt<Segment>(file, header.e_phoff + i * sizeof(Segment));
    if (segment.p_type != PT_NULL) {
      requireInside(file, name, "a segment", segment.p_offset, segment.p_filesz);
    }
    if (segment.p_type == PT_LOAD && segment.p_memsz < segment.p_filesz) {
      refuse(name, "a segment is larger in the file than in memory");
    }
  }
}

}  // namespace sluice::ops
