// The readers of NumPy's files: any bytes are either arrays, or a FileError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/base/error.h"
#include "sluice/data/files.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::HostTensor tensor = sluice::data::parseNpy(bytes, "fuzz");
    if (tensor.byteCount() > size ||
        !sluice::data::parseNpy(sluice::data::npyBytes(tensor), "back").sameBits(tensor)) {
      std::abort();
    }
  } catch (const sluice::FileError&) {
  }
  try {
    sluice::data::parseNpz(bytes, "fuzz");
  } catch (const sluice::FileError&) {
  }
  return 0;
}
