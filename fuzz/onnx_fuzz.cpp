// Any bytes as an ONNX model: an error of ours or a graph that is sound.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/target.h"
#include "sluice/base/error.h"
#include "sluice/ir/verify.h"
#include "sluice/onnx/files.h"

SLUICE_FUZZ_TARGET(onnx) {
  try {
    sluice::ir::verify(sluice::onnx::importModelBytes(std::as_bytes(std::span(data, size))).graph);
  } catch (const sluice::InternalError&) {
    throw;
  } catch (const sluice::Error&) {  // NOLINT(bugprone-empty-catch): refusing is right
  }
}
