#include "sluice/api/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <span>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/log.h"
#include "sluice/tensor/safetensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "sluice.checkpoint";
constexpr std::string_view kVersion = "1";
constexpr std::string_view kChecksum = "checksum";
constexpr std::string_view kOptimizer = "optimizer/";
constexpr std::string_view kReplica = "replica/";
constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";

std::string checksumOf(const SafeTensors& content) {
  Hasher hasher;
  for (const auto& [name, text] : content.metadata) {
    if (name != kChecksum) {
      hasher.add(name).add(text);
    }
  }
  for (const auto& [name, tensor] : content.tensors) {
    hasher.add(name).add(tensor.type().str());
    hasher.add(std::span<const std::byte>(tensor.bytes(), tensor.byteCount()));
  }
  return fmt::format("{:016x}", hasher.digest());
}

template <class T>
std::optional<T> numberIn(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

/// A number of the metadata that must be there.
template <class T>
T numberOf(const SafeTensors& content, std::string_view name, std::string_view file) {
  const auto found = content.metadata.find(name);
  const std::optional<T> value =
      found == content.metadata.end() ? std::nullopt : numberIn<T>(found->second);
  if (!value) {
    raise<FileError>("'{}' is no checkpoint: it has no number '{}'", file, name);
  }
  return *value;
}

void requireWhole(const SafeTensors& content, std::string_view file) {
  const auto text = [&](std::string_view name) {
    const auto found = content.metadata.find(name);
    return found == content.metadata.end() ? std::string_view() : std::string_view(found->second);
  };
  if (text("format") != kFormat) {
    raise<FileError>("'{}' is no checkpoint of Sluice", file);
  }
  if (text("version") != kVersion) {
    raise<FileError>("'{}' is a checkpoint of version '{}'; this program reads version {}",
                     file,
                     text("version"),
                     kVersion);
  }
  if (text(kChecksum) != checksumOf(content)) {
    raise<FileError>("'{}' is damaged: its checksum is {}, the one of its content {}",
                     file,
                     text(kChecksum),
                     checksumOf(content));
  }
}

/// "replica/2/norm.running_mean" to buffer "norm.running_mean" of the third replica.
void addReplicaBuffer(TrainingState& state,
                      std::string_view name,
                      const HostTensor& tensor,
                      std::string_view file) {
  const std::string_view rest = name.substr(kReplica.size());
  const std::size_t slash = rest.find('/');
  const auto replica = numberIn<std::size_t>(rest.substr(0, slash));
  constexpr std::size_t kMostReplicas = 1 << 16;
  if (slash == std::string_view::npos || !replica || *replica == 0 || *replica > kMostReplicas) {
    raise<FileError>("'{}': '{}' is no buffer of a replica", file, name);
  }
  state.replicas.resize(std::max(state.replicas.size(), *replica));
  state.replicas[*replica - 1].emplace(rest.substr(slash + 1), tensor);
}

/// A file of the folder: "checkpoint-000000000120-20250131T235959-0a1b2c3d-7.safetensors", or, of
/// earlier versions, "checkpoint-000000000120.safetensors".
struct FileName {
  std::int64_t updates = 0;
  std::string run;          // empty: not known
  std::int64_t number = 0;  // of the files of the folder, as they were written
  fs::path path = {};

  std::string str() const {
    return fmt::format("{}{:012}-{}-{}{}", kPrefix, updates, run, number, kSuffix);
  }
};

std::optional<FileName> parseName(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  const std::string_view middle =
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  const std::size_t first = middle.find('-');
  const auto updates = numberIn<std::int64_t>(middle.substr(0, first));
  if (!updates || first == std::string_view::npos) {
    return updates ? std::optional(FileName{*updates, "", 0, path}) : std::nullopt;
  }
  const std::size_t last = middle.rfind('-');
  const auto number = numberIn<std::int64_t>(middle.substr(last + 1));
  const std::string_view run = last > first ? middle.substr(first + 1, last - first - 1) : "";
  return number && isRunId(run) ? std::optional(FileName{*updates, std::string(run), *number, path})
                                : std::nullopt;
}

std::string runText(std::string_view run) {
  return run.empty() ? "a run without a name" : fmt::format("run {}", run);
}

/// As CheckpointFolder::files has them.
std::vector<FileName> namesIn(const fs::path& folder) {
  std::vector<FileName> names;
  std::map<std::string, std::int64_t, std::less<>> lastOfRun;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed); !failed && at != fs::directory_iterator();
       at.increment(failed)) {
    if (const auto name = parseName(at->path())) {
      std::int64_t& last = lastOfRun[name->run];
      last = std::max(last, name->number);
      names.push_back(*name);
    }
  }
  if (failed) {
    raise<FileError>(
        "cannot read the folder '{}' of checkpoints: {}", folder.string(), failed.message());
  }
  std::ranges::sort(names, {}, [&](const FileName& name) {
    return std::tuple(lastOfRun[name.run], name.run, name.number, name.updates);
  });
  return names;
}

