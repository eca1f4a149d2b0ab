#include "sluice/api/executable_cache.h"

#include <algorithm>

#include "sluice/api/environment_dumps.h"
#include "sluice/base/byte_code.h"
#include "sluice/base/environment.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/section_file.h"
#include "sluice/compile/compiled_bytes.h"
#include "sluice/ops/op_list.h"
#include "sluice/program/byte_form.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

compiler::Compiled programOf(const std::string& bytes) {
  ByteReader in(bytes, "entry of the cache");
  compiler::Compiled compiled = compiler::readCompiled(in, ops::opSet());
  in.end();
  return compiled;
}

}  // namespace

std::string executableCacheFolder(const Options& options) {
  if (options.compile().cacheFolder) {
    return *options.compile().cacheFolder;
  }
  for (const char* original : {"POPTORCH_CACHE_DIR", "POPART_CACHE_DIR"}) {
    if (std::optional<std::string> folder = environmentValue("SLUICE_CACHE_DIR", original)) {
      return *std::move(folder);
    }
  }
  return "";
}

std::optional<compiler::Compiled> ExecutableCache::find(std::string_view key,
                                                        const Check& check) const {
  std::optional<compiler::Compiled> found = findAhead(key, check);
  if (!found) {
    files_.find(key, CacheContent::Program, [&](const std::string& bytes) {
      compiler::Compiled compiled = programOf(bytes);
      check(compiled);
      found = std::move(compiled);
    });
  }
  if (found) {
    log::info("cache", "a program comes from '{}'", files_.pathOf(key).string());
  }
  return found;
}

std::optional<compiler::Compiled> ExecutableCache::findAhead(std::string_view key,
                                                             const Check& check) const {
  const fs::path path = files_.pathOf(key);
  if (preloaded_ == nullptr || !preloaded_->contains(path)) {
    return std::nullopt;
  }
  try {
    const SectionFile entry(preloaded_->at(path), path.string(), FileCache::expected());
    const auto bytes = FileCache::resultOf(entry, key, CacheContent::Program);
    if (!bytes) {
      return std::nullopt;
    }
    compiler::Compiled compiled = programOf(*bytes);
    check(compiled);
    FileCache::touch(path);
    return compiled;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {  // the file may be another one by now
    log::debug("cache", "'{}' was preloaded in vain: {}", path.string(), error.message());
    return std::nullopt;
  }
}

void ExecutableCache::preload() {
  preloaded_ = preloadedEntries(*this);
}

void ExecutableCache::store(std::string_view key, const compiler::Compiled& compiled) const {
  try {
    ByteWriter program;
    compiler::writeCompiled(program, compiled);
    files_.store(key, CacheContent::Program, program.bytes());
  } catch (const Error& error) {
    log::warn("cache", "a program is not kept: {}", error.message());
  }
}

std::vector<FileCache::File> ExecutableCache::verify() const {
  return files_.verify([](const std::string& bytes) { static_cast<void>(programOf(bytes)); });
}

std::shared_ptr<ExecutableCache> executableCache(const Options& options) {
  const std::string folder = executableCacheFolder(options);
  const bool dumped = !options.dumpDirectory().empty() || !dumpsOfEnvironment().folder.empty();
  if (folder.empty() || dumped) {  // dumps are made by compiling
    return nullptr;
  }
  auto cache = std::make_shared<ExecutableCache>(folder, options.compile().cacheBytes);
  if (asksForPreload()) {
    cache->preload();
  }
  return cache;
}

std::shared_ptr<const FileCache> codeCache(const Options& options) {
  const std::string folder = executableCacheFolder(options);
  return folder.empty() ? nullptr
                        : std::make_shared<const FileCache>(folder, options.compile().cacheBytes);
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
  key.flag(request.numbersNames);
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
