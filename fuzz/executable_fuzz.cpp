// The reader of executables: any bytes are a model that can be loaded, or an Error.
#include <cstdint>

#include "fuzz/target.h"
#include "fuzz/unsealed.h"
#include "sluice/api/executable.h"
#include "sluice/api/executable_file.h"
#include "sluice/base/log.h"

SLUICE_FUZZ_TARGET(executable) {
  using namespace sluice;
  static const fuzz::MemoryFile file("executable");
  static const bool quiet = [] {
    log::setLevels(static_cast<int>(log::Level::Off));
    return true;
  }();
  static_cast<void>(quiet);
  fuzz::accepts([&] { ExecutableFile(fuzz::textOf(data, size), "fuzz"); });
  const std::string sealed = fuzz::sealedFile(fuzz::textOf(data, size));
  fuzz::accepts([&] {
    const ExecutableFile read(sealed, "fuzz");
    for (std::size_t i = 0; i < read.content().programs.size(); ++i) {
      fuzz::accepts([&] { read.graph(i); });
    }
    fuzz::accepts([&] { read.state(); });
    file.write(sealed);
    // Compiling what the graph says is the work of other targets.
    load(file.path(), {.otherTarget = OtherTarget::Refuse});
  });
}
