// The safetensors reader: any bytes are a FileError, or tensors that are written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/base/error.h"
#include "sluice/tensor/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::SafeTensors content;
  try {
    content = sluice::parseSafeTensors({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const sluice::FileError&) {
    return 0;
  }
  const std::string bytes = sluice::serializeSafeTensors(content);
  if (sluice::serializeSafeTensors(sluice::parseSafeTensors(bytes, "fuzz")) != bytes) {
    std::abort();
  }
  return 0;
}
