// The shapes of the networks that the benchmarks run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "examples/char_gpt.h"
#include "sluice/tensor/shape.h"
#include "tests/support/cut_networks.h"
#include "tests/support/resnet.h"

namespace sluice::bench {

/// bench_mnist and bench_data: images of 28 x 28 per micro-batch. bench_kernels measures the same
/// convolutions, and shapes that are drawn by a seed.
inline constexpr std::int64_t kMnistBatch = 40;

/// bench_gpt
inline constexpr std::array<std::pair<std::string_view, examples::GptShape>, 2> kGptShapes = {
    {{"width64", {.width = 64, .layers = 2}}, {"width256", {.width = 256, .layers = 4}}}};

/// bench_resnet: images of 224 x 224.
inline constexpr std::int64_t kResNetBatch = 4;

/// Square linear layers one after the other.
struct StackShape {
  std::int64_t width = 0;
  std::int64_t batch = 0;
};
inline constexpr StackShape kStack = {512, 256};      ///< bench_pipeline and bench_phased
inline constexpr StackShape kTinyStack = {4, 1};      ///< bench_pipeline
inline constexpr StackShape kCompiledStack = {8, 4};  ///< bench_compile

/// bench_auto_cut: networks and the inputs of a micro-batch.
inline constexpr testing::TiedGptShape kCutGpt = {.depth = 6, .width = 128, .vocabulary = 1000};
inline constexpr testing::ResNetShape kCutResNet = {.width = 32, .classes = 100};
inline const testing::DenseNetShape kCutDenseNet = {.growth = 16, .classes = 100};
inline constexpr testing::UNetShape kCutUNet = {.width = 16, .heights = 3};
inline const TensorType kCutTokens = {DType::I64, Shape{2, 32}};
inline const TensorType kCutImage = {DType::F32, Shape{2, 3, 64, 64}};
inline const TensorType kCutLabels = {DType::I64, Shape{2}};
inline const TensorType kCutMask = {DType::F32, Shape{2, 1, 64, 64}};

}  // namespace sluice::bench
