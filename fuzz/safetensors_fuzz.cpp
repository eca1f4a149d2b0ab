// The safetensors reader: any bytes are a FileError, or tensors that are written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "sluice/base/error.h"
#include "sluice/tensor/safetensors.h"

SLUICE_FUZZ_TARGET(safetensors) {
  sluice::SafeTensors content;
  try {
    content = sluice::parseSafeTensors({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const sluice::FileError&) {
    return;
  }
  const std::string bytes = sluice::serializeSafeTensors(content);
  if (sluice::serializeSafeTensors(sluice::parseSafeTensors(bytes, "fuzz")) != bytes) {
    std::abort();
  }
}
