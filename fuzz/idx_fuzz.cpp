// The IDX reader: any bytes are either a tensor whose size explains them, or a FileError.
#include "fuzz/target.h"
#include "sluice/data/files.h"
#include "sluice/data/inflate.h"

using namespace sluice;

SLUICE_FUZZ_TARGET(idx) {
  // Deflate makes at most 258 bytes of two bits.
  constexpr std::size_t kMostPerByte = 1032;
  const std::string_view bytes = fuzz::textOf(data, size);
  try {
    const HostTensor tensor = data::parseIdx(bytes, "fuzz");
    const std::size_t most = data::isGzip(bytes) ? kMostPerByte * size : size;
    fuzz::require(tensor.byteCount() <= most, "more elements than the file can hold");
  } catch (const FileError&) {
    return;
  }
}
