// sluice cache: what is in a cache of executables.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/wait_line.h"
#include "sluice/api/executable_cache.h"
#include "sluice/base/error.h"
#include "sluice/ops/custom_op.h"

namespace sluice::cli {
namespace {

ExecutableCache openCache(std::string folder) {
  if (folder.empty()) {
    folder = executableCacheFolder(Options());
  }
  if (folder.empty()) {
    raise<InvalidArgument>("which cache? give --folder, or set SLUICE_CACHE_DIR");
  }
  return {folder, CompileOptions().cacheBytes};
}

int listCache(const std::string& folder) {
  const ExecutableCache cache = openCache(folder);
  for (const ExecutableCache::File& file : cache.files()) {
    const auto used = std::chrono::file_clock::to_sys(file.used);
    fmt::print("{:>12}  {:%Y-%m-%d %H:%M:%S}  {}\n",
               file.bytes,
               std::chrono::time_point_cast<std::chrono::seconds>(used),
               file.path.filename().string());
  }
  return 0;
}

int verifyCache(const std::string& folder) {
  const ExecutableCache cache = openCache(folder);
  const std::size_t before = cache.files().size();
  const std::vector<ExecutableCache::File> wrong = [&] {
    const WaitLine line("checking files");
    return cache.verify();
  }();
  const auto left =
      std::ranges::count_if(wrong, [](const auto& file) { return !file.kept.empty(); });
  const auto unread =
      std::ranges::count_if(wrong, [](const auto& file) { return !file.unread.empty(); });
  const std::size_t damaged = wrong.size() - static_cast<std::size_t>(unread);
  if (left == 0) {
    fmt::print("{} files, {} damaged and removed", before, damaged);
  } else {
    fmt::print("{} files, {} damaged, {} of which cannot be removed", before, damaged, left);
  }
  fmt::print("{}\n", unread == 0 ? "" : fmt::format(", {} could not be checked", unread));
  return wrong.empty() ? 0 : kFailed;
}

int clearCache(const std::string& folder) {
  fmt::print("{} files removed\n", openCache(folder).clear());
  return 0;
}

int sizeOfCache(const std::string& folder) {
  const ExecutableCache cache = openCache(folder);
  fmt::print("{} bytes in {} files\n", cache.bytes(), cache.files().size());
  return 0;
}

}  // namespace

void addCache(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("cache", "List, check or empty a cache of compiled programs");
  command->require_subcommand(1);
  auto folder = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* what, int (*run)(const std::string&)) {
    CLI::App* sub = command->add_subcommand(name, what);
    sub->add_option("--folder", *folder, "The folder of the cache; else SLUICE_CACHE_DIR");
    sub->callback([&action, folder, run] { action = [folder, run] { return run(*folder); }; });
    return sub;
  };
  add("list", "All files: bytes, time of the last use (UTC), name", listCache);
  add("verify",
      "Remove damaged files; exit code 1 if there were any, or files that cannot be checked",
      verifyCache)
      ->add_option_function<std::vector<std::string>>(
          "--custom-ops",
          [](const std::vector<std::string>& libraries) {
            std::ranges::for_each(libraries, ops::loadCustomOps);
          },
          "A library with custom ops of the programs");
  add("clear", "Remove all files", clearCache);
  add("size", "Bytes and number of files", sizeOfCache);
}

}  // namespace sluice::cli
