// Translations of ops that pick or place elements by index.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> indexingTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