/// A checkpoint that was read.
struct Found {
  fs::path path;
  Checkpoint checkpoint;
};

/// The newest intact one of these, all of one folder, the oldest first.
std::optional<Found> newestOf(std::span<const FileName> names) {
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    try {
      return Found{name->path, readCheckpoint(name->path)};
    } catch (const FileError& error) {
      log::warn("checkpoint", "left out: {}", error.message());
    }
  }
  return std::nullopt;
}

/// The newest intact one of the run that was written most recently.
std::optional<Found> newestIn(const fs::path& folder) {
  const std::vector<FileName> all = namesIn(folder);
  std::optional<Found> found = newestOf(all);
  if (!found) {
    return std::nullopt;
  }
  const auto name = std::ranges::find(all, found->path, &FileName::path);
  if (name->run != all.back().run) {
    raise<FileError>(
        "'{}' holds no whole checkpoint of {}, which was written last; '{}' is of {}: to go on "
        "with that one, move the damaged files, such as '{}', out of the folder",
        folder.string(),
        runText(all.back().run),
        name->path.filename().string(),
        runText(name->run),
        all.back().path.filename().string());
  }
  return found;
}

Resumed load(Found found, Model& model) {
  try {
    model.loadTrainingState(found.checkpoint.state);
  } catch (Error& error) {
    error.at(found.path.string());
    throw;
  }
  const std::string& run = found.checkpoint.state.run;
  log::info("checkpoint",
            "going on from '{}': {} updates of {}",
            found.path.string(),
            found.checkpoint.updates,
            runText(run));
  return {found.path, found.checkpoint.updates, std::move(found.checkpoint.loader), run};
}

/// Moves the loader to its saved position; if that is the end of an epoch, to the next one.
void moveTo(const Resumed& resumed, DataLoader& loader) {
  loader.restore(resumed.loader);
  if (loader.hasLength() && loader.position() == loader.length()) {
    loader.next();  // the end of the epoch
  }
}

}  // namespace

std::string detail::checkpointChecksum(const SafeTensors& content) {
  return checksumOf(content);
}

bool detail::isCheckpoint(const SafeTensors& content) {
  const auto format = content.metadata.find("format");
  return format != content.metadata.end() && format->second == kFormat;
}

void writeCheckpoint(const fs::path& path, const Checkpoint& checkpoint) {
  const TrainingState& state = checkpoint.state;
  SafeTensors content;
  for (const auto& [name, tensor] : state.model) {
    if (name.starts_with(kOptimizer) || name.starts_with(kReplica)) {
      raise<InvalidArgument>("checkpoint: names of weights cannot begin with '{}' or '{}': '{}'",
                             kOptimizer,
                             kReplica,
                             name);
    }
    content.tensors.emplace(name, tensor);
  }
  for (const auto& [name, tensor] : flattened(state.optimizer)) {
    content.tensors.emplace(fmt::format("{}{}", kOptimizer, name), tensor);
  }
  for (std::size_t r = 0; r < state.replicas.size(); ++r) {
    for (const auto& [name, tensor] : state.replicas[r]) {
      content.tensors.emplace(fmt::format("{}{}/{}", kReplica, r + 1, name), tensor);
    }
  }
  content.metadata = {{"format", std::string(kFormat)},
                      {"version", std::string(kVersion)},
                      {"updates", std::to_string(checkpoint.updates)},
                      {"seed", std::to_string(state.rng.seed)},
                      {"micro_batch", std::to_string(state.rng.microBatch)},
                      {"loader", checkpoint.loader}};
  if (!state.run.empty()) {
    content.metadata.emplace("run", state.run);
  }
  if (!state.rule.empty()) {
    content.metadata.emplace("optimizer", state.rule);
  }
  content.metadata.emplace(kChecksum, checksumOf(content));
  writeSafeTensors(path, content);
}

