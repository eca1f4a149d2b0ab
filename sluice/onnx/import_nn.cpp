// Translations of convolution, pooling, normalization and losses.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> nnTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
