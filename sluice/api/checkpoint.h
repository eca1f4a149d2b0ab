// Checkpoints: all that a training run needs to go on, in one file. The file is written under
// another name, synced and renamed, and has a checksum: a crash at any moment leaves the
// checkpoints that were there. It is a safetensors file: weights and buffers have PyTorch's names,
// the optimizer's state names that begin with "optimizer/".
//
// A file belongs to a training run (Model::runId), which goes on when it is resumed. Several runs
// may share a folder: each keeps and removes its own files alone.
//
//   CheckpointFolder checkpoints("run1", 3);
//   const std::optional<Resumed> resumed = checkpoints.resume(model, loader);
//   ... checkpoints.save(model, loader.state());
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/data_loader.h"
#include "sluice/api/fit.h"
#include "sluice/api/model.h"
#include "sluice/tensor/safetensors.h"

namespace sluice {

struct Checkpoint {
  TrainingState state;
  std::int64_t updates = 0;  ///< weight updates made
  std::string loader;        ///< where the data loader stands, in its own words (UTF-8)
};

/// Writes the file, whole or not at all. Throws FileError.
void writeCheckpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// Throws FileError for a file that is missing, damaged, no checkpoint or of another version.
Checkpoint readCheckpoint(const std::filesystem::path& path);

namespace detail {
/// What the metadata of a checkpoint's file must say under "checksum", by all else in the file.
std::string checkpointChecksum(const SafeTensors& content);
}  // namespace detail

/// What a run goes on from.
struct Resumed {
  std::filesystem::path path;
  std::int64_t updates = 0;
  std::string loader;
  std::string run;  ///< empty: of a file that does not say
};

/// A folder of checkpoints, named by their number of updates, their run, and a number that grows
/// with every file of the folder.
class CheckpointFolder {
 public:
  /// Makes the folder; the newest `keep` checkpoints of a run stay. Throws FileError, and
  /// InvalidArgument unless at least one is kept.
  explicit CheckpointFolder(std::filesystem::path folder, std::int64_t keep = 3);

  const std::filesystem::path& folder() const { return folder_; }
  /// Whole or not; the run that was written last comes last, and of a run the oldest file first.
  std::vector<std::filesystem::path> files() const;
  /// The newest one that is whole of the run that was written last; those that are not whole are
  /// left out with a warning. Throws FileError if only other runs have one.
  std::optional<std::filesystem::path> latest() const;

  /// Returns the name of the file. Other threads' calls of the model wait meanwhile.
  std::filesystem::path save(const Model& model, std::string_view loader = "") const;
  /// Loads what latest() gives, if there is any, into a model of the same weights and optimizer, on
  /// any devices and under any strategy; the model then goes on with that run. Logs which file it
  /// is, and a warning if the folder holds other runs. Throws InvalidArgument if it does not fit,
  /// FileError as latest().
  std::optional<Resumed> resume(Model& model) const;
  /// And puts the loader where it was; at the end of an epoch, to the begin of the next one. With
  /// fit, its epoch() then is FitOptions::firstEpoch. Throws InvalidArgument if it does not fit.
  std::optional<Resumed> resume(Model& model, DataLoader& loader) const;

 private:
  struct Found {
    std::filesystem::path path;
    Checkpoint checkpoint;
  };
  std::optional<Found> newest() const;
  void removeOld(std::string_view run) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// A callback of fit that saves after every `every` steps and at the end. Model and loader must
/// outlive it. Throws InvalidArgument unless `every` is above 0.
std::unique_ptr<Callback> checkpointing(const Model& model,
                                        const DataLoader& loader,
                                        CheckpointFolder folder,
                                        std::int64_t every);

}  // namespace sluice
