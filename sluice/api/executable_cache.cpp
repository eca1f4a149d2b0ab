#include "sluice/api/executable_cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "sluice/base/byte_code.h"
#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/log.h"
#include "sluice/base/section_file.h"
#include "sluice/compile/compiled_bytes.h"
#include "sluice/ops/op_list.h"
#include "sluice/program/byte_form.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheMagic = "SLUICEca";
constexpr FormatVersion kCacheVersion{1, 0};
constexpr std::string_view kCacheSuffix = ".slc";
constexpr std::uint32_t kKeySection = 1;
constexpr std::uint32_t kProgramSection = 2;

constexpr SectionFile::Expected kExpectedEntry{
    .magic = kCacheMagic, .major = kCacheVersion.major, .what = "entry of the cache"};

SectionFile openEntry(const fs::path& path) {
  return {path, kExpectedEntry};
}

/// Held while the size of the folder is kept; other processes wait.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open((folder / ".lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    while (descriptor_ >= 0 && ::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;  // below 0: the folder cannot be locked, and the rest says why
};

void removeEntry(const fs::path& path) {
  std::error_code ignored;  // another process may have removed it
  fs::remove(path, ignored);
}

std::string folderOfEnvironment() {
  for (const char* original : {"POPTORCH_CACHE_DIR", "POPART_CACHE_DIR"}) {
    if (std::optional<std::string> folder = environmentValue("SLUICE_CACHE_DIR", original)) {
      return *std::move(folder);
    }
  }
  return "";
}

}  // namespace

ExecutableCache::ExecutableCache(fs::path folder, std::uint64_t maxBytes)
    : folder_(std::move(folder)), maxBytes_(maxBytes) {}

fs::path ExecutableCache::pathOf(std::string_view key) const {
  return folder_ / fmt::format("{:016x}{:016x}{}",
                               Hasher().add(key).digest(),
                               Hasher().add(1).add(key).digest(),
                               kCacheSuffix);
}

std::optional<compiler::Compiled> ExecutableCache::find(std::string_view key,
                                                        const Check& check) const {
  const fs::path path = pathOf(key);
  if (std::optional<compiler::Compiled> ahead = findAhead(path, key, check)) {
    return ahead;
  }
  std::error_code failed;
  if (!fs::exists(path, failed)) {
    return std::nullopt;
  }
  try {
    return read(openEntry(path), path, key, check);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    if (fs::exists(path, failed)) {  // else another process has removed it
      log::warn("cache", "'{}' is removed: {}", path.string(), error.message());
      removeEntry(path);
    }
    return std::nullopt;
  }
}

