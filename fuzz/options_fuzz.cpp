// Options files and JSON options of any bytes: an error of ours or a value, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "sluice/api/options.h"
#include "sluice/api/options_table.h"
#include "sluice/base/error.h"

SLUICE_FUZZ_TARGET(options) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::Options options = sluice::Options::defaults();
  try {
    if (const auto call = sluice::detail::parseCall(text)) {
      sluice::detail::apply(options, call->text, call->items);
    }
  } catch (const sluice::InvalidArgument&) {
  }
  try {
    options.loadFromJson(text, "fuzz");
  } catch (const sluice::ConfigFileError&) {
  }
  if (options.clone().str() != options.str()) {
    std::abort();
  }
}
