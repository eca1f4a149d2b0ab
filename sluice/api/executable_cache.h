// ExecutableCache: compiled programs in a folder (base/file_cache.h), so that the same model is
// compiled once. Devices keep there what they compile themselves.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/api/cache_preload.h"
#include "sluice/api/options.h"
#include "sluice/api/target_record.h"
#include "sluice/base/file_cache.h"
#include "sluice/compile/compile.h"

namespace sluice {

class ExecutableCache {
 public:
  using File = FileCache::File;

  ExecutableCache(std::filesystem::path folder, std::uint64_t maxBytes)
      : files_(std::move(folder), maxBytes) {}

  const std::filesystem::path& folder() const { return files_.folder(); }
  /// Reads the entries ahead; the first time in this process that the folder is preloaded.
  void preload();
  /// The program with this key. `check` throws if it may not be used; the file is then removed.
  using Check = std::function<void(const compiler::Compiled&)>;
  std::optional<compiler::Compiled> find(std::string_view key, const Check& check) const;
  /// Adds a program as FileCache::store does.
  void store(std::string_view key, const compiler::Compiled& compiled) const;

  /// As FileCache has them, for entries of all kinds.
  std::vector<File> files() const { return files_.files(); }
  std::uint64_t bytes() const { return files_.bytes(); }
  std::size_t clear() const { return files_.clear(); }
  /// As FileCache has it: removes damaged files and returns them, and those that cannot be
  /// checked, such as programs with custom ops whose library is not loaded.
  std::vector<File> verify() const;

 private:
  /// The same among the entries that were read ahead.
  std::optional<compiler::Compiled> findAhead(std::string_view key, const Check& check) const;

  FileCache files_;
  std::shared_ptr<const PreloadedEntries> preloaded_;  // null: none
};

/// The folder that the options or the environment name; empty: none.
std::string executableCacheFolder(const Options& options);

/// The cache that the options, or SLUICE_CACHE_DIR, ask for; null: none.
std::shared_ptr<ExecutableCache> executableCache(const Options& options);

/// The same folder for what devices compile; also if programs are not taken from it.
std::shared_ptr<const FileCache> codeCache(const Options& options);

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
