// ExecutableCache: compiled programs in a folder, so that the same model is compiled once. Any
// number of processes may use one folder at the same time.
//
// A file holds the whole key and the program. A hit compares the keys byte by byte, so there are no
// wrong ones. A damaged file is a miss: it is removed, and the log says so. Files are renamed into
// place, and the size of the folder is kept under a lock. Whatever goes wrong with the folder, a
// model is compiled all the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/cache_preload.h"
#include "sluice/api/options.h"
#include "sluice/api/target_record.h"
#include "sluice/compile/compile.h"

namespace sluice {

class SectionFile;

class ExecutableCache {
 public:
  ExecutableCache(std::filesystem::path folder, std::uint64_t maxBytes);

  const std::filesystem::path& folder() const { return folder_; }
  /// Reads the entries ahead; the first time in this process that the folder is preloaded.
  void preload();
  /// The program with this key. `check` throws if it may not be used; the file is then removed.
  using Check = std::function<void(const compiler::Compiled&)>;
  std::optional<compiler::Compiled> find(std::string_view key, const Check& check) const;
  /// Adds a program, and removes the files that were used least recently until all fit. Only logs
  /// what goes wrong.
  void store(std::string_view key, const compiler::Compiled& compiled) const;

  struct File {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type used;
  };
  /// All files, that which was used most recently first. Throws FileError.
  std::vector<File> files() const;
  std::uint64_t bytes() const;
  /// Removes damaged files and returns them.
  std::vector<File> verify() const;
  /// Removes all files and returns how many there were.
  std::size_t clear() const;

 private:
  std::filesystem::path pathOf(std::string_view key) const;
  /// The same among the entries that were read ahead.
  std::optional<compiler::Compiled> findAhead(const std::filesystem::path& path,
                                              std::string_view key,
                                              const Check& check) const;
  /// The program of an entry, if it has this key. Throws FileError, and what `check` throws.
  static std::optional<compiler::Compiled> read(const SectionFile& file,
                                                const std::filesystem::path& path,
                                                std::string_view key,
                                                const Check& check);
  void makeRoom(std::uint64_t bytes) const;

  std::filesystem::path folder_;
  std::uint64_t maxBytes_;
  std::shared_ptr<const PreloadedEntries> preloaded_;  // null: none
};

/// The cache that the options, or SLUICE_CACHE_DIR, ask for; null: none.
std::shared_ptr<ExecutableCache> executableCache(const Options& options);

/// How a compilation uses the cache.
struct CacheUse {
  const ExecutableCache& cache;
  std::string key;  ///< graph, options and optimizer
  /// Called with the variables of a program that was found.
  std::function<void(const program::StatePlan&)> onHit;
};

/// The whole key: with the devices, the version, and the places of known variables.
std::string cacheKey(std::string_view model,
                     const TargetRecord& target,
                     const compiler::CompileRequest& request);

/// Initial values that are tensors, which files leave out.
class InitialValues {
 public:
  /// Those of the variables of a request.
  explicit InitialValues(const compiler::CompileRequest& request);
  /// Whether there is one for each variable of the plan that starts from a tensor.
  bool cover(const program::StatePlan& plan) const;
  /// The plan whose variables start from them.
  program::StatePlan restored(const program::StatePlan& plan) const;

 private:
  std::map<std::string, ir::Initializer, std::less<>> values_;
};

}  // namespace sluice
