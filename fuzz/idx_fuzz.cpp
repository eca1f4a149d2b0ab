// The IDX reader: any bytes are either a tensor whose size explains them, or a FileError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/base/error.h"
#include "sluice/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const sluice::HostTensor tensor = sluice::data::parseIdx(bytes, "fuzz");
    if (tensor.byteCount() > size) {
      std::abort();
    }
  } catch (const sluice::FileError&) {
    return 0;
  }
  return 0;
}