Checkpoint readCheckpoint(const fs::path& path) {
  const SafeTensors content = readSafeTensors(path);
  const std::string file = path.string();
  requireWhole(content, file);
  Checkpoint checkpoint;
  checkpoint.updates = numberOf<std::int64_t>(content, "updates", file);
  checkpoint.state.rng = {numberOf<std::uint64_t>(content, "seed", file),
                          numberOf<std::int64_t>(content, "micro_batch", file)};
  const auto text = [&](std::string_view name) {  // files of earlier versions lack some
    const auto found = content.metadata.find(name);
    return found == content.metadata.end() ? std::string() : found->second;
  };
  checkpoint.loader = text("loader");
  checkpoint.state.rule = text("optimizer");
  checkpoint.state.run = text("run");
  if (!checkpoint.state.run.empty() && !isRunId(checkpoint.state.run)) {
    raise<FileError>(
        "'{}' is no checkpoint: '{}' cannot be the name of a run", file, checkpoint.state.run);
  }
  NamedTensors optimizer;
  for (const auto& [name, tensor] : content.tensors) {
    if (name.starts_with(kOptimizer)) {
      optimizer.emplace(name.substr(kOptimizer.size()), tensor);
    } else if (name.starts_with(kReplica)) {
      addReplicaBuffer(checkpoint.state, name, tensor, file);
    } else {
      checkpoint.state.model.emplace(name, tensor);
    }
  }
  try {
    checkpoint.state.optimizer = sectioned(optimizer);
  } catch (const InvalidArgument& error) {
    raise<FileError>("'{}' is no checkpoint: optimizer state {}", file, error.message());
  }
  // A rule without state has an empty section, which the file does not show.
  checkpoint.state.optimizer[std::string(kIpuState)];
  return checkpoint;
}

CheckpointFolder::CheckpointFolder(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  if (keep < 1) {
    raise<InvalidArgument>("checkpoints: {} are to be kept, expected at least 1", keep);
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (std::error_code unknown; !fs::is_directory(folder_, unknown)) {
    raise<FileError>("cannot make the folder '{}' of checkpoints: {}",
                     folder_.string(),
                     error ? error.message() : "it is no folder");
  }
}

std::vector<fs::path> CheckpointFolder::files() const {
  std::vector<fs::path> paths;
  for (FileName& name : namesIn(folder_)) {
    paths.push_back(std::move(name.path));
  }
  return paths;
}

std::optional<fs::path> CheckpointFolder::latest() const {
  std::optional<Found> found = newestIn(folder_);
  return found ? std::optional(std::move(found->path)) : std::nullopt;
}

fs::path CheckpointFolder::save(const Model& model, std::string_view loader) const {
  const runtime::Turn::Hold turn = model.exclusive();  // counts, name and state belong together
  const TrainingState state = model.trainingState();   // of all processes
  return model.inFirstProcess("saving a checkpoint", [&] {
    FileName name{model.updates(), model.runId()};
    for (const FileName& other : namesIn(folder_)) {
      name.number = std::max(name.number, other.number);
    }
    ++name.number;
    const fs::path path = folder_ / name.str();
    writeCheckpoint(path, {state, name.updates, std::string(loader)});
    removeOld(name.run);
    return path.string();
  });
}

/// Of this run alone: what others left here stays.
void CheckpointFolder::removeOld(std::string_view run) const {
  std::vector<fs::path> old;
  for (FileName& name : namesIn(folder_)) {
    if (name.run == run) {
      old.push_back(std::move(name.path));
    }
  }
  old.resize(old.size() - std::min(old.size(), static_cast<std::size_t>(keep_)));
  for (const fs::path& path : old) {
    std::error_code ignored;  // another time
    fs::remove(path, ignored);
  }
  removeAbandonedParts(folder_, kPrefix);
}

std::optional<Resumed> CheckpointFolder::resume(Model& model) const {
  std::optional<Found> found = newestIn(folder_);
  if (!found) {
    return std::nullopt;
  }
  Resumed resumed = load(*std::move(found), model);
  std::set<std::string> others;
  for (const FileName& name : namesIn(folder_)) {
    others.insert(name.run.empty() ? "one without a name" : name.run);
  }
  if (others.size() > 1) {
    log::warn("checkpoint",
              "'{}' holds checkpoints of {} runs ({}); '{}' is of the one that was written last",
              folder_.string(),
              others.size(),
              fmt::join(others, ", "),
              resumed.path.filename().string());
  }
  return resumed;
}

std::optional<Resumed> CheckpointFolder::resume(Model& model, DataLoader& loader) const {
  std::optional<Resumed> resumed = resume(model);
  if (resumed) {
    moveTo(*resumed, loader);
  }
  return resumed;
}

Resumed CheckpointFolder::restore(Model& model, DataLoader& loader) const {
  std::vector<FileName> own = namesIn(folder_);
  std::erase_if(own, [run = model.runId()](const FileName& name) { return name.run != run; });
  std::optional<Found> found = newestOf(own);
  if (!found) {
    raise<FileError>(
        "'{}' holds no whole checkpoint of {}, which goes on from there after a failure",
        folder_.string(),
        runText(model.runId()));
  }
  Resumed resumed = load(*std::move(found), model);
  moveTo(resumed, loader);
  return resumed;
}

Resumed resumeFrom(const fs::path& file, Model& model, DataLoader& loader) {
  Resumed resumed = load({file, readCheckpoint(file)}, model);
  moveTo(resumed, loader);
  return resumed;
}

}  // namespace sluice