std::optional<compiler::Compiled> ExecutableCache::findAhead(const fs::path& path,
                                                             std::string_view key,
                                                             const Check& check) const {
  if (preloaded_ == nullptr || !preloaded_->contains(path)) {
    return std::nullopt;
  }
  try {
    return read(SectionFile(preloaded_->at(path), path.string(), kExpectedEntry), path, key, check);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {  // the file may be another one by now
    log::debug("cache", "'{}' was preloaded in vain: {}", path.string(), error.message());
    return std::nullopt;
  }
}

std::optional<compiler::Compiled> ExecutableCache::read(const SectionFile& file,
                                                        const fs::path& path,
                                                        std::string_view key,
                                                        const Check& check) {
  if (file.unpacked(file.one(kKeySection, "a key")) != key) {
    return std::nullopt;
  }
  const std::string bytes = file.unpacked(file.one(kProgramSection, "a program"));
  ByteReader in(bytes, fmt::format("entry of the cache '{}'", path.string()));
  compiler::Compiled compiled = compiler::readCompiled(in, ops::opSet());
  in.end();
  check(compiled);
  std::error_code gone;
  fs::last_write_time(path, fs::file_time_type::clock::now(), gone);
  log::info("cache", "a program comes from '{}'", path.string());
  return compiled;
}

void ExecutableCache::preload() {
  preloaded_ = preloadedEntries(*this);
}

void ExecutableCache::store(std::string_view key, const compiler::Compiled& compiled) const {
  try {
    ByteWriter program;
    compiler::writeCompiled(program, compiled);
    SectionWriter writer(kCacheMagic, kCacheVersion);
    writer.add(kKeySection, key);
    writer.add(kProgramSection, program.bytes());
    const std::string bytes = writer.bytes();
    if (bytes.size() > maxBytes_) {
      log::info("cache", "a program of {} bytes does not fit", bytes.size());
      return;
    }
    fs::create_directories(folder_);
    const FolderLock lock(folder_);
    makeRoom(bytes.size());
    writeFileAtomically(pathOf(key), bytes);
  } catch (const Error& error) {
    log::warn("cache", "a program is not kept: {}", error.message());
  } catch (const fs::filesystem_error& error) {
    log::warn("cache", "a program is not kept: {}", error.what());
  }
}

void ExecutableCache::makeRoom(std::uint64_t bytes) const {
  removeAbandonedParts(folder_, "");
  std::uint64_t sum = bytes;
  for (const File& file : files()) {
    sum += file.bytes;
    if (sum > maxBytes_) {
      removeEntry(file.path);
      sum -= file.bytes;
    }
  }
}

std::vector<ExecutableCache::File> ExecutableCache::files() const {
  std::vector<File> all;
  std::error_code failed;
  for (fs::directory_iterator it(folder_, failed), end; !failed && it != end;
       it.increment(failed)) {
    std::error_code gone;
    if (it->path().extension() != kCacheSuffix || !it->is_regular_file(gone)) {
      continue;
    }
    File file{it->path(), it->file_size(gone), it->last_write_time(gone)};
    if (!gone) {
      all.push_back(std::move(file));
    }
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    raise<FileError>("cannot list the cache '{}': {}", folder_.string(), failed.message());
  }
  std::ranges::sort(all, std::greater<>(), [](const File& f) { return std::pair(f.used, f.path); });
  return all;
}

std::uint64_t ExecutableCache::bytes() const {
  std::uint64_t sum = 0;
  for (const File& file : files()) {
    sum += file.bytes;
  }
  return sum;
}

std::vector<ExecutableCache::File> ExecutableCache::verify() const {
  std::vector<File> damaged;
  for (const File& file : files()) {
    try {
      const SectionFile entry = openEntry(file.path);
      const std::string bytes = entry.unpacked(entry.one(kProgramSection, "a program"));
      const std::string key = entry.unpacked(entry.one(kKeySection, "a key"));
      if (pathOf(key) != file.path) {
        raise<FileError>("it has another name than its key");
      }
      ByteReader in(bytes, fmt::format("entry of the cache '{}'", file.path.string()));
      static_cast<void>(compiler::readCompiled(in, ops::opSet()));
      in.end();
    } catch (const Error& error) {
      std::error_code failed;
      if (fs::exists(file.path, failed)) {
        log::warn("cache", "'{}' is removed: {}", file.path.string(), error.message());
        removeEntry(file.path);
        damaged.push_back(file);
      }
    }
  }
  return damaged;
}

std::size_t ExecutableCache::clear() const {
  const std::vector<File> all = files();
  for (const File& file : all) {
    removeEntry(file.path);
  }
  return all.size();
}

std::shared_ptr<ExecutableCache> executableCache(const Options& options) {
  const CompileOptions& compile = options.compile();
  const std::string folder = compile.cacheFolder ? *compile.cacheFolder : folderOfEnvironment();
  const char* dumps = std::getenv("SLUICE_DUMP");  // NOLINT(concurrency-mt-unsafe)
  const bool dumped = !options.dumpDirectory().empty() || (dumps != nullptr && *dumps != '\0');
  if (folder.empty() || dumped) {  // dumps are made by compiling
    return nullptr;
  }
  auto cache = std::make_shared<ExecutableCache>(folder, compile.cacheBytes);
  if (asksForPreload()) {
    cache->preload();
  }
  return cache;
}

std::string cacheKey(std::string_view model,
                     const TargetRecord& target,
                     const compiler::CompileRequest& request) {
  ByteWriter key;
  key.text(model);
  key.text(target.library);
  key.text(target.devices);
  for (const std::string& description : target.descriptions) {
    key.text(description);
  }
  key.fixed(target.tuning, 8);
  key.flag(request.lower.remoteInFile);
  key.number(std::uint64_t{request.remoteBytes});
  program::writeStatePlan(key, request.state);
  return key.bytes();
}

InitialValues::InitialValues(const compiler::CompileRequest& request) {
  for (const ir::Variable& variable : request.graph.variables()) {
    values_.emplace(variable.name, variable.initializer);
  }
  for (const program::PlacedVariable& placed : request.state.variables()) {
    values_.emplace(placed.variable.name, placed.variable.initializer);
  }
}

bool InitialValues::cover(const program::StatePlan& plan) const {
  return std::ranges::all_of(plan.variables(), [&](const program::PlacedVariable& placed) {
    return placed.variable.initializer.kind != ir::Initializer::Kind::Tensor ||
           values_.contains(placed.variable.name);
  });
}

program::StatePlan InitialValues::restored(const program::StatePlan& plan) const {
  std::vector<program::PlacedVariable> variables = plan.variables();
  for (program::PlacedVariable& placed : variables) {
    if (const auto found = values_.find(placed.variable.name); found != values_.end()) {
      placed.variable.initializer = found->second;
    }
  }
  return {std::move(variables), plan.arenas()};
}

}  // namespace sluice
