#include "sluice/api/option_support.h"

#include <string_view>

#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kWithoutReader[] = {
    "rearrangeAnchorsOnHost",
    "jit.traceModel",
};

}  // namespace

void requireSupported(const Options& options, bool madeOfModule) {
  const Options defaults = Options::defaults();
  for (const std::string_view name : kWithoutReader) {
    const Setting& setting = settingOf(name);
    const std::string value = setting.print(options);
    const std::string standard = setting.print(defaults);
    if (value != standard) {
      raise<Unsupported>(
          "option {} is {}; this version supports only its default, {}", name, value, standard);
    }
  }
  const std::int32_t devices = options.compile().devicesPerReplica;
  if (devices > 1 && madeOfModule) {
    raise<InvalidArgument>(
        "devicesPerReplica is {}, and this model is made of a module, whose blocks and strategy "
        "say "
        "how many devices there are: use setExecutionStrategy",
        devices);
  }
  if (devices > 1 && options.compile().virtualGraphMode != VirtualGraphMode::Auto) {
    raise<InvalidArgument>(
        "devicesPerReplica is {}, and only virtualGraphMode Auto cuts a Builder's graph for it; "
        "elsewhere phases and annotations say how many devices there are: leave it out",
        devices);
  }
  if (options.report().traceValues != TraceValues::None && options.report().profileDir.empty()) {
    raise<InvalidArgument>(
        "traceValues({}) adds values to a trace, and there is none: use enableProfiling(folder), "
        "too",
        name(options.report().traceValues));
  }
  if (options.report().traceKernels && options.report().profileDir.empty()) {
    raise<InvalidArgument>(
        "traceKernels(true) adds kernels to a trace, and there is none: use "
        "enableProfiling(folder), too");
  }
  if (options.device().connection == ConnectionType::Never && !options.device().deviceIds.empty()) {
    raise<InvalidArgument>(
        "useDeviceIds names devices to attach to, and connectionType is Never: use one of them");
  }
}

}  // namespace sluice::detail
