// Translations of further element-wise ops, random numbers, ranges, windows and transforms.
#include <array>

#include "sluice/onnx/translations.h"

namespace sluice::onnx {
namespace {

constexpr std::array<Translation, 0> kTranslations = {};

}  // namespace

std::span<const Translation> mathTranslations() {
  return kTranslations;
}

}  // namespace sluice::onnx
