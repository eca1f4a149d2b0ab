// Translations of ops on images: resizing, sampling, regions.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> imageTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
