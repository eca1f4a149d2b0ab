#include "sluice/base/section_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <zstd.h>

#include "sluice/base/byte_code.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "sluice/base/quick_sum.h"

namespace sluice {
namespace {

constexpr std::size_t kMagicBytes = 8;
/// Magic, major, minor, number of sections, size of the file, checksum of header and table.
constexpr std::size_t kHeaderBytes = kMagicBytes + 2 + 2 + 4 + 8 + 8;
/// Kind, form, offset, stored bytes, content bytes, checksum.
constexpr std::size_t kEntryBytes = 4 + 4 + 8 + 8 + 8 + 8;
/// Of quick sums: number of the section, sum.
constexpr std::size_t kSumBytes = 8 + 8;
constexpr std::size_t kMostSections = 1 << 16;
constexpr std::size_t kAlignmentOfPacked = 8;
constexpr int kLevel = 3;

std::uint64_t roundedUp(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

std::uint64_t checksumOf(std::string_view bytes) {
  return Hasher().add(bytes).digest();
}

/// Of pieces one after the other, the same as of their sum. All but the last are whole words.
std::uint64_t checksumOf(const std::vector<std::string_view>& pieces) {
  Hasher hasher;
  std::uint64_t size = 0;
  for (const std::string_view piece : pieces) {
    SLUICE_CHECK(size % 8 == 0, "a piece of a section begins at byte {}", size);
    size += piece.size();
  }
  hasher.add(size);
  for (const std::string_view piece : pieces) {
    for (std::size_t at = 0; at < piece.size(); at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, piece.data() + at, std::min<std::size_t>(8, piece.size() - at));
      hasher.add(word);
    }
  }
  return hasher.digest();
}

std::uint64_t quickSumOf(const std::vector<std::string_view>& pieces) {
  QuickSum sum;
  for (const std::string_view piece : pieces) {
    sum.add(std::as_bytes(std::span(piece)));
  }
  return sum.digest();
}

std::uint64_t numberAt(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) {
    value = value << 8U | static_cast<std::uint8_t>(bytes[at + i]);
  }
  return value;
}

std::string compressed(std::string_view bytes) {
  std::string stored(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(stored.data(), stored.size(), bytes.data(), bytes.size(), kLevel);
  SLUICE_CHECK(ZSTD_isError(size) == 0U, "zstd: {}", ZSTD_getErrorName(size));
  stored.resize(size);
  return stored;
}

}  // namespace

// --- writing -----------------------------------------------------------------

void SectionWriter::add(std::uint32_t kind, std::string_view bytes, SectionForm form) {
  if (form == SectionForm::Mapped) {
    addMapped(kind, {bytes});
    return;
  }
  Section& section = sections_.emplace_back();
  section.kind = kind;
  section.size = bytes.size();
  section.stored = compressed(bytes);
  section.packed =
      bytes.size() / kMostRatio < section.stored.size() && section.stored.size() < bytes.size();
  if (!section.packed) {
    section.stored = bytes;
  }
}

void SectionWriter::addMapped(std::uint32_t kind, std::vector<std::string_view> pieces) {
  Section& section = sections_.emplace_back();
  section.kind = kind;
  section.mapped = true;
  section.pieces = std::move(pieces);
  for (const std::string_view piece : section.pieces) {
    section.size += piece.size();
  }
}

void SectionWriter::addSums(std::uint32_t kind) {
  ByteWriter sums;
  for (std::size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].mapped) {
      sums.fixed(i, 8);
      sums.fixed(quickSumOf(sections_[i].pieces), 8);
    }
  }
  Section& section = sections_.emplace_back();
  section.kind = kind;
  section.size = sums.bytes().size();
  section.stored = sums.bytes();
}

std::string SectionWriter::headerOf(std::vector<std::uint64_t>& offsets) const {
  std::uint64_t end = kHeaderBytes + kEntryBytes * sections_.size();
  ByteWriter table;
  for (const Section& section : sections_) {
    const std::uint64_t offset =
        roundedUp(end, section.mapped ? kMappedAlignment : kAlignmentOfPacked);
    const std::uint64_t stored = section.mapped ? section.size : section.stored.size();
    offsets.push_back(offset);
    table.fixed(section.kind, 4);
    table.fixed(section.packed ? 1 : 0, 4);
    table.fixed(offset, 8);
    table.fixed(stored, 8);
    table.fixed(section.size, 8);
    table.fixed(section.mapped ? checksumOf(section.pieces) : checksumOf(section.stored), 8);
    end = offset + stored;
  }
  offsets.push_back(end);
  ByteWriter head;
  head.fixed(version_.major, 2);
  head.fixed(version_.minor, 2);
  head.fixed(sections_.size(), 4);
  head.fixed(end, 8);
  ByteWriter sum;
  sum.fixed(checksumOf(magic_ + head.bytes() + table.bytes()), 8);
  return magic_ + head.bytes() + sum.bytes() + table.bytes();
}

