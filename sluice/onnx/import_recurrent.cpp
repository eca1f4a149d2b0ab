// Translations of recurrent layers: one step after the other.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> recurrentTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
