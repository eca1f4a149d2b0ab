// Executables: compiled models as files that run in a process that never saw the model. Model::save
// and Model::compileAndExport make them; docs/executable.md describes them.
//
//   model.compileAndExport("net.slx", {images, labels});
//   ... in another process:
//   Model model = sluice::load("net.slx");
//   model.run({images, labels});
#pragma once

#include <filesystem>
#include <functional>

#include "sluice/api/model.h"

#pragma GCC visibility push(default)

namespace sluice {

struct LoadOptions {
  /// May change what matters only while a model runs: threads, device numbers, limits, logs and
  /// profiles. Another device makes the model compile again (see otherTarget).
  std::function<void(Options&)> editOptions = {};
  OtherTarget otherTarget = OtherTarget::Recompile;
};

/// Makes a model of an executable. It runs no pass of the compiler and no search, unless the file
/// is for another target: the programs are then compiled again from the stored graphs, with a
/// warning. The model has the values, the optimizer, the counts and the random numbers of the saved
/// one, but no module, and it takes the inputs that the saved one was compiled for. Throws
/// FileError, which names the place, for a damaged or hostile file and for one of another major
/// version of the format; InvalidArgument for a file without the model's values, for custom ops
/// whose library is not loaded, and for changes of options that are compiled into the programs.
Model load(const std::filesystem::path& path, const LoadOptions& options = {});
Model load(const std::filesystem::path& path, std::function<void(Options&)> editOptions);

}  // namespace sluice

#pragma GCC visibility pop
