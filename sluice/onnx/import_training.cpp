// Translations of the training ops of ai.onnx.preview.training.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> trainingTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
