// Zip archives of arrays. The central directory at the end of the file is what counts:
//
//   [local header, name, extra, data] ... [entry, name, extra, comment] ... [end of directory]
//
// A size of 0xffffffff stands in a 64-bit extra field instead. An archive of more than 4 GiB or
// 65,535 entries has a second end in front of the other, and between them 20 bytes that say where.
#include <algorithm>
#include <limits>

#include <zlib.h>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/data/file.h"
#include "sluice/data/files.h"
#include "sluice/data/inflate.h"

namespace sluice::data {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kIn64Bits = 0xffffffff;
constexpr std::size_t kLocalHeader = 30;
constexpr std::size_t kEntryHeader = 46;
constexpr std::size_t kEndHeader = 22;
constexpr std::size_t kEnd64Header = 56;
constexpr std::size_t kEnd64Place = 20;

struct Entry {
  std::string name;
  std::uint64_t method = 0;
  std::uint64_t crc = 0;
  std::uint64_t packed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // of its local header
};

struct Directory {
  std::uint64_t count = 0;  // of entries
  std::uint64_t at = 0;
};

class Archive {
 public:
  Archive(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  std::vector<Entry> entries() const {
    auto [count, at] = directory();
    std::vector<Entry> all;
    for (std::uint64_t i = 0; i < count; ++i) {
      require(at, kEntryHeader, "its directory");
      if (!bytes_.substr(at).starts_with("PK\1\2"sv)) {
        damaged("its directory");
      }
      const std::uint64_t nameLength = littleEndian(bytes_, at + 28, 2);
      const std::uint64_t extraLength = littleEndian(bytes_, at + 30, 2);
      const std::uint64_t comment = littleEndian(bytes_, at + 32, 2);
      require(at, kEntryHeader + nameLength + extraLength + comment, "its directory");
      Entry entry{.name = std::string(bytes_.substr(at + kEntryHeader, nameLength)),
                  .method = littleEndian(bytes_, at + 10, 2),
                  .crc = littleEndian(bytes_, at + 16, 4),
                  .packed = littleEndian(bytes_, at + 20, 4),
                  .bytes = littleEndian(bytes_, at + 24, 4),
                  .offset = littleEndian(bytes_, at + 42, 4)};
      readExtra(entry, bytes_.substr(at + kEntryHeader + nameLength, extraLength));
      all.push_back(std::move(entry));
      at += kEntryHeader + nameLength + extraLength + comment;
    }
    return all;
  }

  std::string content(const Entry& entry) const {
    const std::string where = name_ + ":" + entry.name;
    require(entry.offset, kLocalHeader, where);
    if (!bytes_.substr(entry.offset).starts_with("PK\3\4"sv)) {
      damaged(where);
    }
    const std::uint64_t skip = kLocalHeader + littleEndian(bytes_, entry.offset + 26, 2) +
                               littleEndian(bytes_, entry.offset + 28, 2);
    require(entry.offset, skip, where);
    require(entry.offset + skip, entry.packed, where);
    const std::string_view packed = bytes_.substr(entry.offset + skip, entry.packed);
    if (entry.method != 0 && entry.method != 8) {
      raise<FileError>("'{}': compression method {} is not known, only stored and deflated",
                       where,
                       entry.method);
    }
    // One byte more than there may be, so that too many are seen.
    std::string plain = entry.method == 0
                            ? std::string(packed)
                            : inflate(packed, Packing::Deflate, limitOf(entry), where);
    if (plain.size() != entry.bytes) {
      raise<FileError>("'{}' should have {} bytes and has {}", where, entry.bytes, plain.size());
    }
    if (crcOf(plain) != entry.crc) {
      raise<FileError>("'{}' is damaged: its CRC-32 is not that of the directory", where);
    }
    return plain;
  }

 private:
  static std::size_t limitOf(const Entry& entry) {
    return entry.bytes == std::numeric_limits<std::uint64_t>::max() ? entry.bytes : entry.bytes + 1;
  }
  static std::uint64_t crcOf(std::string_view bytes) {
    return crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  [[noreturn]] void damaged(std::string_view where) const {
    raise<FileError>("'{}' is not a sound zip archive: {} is damaged", name_, where);
  }
  void require(std::uint64_t offset, std::uint64_t count, std::string_view where) const {
    if (offset > bytes_.size() || count > bytes_.size() - offset) {
      raise<FileError>(
          "'{}' is too short: {} should end behind its {} bytes", name_, where, bytes_.size());
    }
  }
  /// Its header is the last thing but for a comment of up to 65535 bytes.
  std::size_t endOfDirectory() const {
    const std::size_t end = bytes_.rfind("PK\5\6"sv);
    if (end == std::string_view::npos || bytes_.size() - end < kEndHeader) {
      raise<FileError>("'{}' is not an .npz file: it has no directory of a zip archive", name_);
    }
    return end;
  }
  Directory directory() const {
    const std::size_t end = endOfDirectory();
    if (end < kEnd64Place || !bytes_.substr(end - kEnd64Place).starts_with("PK\6\7"sv)) {
      return {littleEndian(bytes_, end + 10, 2), littleEndian(bytes_, end + 16, 4)};
    }
    const std::uint64_t at = littleEndian(bytes_, end - kEnd64Place + 8, 8);
    require(at, kEnd64Header, "the 64-bit end of its directory");
    if (!bytes_.substr(at).starts_with("PK\6\6"sv)) {
      damaged("the 64-bit end of its directory");
    }
    return {littleEndian(bytes_, at + 32, 8), littleEndian(bytes_, at + 48, 8)};
  }
  /// The 64-bit values stand in a fixed order, and only those that the entry itself lacks.
  void readExtra(Entry& entry, std::string_view extra) const {
    while (extra.size() >= 4) {
      const std::uint64_t id = littleEndian(extra, 0, 2);
      const std::uint64_t length = littleEndian(extra, 2, 2);
      if (length > extra.size() - 4) {
        damaged("an extra field");
      }
      std::string_view field = extra.substr(4, length);
      for (std::uint64_t* value : {&entry.bytes, &entry.packed, &entry.offset}) {
        if (id == 1 && *value == kIn64Bits && field.size() >= 8) {
          *value = littleEndian(field, 0, 8);
          field.remove_prefix(8);
        }
      }
      extra.remove_prefix(4 + length);
    }
  }

  std::string_view bytes_;
  const std::string& name_;
};

}  // namespace

std::map<std::string, HostTensor> parseNpz(std::string_view bytes,
                                           const std::string& name,
                                           std::optional<std::uint64_t> maxBytes) {
  const Archive archive(bytes, name);
  const std::vector<Entry> entries = archive.entries();
  const std::uint64_t limit = maxBytes.value_or(defaultInflateLimit(bytes.size()));
  std::uint64_t unpacked = 0;
  for (const Entry& entry : entries) {  // several may share their bytes
    unpacked += std::min(entry.bytes, std::numeric_limits<std::uint64_t>::max() - unpacked);
  }
  requireInflateLimit(unpacked, limit, name);
  std::map<std::string, HostTensor> arrays;
  for (const Entry& entry : entries) {
    std::string key = entry.name;
    if (key.ends_with(".npy")) {
      key.resize(key.size() - 4);
    }
    if (arrays.contains(key)) {
      raise<FileError>("'{}': the array '{}' comes twice", name, key);
    }
    arrays.emplace(std::move(key), parseNpy(archive.content(entry), name + ":" + entry.name));
  }
  return arrays;
}

std::map<std::string, HostTensor> readNpz(const std::string& path,
                                          std::optional<std::uint64_t> maxBytes) {
  return parseNpz(readFile(path), path, maxBytes);
}

}  // namespace sluice::data
