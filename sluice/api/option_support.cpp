#include "sluice/api/option_support.h"

#include <string_view>

#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kWithoutReader[] = {
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
}

}  // namespace sluice::detail
