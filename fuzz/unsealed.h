// The sections of a file without header and checksums, which would keep the fuzzer out: for each
// its kind (a byte), its size (four bytes, the lowest first) and its content. A size that is too
// large stands for the rest.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "sluice/base/section_file.h"

namespace sluice::fuzz {

constexpr std::string_view kExecutableMagic = "SLUICEex";
constexpr std::uint32_t kMappedKind = 6;
constexpr std::uint32_t kSumsKind = 7;

inline std::string unsealed(const SectionFile& file) {
  std::string bytes;
  for (const SectionFile::Entry& entry : file.entries()) {
    if (entry.kind == kSumsKind) {
      continue;  // they would not fit what is changed
    }
    const std::string content = file.unpacked(entry);
    bytes += static_cast<char>(entry.kind);
    for (unsigned i = 0; i < 4; ++i) {
      bytes += static_cast<char>(content.size() >> (8U * i));
    }
    bytes += content;
  }
  return bytes;
}

/// A sound file with these sections.
inline std::string sealedFile(std::string_view bytes) {
  SectionWriter writer(kExecutableMagic, {1, 0});
  while (bytes.size() >= 5) {
    const auto kind = static_cast<std::uint8_t>(bytes[0]);
    std::size_t size = 0;
    for (std::size_t i = 4; i > 0; --i) {
      size = size << 8U | static_cast<std::uint8_t>(bytes[i]);
    }
    const std::string_view content = bytes.substr(5, size);
    writer.add(kind, content, kind == kMappedKind ? SectionForm::Mapped : SectionForm::Compressed);
    bytes.remove_prefix(5 + content.size());
  }
  return writer.bytes();
}

}  // namespace sluice::fuzz
