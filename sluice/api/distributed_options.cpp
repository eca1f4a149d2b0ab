#include <charconv>
#include <cstdlib>
#include <limits>

#include "sluice/api/options.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

std::optional<std::int64_t> fromEnvironment(const std::string& name) {
  const char* text = std::getenv(name.c_str());
  if (text == nullptr) {
    return std::nullopt;
  }
  const std::string_view view(text);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc() || end != view.data() + view.size()) {
    raise<InvalidArgument>("environment variable {} is '{}', expected a whole number", name, view);
  }
  return number;
}

}  // namespace

DistributedOptions& DistributedOptions::configureProcessId(std::int64_t id,
                                                           std::int64_t processes) {
  requireUnfrozen();
  if (processes < 1 || processes > std::numeric_limits<std::int32_t>::max() || id < 0 ||
      id >= processes) {
    raise<InvalidArgument>(
        "distributed: expected a process id from 0 to one less than the number of processes, got "
        "id {} of {}",
        id,
        processes);
  }
  id_ = static_cast<std::int32_t>(id);
  processes_ = static_cast<std::int32_t>(processes);
  return *this;
}

DistributedOptions& DistributedOptions::setEnvVarNames(std::string processesName,
                                                       std::string idName) {
  requireUnfrozen();
  if (processesName.empty() || idName.empty()) {
    raise<InvalidArgument>("distributed: an environment variable needs a name");
  }
  const std::optional<std::int64_t> processes = fromEnvironment(processesName);
  const std::optional<std::int64_t> id = fromEnvironment(idName);
  if (processes.has_value() != id.has_value()) {
    raise<InvalidArgument>("distributed: environment variable {} is set and {} is not",
                           processes ? processesName : idName,
                           processes ? idName : processesName);
  }
  configureProcessId(id.value_or(0), processes.value_or(1));
  processesName_ = std::move(processesName);
  idName_ = std::move(idName);
  return *this;
}

DistributedOptions& DistributedOptions::shareModel(bool on) {
  requireUnfrozen();
  shareModel_ = on;
  return *this;
}

DistributedOptions& DistributedOptions::disable() {
  return configureProcessId(0, 1);
}

}  // namespace sluice
