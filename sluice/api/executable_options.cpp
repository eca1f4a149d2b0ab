#include "sluice/api/executable_options.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

/// What matters only while a model runs, or only if it is compiled again.
constexpr std::array<std::string_view, 20> kRunTime = {
    "connectionType",  "device",
    "dumpDirectory",   "enableExecutableCaching",
    "enableProfiling", "logCycleCount",
    "logDir",          "maxRepeatLogs",
    "memoryPerDevice", "randomSeed",
    "recovery",        "relaxOptimizerAttributesChecks",
    "remoteBandwidth", "showCompilationProgressBar",
    "stallTimeout",    "threads",
    "tuningTable",     "undoMemory",
    "useDeviceIds",    "verifyPrograms",
};

bool isRunTime(std::string_view setting) {
  return std::ranges::find(kRunTime, setting) != kRunTime.end();
}

/// How a program is dealt out to processes is no part of it; how many replicas it has is.
bool isDealing(std::string_view setting) {
  return setting.starts_with("distributed.");
}

/// Whether remote memory is a file is compiled in, which one it is and how large is not.
bool sameKindOfRemote(const Options& a, const Options& b) {
  return a.device().remotePath.empty() == b.device().remotePath.empty();
}

/// The arguments of the calls that set a value. Every anchor takes a call of its own.
std::vector<std::string> callsOf(const detail::Setting& setting, const Options& options) {
  if (setting.name != "anchorTensor") {
    return {setting.print(options)};
  }
  std::vector<std::string> calls;
  for (const Anchor& anchor : options.batch().anchors) {
    Options one = Options::defaults();
    one.anchorTensor(anchor.shortName, anchor.longName, anchor.mode, anchor.period);
    const std::string list = setting.print(one);  // [[...]]
    calls.push_back(list.substr(2, list.size() - 4));
  }
  return calls;
}

}  // namespace

std::vector<SetterCall> setterCalls(const Options& options) {
  Options again = Options::defaults();
  std::vector<SetterCall> calls;
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print == nullptr || setting.print(options) == setting.print(again)) {
      continue;
    }
    for (const std::string& arguments : callsOf(setting, options)) {
      calls.push_back({std::string(setting.name), arguments});
      again.set(setting.name, arguments);
    }
  }
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print != nullptr && setting.print(again) != setting.print(options)) {
      raise<Unsupported>("option {} with the value {} cannot be stored in a file",
                         setting.name,
                         setting.print(options));
    }
  }
  return calls;
}

Options optionsOf(std::span<const SetterCall> calls) {
  Options options = Options::defaults();
  for (const SetterCall& call : calls) {
    options.set(call.setter, call.arguments);
  }
  return options;
}

void requireSameCompiled(const Options& compiled, const Options& now) {
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print == nullptr || isRunTime(setting.name) || isDealing(setting.name) ||
        (setting.name == "remoteMemory" && sameKindOfRemote(compiled, now))) {
      continue;
    }
    const std::string before = setting.print(compiled);
    const std::string after = setting.print(now);
    if (before != after) {
      raise<InvalidArgument>(
          "option {} is compiled into the executable: it is {} there and {} here; only options "
          "that matter while a model runs may differ: {}, the path and size of remoteMemory, and "
          "those of distributed",
          setting.name,
          before,
          after,
          fmt::join(kRunTime, ", "));
    }
  }
  if (compiled.allReplicas() != now.allReplicas()) {
    raise<InvalidArgument>(
        "the executable is compiled for {} replicas, and the {} processes here have {} together: "
        "with distributed.shareModel(true) they share those of the executable",
        compiled.allReplicas(),
        now.distributed.numProcesses(),
        now.allReplicas());
  }
}

std::string compiledSettings(const Options& options) {
  std::string text = fmt::format("replicas({})\n", options.allReplicas());
  for (const detail::Setting& setting : detail::settings()) {
    const bool counts = setting.print != nullptr && !isDealing(setting.name) &&
                        (!isRunTime(setting.name) || setting.name == "memoryPerDevice" ||
                         setting.name == "verifyPrograms");
    if (counts) {
      text += fmt::format("{}({})\n", setting.name, setting.print(options));
    }
  }
  return text;
}

}  // namespace sluice
