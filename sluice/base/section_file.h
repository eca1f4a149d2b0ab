// A file of sections: a header with a version, a table, and the sections, each with a checksum.
// Executables and entries of the cache are such files (docs/executable.md has the bytes). Every
// byte of a file is covered: any truncation and any changed bit is found before a section is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/base/atomic_file.h"

namespace sluice {

/// Readers take files of their own major version. A minor version adds sections that older readers
/// do not know and pass over.
struct FormatVersion {
  std::uint16_t major = 1;
  std::uint16_t minor = 0;

  bool operator==(const FormatVersion&) const = default;
};

/// How a section is stored. Mapped sections begin at a multiple of kMappedAlignment.
enum class SectionForm : std::uint8_t { Compressed, Mapped };
inline constexpr std::size_t kMappedAlignment = 4096;
/// A compressed section is at most this many times as large as its stored bytes, so that the size
/// of a file bounds the memory that its reader takes.
inline constexpr std::uint64_t kMostRatio = 64;

/// Gathers sections and writes the file, whole or not at all.
class SectionWriter {
 public:
  SectionWriter(std::string_view magic, FormatVersion version) : magic_(magic), version_(version) {}

  /// Several sections may have one kind; they stay in order. A mapped section refers to the given
  /// bytes, which must live until the file is written.
  void add(std::uint32_t kind, std::string_view bytes, SectionForm form = SectionForm::Compressed);
  /// The same for a section that consists of several pieces, one after the other, and is mapped.
  /// All pieces but the last have a multiple of 8 bytes.
  void addMapped(std::uint32_t kind, std::vector<std::string_view> pieces);
  /// A section with quick checksums of the mapped sections so far. A reader that is told its kind
  /// checks them by these; others by the table, which takes several times as long.
  void addSums(std::uint32_t kind);
  void write(const std::filesystem::path& path) const;
  std::string bytes() const;

 private:
  struct Section {
    std::uint32_t kind = 0;
    bool packed = false;
    std::uint64_t size = 0;  // before it was compressed
    std::string stored;      // unless it has pieces
    std::vector<std::string_view> pieces;
    bool mapped = false;
  };
  std::string headerOf(std::vector<std::uint64_t>& offsets) const;
  std::vector<std::string_view> partsOf(std::string_view header,
                                        const std::vector<std::uint64_t>& offsets,
                                        std::string_view zeros) const;

  std::string magic_;
  FormatVersion version_;
  std::vector<Section> sections_;
};

/// A file whose header, table and checksums are found to be sound. It maps the file, which must not
/// shrink meanwhile.
class SectionFile {
 public:
  struct Expected {
    std::string_view magic;      ///< eight characters
    std::uint16_t major = 1;     ///< of this library
    std::string_view what;       ///< "executable"
    std::string_view hint = {};  ///< what to do about another kind of file
    std::uint32_t sums = 0;      ///< the kind of SectionWriter::addSums; 0: none
  };
  /// Throws FileError, which names the file, the place and what was expected; UnreadableFile
  /// (input_file.h) if the system could not read it.
  SectionFile(const std::filesystem::path& path, const Expected& expected);
  /// The same for bytes that are in memory already and live as long as this object.
  SectionFile(std::string_view bytes, std::string name, const Expected& expected);

  struct Entry {
    std::uint32_t kind = 0;
    bool packed = false;
    std::uint64_t offset = 0;
    std::uint64_t stored = 0;
    std::uint64_t size = 0;
  };
  const std::string& name() const { return name_; }
  FormatVersion version() const { return version_; }
  const std::vector<Entry>& entries() const { return entries_; }
  /// The entries of a kind, in order.
  std::vector<const Entry*> all(std::uint32_t kind) const;
  /// Throws FileError unless there is exactly one.
  const Entry& one(std::uint32_t kind, std::string_view what) const;
  /// The content of a section.
  std::string unpacked(const Entry& entry) const;
  /// The stored bytes, which live as long as memory().
  std::string_view stored(const Entry& entry) const {
    return bytes_.substr(entry.offset, entry.stored);
  }
  /// Keeps the file's bytes; null if the caller keeps them.
  const std::shared_ptr<const void>& memory() const { return memory_; }

 private:
  void readTable(const Expected& expected);
  void checkPlaces() const;
  void checkSums(std::uint32_t quick) const;
  std::map<std::uint64_t, std::uint64_t> quickSums(std::uint32_t kind) const;
  bool fitsTable(std::size_t section) const;
  [[noreturn]] void fail(std::uint64_t offset, std::string_view what) const;

  std::shared_ptr<const void> memory_;
  std::string_view bytes_;
  std::string name_;
  std::string what_;
  FormatVersion version_;
  std::vector<Entry> entries_;
};

}  // namespace sluice
