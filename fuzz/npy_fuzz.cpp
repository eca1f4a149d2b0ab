// The readers of NumPy's files: any bytes are either arrays, or a FileError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "sluice/base/error.h"
#include "sluice/data/files.h"

SLUICE_FUZZ_TARGET(npy) {
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
}
