#include "sluice/api/option_support.h"

#include <string_view>

#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kWithoutReader[] = {
    "rearrangeAnchorsOnHost",
    "jit.traceModel",
    "distributed.configureProcessId",
};

}  // namespace

void requireSupported(const Options& options) {
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
  if (options.device().connection == ConnectionType::Never && !options.device().deviceIds.empty()) {
    raise<InvalidArgument>(
        "useDeviceIds names devices to attach to, and connectionType is Never: use one of them");
  }
}

}  // namespace sluice::detail
