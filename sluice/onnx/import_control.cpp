// Translations of control flow: bodies are inlined, loops unrolled.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> controlTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
