// Checkpoints: all that a training run needs to continue, in one file. The file has a checksum, and
// it is written under another name, synced and then renamed, so that a crash at any moment leaves
// the older checkpoints intact. It is a safetensors file: weights and buffers have PyTorch's names,
// and the names of the optimizer's state begin with "optimizer/".
//
// A file belongs to a training run (Model::runId), and a model that resumes from it continues that
// run. Several runs may share a folder; each of them removes only its own files.
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
#include "sluice/api/training_state.h"
#include "sluice/tensor/safetensors.h"

#pragma GCC visibility push(default)

namespace sluice {

// Optimizer state in PyTorch's layout and in ours. PyTorch numbers parameters in the order of
// net.parameters(), group by group, and so do we. The result of PyTorch's optimizer.state_dict() is
// flattened into two sections of tensors (docs/state.md has the few lines of Python).

/// Converts the state of PyTorch's optimizer of the same name for loadOptimizerStateDict of this
/// model. Throws InvalidArgument for the state of another rule or of other parameters, and
/// Unsupported for a rule that PyTorch does not have. Attributes that this library does not know
/// are named in a warning, once, or only in the debug log
/// (Options::relaxOptimizerAttributesChecks).
OptimizerStateDict importTorch(Model& model, const OptimizerStateDict& torch);

/// Converts the state of the model's optimizer for PyTorch's optimizer of the same name over all
/// weights.
OptimizerStateDict exportTorch(const Model& model);

struct Checkpoint {
  TrainingState state;
  std::int64_t updates = 0;  ///< weight updates made so far
  std::string loader;        ///< the position of the data loader, DataLoader::state() (UTF-8)
};

/// Writes the whole file or, if it throws FileError, nothing.
void writeCheckpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
/// Throws FileError for a file that is missing, damaged, not a checkpoint, or of another version.
Checkpoint readCheckpoint(const std::filesystem::path& path);

namespace detail {
/// The checksum of a checkpoint's file, over everything else in it; the metadata holds it under
/// "checksum".
std::string checkpointChecksum(const SafeTensors& content);
/// Whether a file says that it is a checkpoint, sound or not.
bool isCheckpoint(const SafeTensors& content);
}  // namespace detail

/// The checkpoint that a run continues from.
struct Resumed {
  std::filesystem::path path;
  std::int64_t updates = 0;
  std::string loader;
  std::string run;  ///< empty: the file does not say
};

/// A folder of checkpoints. The name of a file has its number of updates, its run, and a number
/// that grows with every file in the folder.
class CheckpointFolder {
 public:
  /// Creates the folder. The newest `keep` checkpoints of each run are kept. Throws FileError, and
  /// InvalidArgument if `keep` is below 1.
  explicit CheckpointFolder(std::filesystem::path folder, std::int64_t keep = 3);

  const std::filesystem::path& folder() const { return folder_; }
  /// All files, including damaged ones, ordered by run and then by age: the run written most
  /// recently comes last, and the newest file of a run comes after its older ones.
  std::vector<std::filesystem::path> files() const;
  /// The newest intact checkpoint of the run that was written most recently. Damaged files are
  /// skipped with a warning. Throws FileError if only other runs have an intact checkpoint.
  std::optional<std::filesystem::path> latest() const;

  /// Writes a checkpoint and returns its path. Calls of the model from other threads wait until it
  /// is written.
  std::filesystem::path save(const Model& model, std::string_view loader = "") const;
  /// Loads latest(), if there is one, into a model with the same weights and optimizer, on any
  /// devices and under any strategy. The model then continues that run. Logs the name of the file,
  /// and a warning if the folder also holds other runs. Throws InvalidArgument if the checkpoint
  /// does not fit the model, and FileError as latest() does.
  std::optional<Resumed> resume(Model& model) const;
  /// The same, and also moves the loader to its saved position; if that is the end of an epoch, to
  /// the start of the next one. Pass the loader's epoch() to fit as FitOptions::firstEpoch. Throws
  /// InvalidArgument if the position does not fit the loader.
  std::optional<Resumed> resume(Model& model, DataLoader& loader) const;
  /// Loads the newest intact checkpoint of the model's own run, after a failure. Throws FileError
  /// if there is none.
  Resumed restore(Model& model, DataLoader& loader) const;

 private:
  void removeOld(std::string_view run) const;

  std::filesystem::path folder_;
  std::int64_t keep_;
};

/// Continues from one file, as CheckpointFolder::resume does from the newest one of a folder.
Resumed resumeFrom(const std::filesystem::path& file, Model& model, DataLoader& loader);

/// A callback for fit that saves after every `every` steps and at the end, as
/// FitOptions::checkpoints does. The model and the loader must outlive it. Throws InvalidArgument
/// unless `every` is above 0.
std::unique_ptr<Callback> checkpointing(const Model& model,
                                        const DataLoader& loader,
                                        CheckpointFolder folder,
                                        std::int64_t every);

}  // namespace sluice

#pragma GCC visibility pop
