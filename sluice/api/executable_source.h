// ExecutableSource: the source of a model that was loaded from an executable. It has the traced
// graphs of the saved model and traces nothing.
#pragma once

#include <memory>

#include "sluice/api/executable_file.h"
#include "sluice/api/graph_source.h"

namespace sluice {

/// Keeps the file.
std::unique_ptr<GraphSource> executableSource(std::shared_ptr<const ExecutableFile> file);

}  // namespace sluice
