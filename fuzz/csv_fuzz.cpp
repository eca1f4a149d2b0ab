// The reader of tables: any text is either a table as wide as its names, or a FileError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "sluice/base/error.h"
#include "sluice/data/files.h"

SLUICE_FUZZ_TARGET(csv) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool header : {true, false}) {
    try {
      const sluice::data::CsvTable table = sluice::data::parseCsv(text, "fuzz", {',', header});
      if (static_cast<std::size_t>(table.values.shape()[1]) != table.names.size()) {
        std::abort();
      }
    } catch (const sluice::FileError&) {
    }
  }
}
