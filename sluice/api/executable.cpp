#include "sluice/api/executable.h"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "sluice/api/executable_file.h"
#include "sluice/api/executable_options.h"
#include "sluice/api/executable_source.h"
#include "sluice/api/model_core.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

/// What a file says about its model must be what a model can be.
template <class F>
auto madeOf(const ExecutableFile& file, F make) {
  try {
    return make();
  } catch (const InvalidArgument& error) {
    raise<FileError>("executable '{}' describes no model: {}", file.name(), error.message());
  }
}

}  // namespace

/// Puts a model together.
struct ModelLoader {
  static Model load(const std::filesystem::path& path, const LoadOptions& given) {
    const auto file = std::make_shared<ExecutableFile>(path);
    const ExecutableContent& content = file->content();
    if (!file->hasState()) {
      raise<InvalidArgument>(
          "executable '{}' was saved without the values of its model: make a model of the module "
          "and call loadExecutable",
          file->name());
    }
    const Options stored = madeOf(*file, [&] { return optionsOf(content.options); });
    Options options = stored;
    if (given.editOptions) {
      given.editOptions(options);
      requireSameCompiled(stored, options);
    }
    std::unique_ptr<optim::Optimizer> optimizer;
    if (content.optimizer) {
      optimizer = madeOf(*file, [&] { return optim::makeOptimizer(*content.optimizer); });
    }
    Model model(executableSource(file), options, std::move(optimizer));
    model.core().install(*file, given.otherTarget, ModelCore::MadeOf::File);
    const StoredState state = file->state();
    madeOf(*file, [&] { model.core().loadStored(state); });
    return model;
  }
};

Model load(const std::filesystem::path& path, const LoadOptions& options) {
  return ModelLoader::load(path, options);
}

Model load(const std::filesystem::path& path, std::function<void(Options&)> editOptions) {
  return load(path, LoadOptions{.editOptions = std::move(editOptions)});
}

}  // namespace sluice
