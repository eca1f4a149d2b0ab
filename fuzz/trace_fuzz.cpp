// The reader of trace files: any bytes are either a trace whose causes add up, or a FileError. The
// checksum would keep the fuzzer out, so that the target writes it itself.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz/target.h"
#include "sluice/profile/explain.h"
#include "sluice/profile/report.h"
#include "sluice/profile/trace_file.h"

namespace {

using sluice::fuzz::require;
using namespace sluice::profile;

void check(const Trace& trace, std::string_view bytes) {
  require(traceBytes(trace) == bytes, "a trace is written in another way than it was read");
  const Explanation found = explain(trace);
  for (const DeviceIdle& device : found.devices) {
    std::int64_t sum = 0;
    for (const std::int64_t time : device.causes) {
      sum += time;
    }
    require(sum == device.idle(), "causes do not add up to the idle time");
  }
  const TracedRun run{"fuzz", trace};
  sluice::fuzz::accepts([&] { reportPage(std::span(&run, 1)); });  // or it has no steps
}

}  // namespace

SLUICE_FUZZ_TARGET(trace) {
  const std::string sealed = sealedTrace(sluice::fuzz::textOf(data, size));
  sluice::fuzz::accepts([&] { check(parseTrace(sealed, "fuzz"), sealed); });
  sluice::fuzz::accepts([&] { parseTrace(sluice::fuzz::textOf(data, size), "fuzz"); });
}
