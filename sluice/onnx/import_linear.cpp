// Translations of matrix products, with and without quantization.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> linearTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