std::vector<std::string_view> SectionWriter::partsOf(std::string_view header,
                                                     const std::vector<std::uint64_t>& offsets,
                                                     std::string_view zeros) const {
  std::vector<std::string_view> parts = {header};
  std::uint64_t end = header.size();
  for (std::size_t s = 0; s < sections_.size(); ++s) {
    const Section& section = sections_[s];
    parts.push_back(zeros.substr(0, offsets[s] - end));
    if (section.mapped) {
      parts.insert(parts.end(), section.pieces.begin(), section.pieces.end());
    } else {
      parts.emplace_back(section.stored);
    }
    end = offsets[s] + (section.mapped ? section.size : section.stored.size());
  }
  return parts;
}

void SectionWriter::write(const std::filesystem::path& path) const {
  std::vector<std::uint64_t> offsets;
  const std::string header = headerOf(offsets);
  const std::string zeros(kMappedAlignment, '\0');
  writeFileAtomically(path, partsOf(header, offsets, zeros));
}

std::string SectionWriter::bytes() const {
  std::vector<std::uint64_t> offsets;
  const std::string header = headerOf(offsets);
  const std::string zeros(kMappedAlignment, '\0');
  std::string all;
  for (const std::string_view part : partsOf(header, offsets, zeros)) {
    all += part;
  }
  return all;
}

// --- reading -----------------------------------------------------------------

SectionFile::SectionFile(const std::filesystem::path& path, const Expected& expected)
    : name_(path.string()), what_(expected.what) {
  const InputFile file(path);
  if (file.size() > 0) {
    void* memory = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (memory == MAP_FAILED) {  // NOLINT: the macro of the system
      raise<UnreadableFile>("cannot map '{}': {}", name_, std::strerror(errno));
    }
    memory_ = {memory, [memory, size = file.size()](void*) { ::munmap(memory, size); }};
    bytes_ = {static_cast<const char*>(memory), file.size()};
  }
  readTable(expected);
  checkPlaces();
  checkSums(expected.sums);
}

SectionFile::SectionFile(std::string_view bytes, std::string name, const Expected& expected)
    : bytes_(bytes), name_(std::move(name)), what_(expected.what) {
  readTable(expected);
  checkPlaces();
  checkSums(expected.sums);
}

void SectionFile::fail(std::uint64_t offset, std::string_view what) const {
  raise<FileError>("{} '{}' is damaged at byte {}: {}", what_, name_, offset, what);
}

void SectionFile::readTable(const Expected& expected) {
  if (!bytes_.starts_with(expected.magic.substr(0, std::min(bytes_.size(), kMagicBytes))) ||
      bytes_.empty()) {
    raise<FileError>("'{}' is not an {} of Sluice: it does not begin with '{}'{}{}",
                     name_,
                     what_,
                     expected.magic,
                     expected.hint.empty() ? "" : "; ",
                     expected.hint);
  }
  if (bytes_.size() < kHeaderBytes) {
    fail(bytes_.size(), fmt::format("it ends here, its header has {} bytes", kHeaderBytes));
  }
  version_ = {static_cast<std::uint16_t>(numberAt(bytes_, 8, 2)),
              static_cast<std::uint16_t>(numberAt(bytes_, 10, 2))};
  if (version_.major != expected.major) {
    raise<FileError>(
        "{} '{}' has version {}.{} of the format, and this library reads version {}: use the "
        "library that wrote it, or export the model again",
        what_,
        name_,
        version_.major,
        version_.minor,
        expected.major);
  }
  const std::uint64_t sections = numberAt(bytes_, 12, 4);
  const std::uint64_t size = numberAt(bytes_, 16, 8);
  if (size != bytes_.size()) {
    fail(std::min<std::uint64_t>(size, bytes_.size()),
         fmt::format("its header says {} bytes, it has {}", size, bytes_.size()));
  }
  if (sections > kMostSections || kHeaderBytes + kEntryBytes * sections > bytes_.size()) {
    fail(12, fmt::format("a table of {} sections does not fit", sections));
  }
  const std::size_t end = kHeaderBytes + kEntryBytes * sections;
  const std::string covered = std::string(bytes_.substr(0, kHeaderBytes - 8))
                                  .append(bytes_.substr(kHeaderBytes, end - kHeaderBytes));
  if (checksumOf(covered) != numberAt(bytes_, 24, 8)) {
    fail(24, "the checksum of its header does not fit");
  }
  for (std::size_t at = kHeaderBytes; at < end; at += kEntryBytes) {
    entries_.push_back({.kind = static_cast<std::uint32_t>(numberAt(bytes_, at, 4)),
                        .packed = numberAt(bytes_, at + 4, 4) != 0,
                        .offset = numberAt(bytes_, at + 8, 8),
                        .stored = numberAt(bytes_, at + 16, 8),
                        .size = numberAt(bytes_, at + 24, 8)});
  }
}

void SectionFile::checkPlaces() const {
  std::uint64_t end = kHeaderBytes + kEntryBytes * entries_.size();
  const auto requireZeros = [&](std::uint64_t to) {
    for (; end < to; ++end) {
      if (bytes_[end] != 0) {
        fail(end, "expected 0 between two sections");
      }
    }
  };
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const std::size_t at = kHeaderBytes + kEntryBytes * i;
    if (entry.offset < end || entry.offset > bytes_.size() ||
        entry.stored > bytes_.size() - entry.offset) {
      fail(at,
           fmt::format("section {} has {} bytes at {}, the file has {}",
                       i,
                       entry.stored,
                       entry.offset,
                       bytes_.size()));
    }
    if (entry.packed ? entry.size / kMostRatio > entry.stored : entry.size != entry.stored) {
      fail(at, fmt::format("section {} has {} bytes stored in {}", i, entry.size, entry.stored));
    }
    requireZeros(entry.offset);
    end = entry.offset + entry.stored;
  }
  if (end != bytes_.size()) {
    fail(end, "bytes follow the last section");
  }
}

bool SectionFile::fitsTable(std::size_t section) const {
  return checksumOf(stored(entries_[section])) ==
         numberAt(bytes_, kHeaderBytes + kEntryBytes * section + 32, 8);
}

/// By the number of the section; none if there is no such section or it is damaged, which is found
/// later.
std::map<std::uint64_t, std::uint64_t> SectionFile::quickSums(std::uint32_t kind) const {
  std::map<std::uint64_t, std::uint64_t> sums;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (kind == 0 || entry.kind != kind || entry.packed || !fitsTable(i)) {
      continue;
    }
    const std::string_view content = stored(entry);
    for (std::size_t at = 0; at + kSumBytes <= content.size(); at += kSumBytes) {
      sums.emplace(numberAt(content, at, 8), numberAt(content, at + 8, 8));
    }
  }
  return sums;
}

void SectionFile::checkSums(std::uint32_t quick) const {
  const std::map<std::uint64_t, std::uint64_t> sums = quickSums(quick);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const auto found = sums.find(i);
    const bool fits =
        found == sums.end() ? fitsTable(i) : quickSumOf({stored(entries_[i])}) == found->second;
    if (!fits) {
      fail(entries_[i].offset, fmt::format("the checksum of section {} does not fit", i));
    }
  }
}

std::vector<const SectionFile::Entry*> SectionFile::all(std::uint32_t kind) const {
  std::vector<const Entry*> found;
  for (const Entry& entry : entries_) {
    if (entry.kind == kind) {
      found.push_back(&entry);
    }
  }
  return found;
}

const SectionFile::Entry& SectionFile::one(std::uint32_t kind, std::string_view what) const {
  const std::vector<const Entry*> found = all(kind);
  if (found.size() != 1) {
    fail(12, fmt::format("it has {} sections with {}, expected 1", found.size(), what));
  }
  return *found[0];
}

std::string SectionFile::unpacked(const Entry& entry) const {
  const std::string_view from = stored(entry);
  if (!entry.packed) {
    return std::string(from);
  }
  std::string content(entry.size, '\0');
  const std::size_t size =
      ZSTD_decompress(content.data(), content.size(), from.data(), from.size());
  if (ZSTD_isError(size) != 0U || size != content.size()) {
    fail(entry.offset, "the section cannot be decompressed");
  }
  return content;
}

}  // namespace sluice
