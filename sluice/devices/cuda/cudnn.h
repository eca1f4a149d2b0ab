// What the device uses of cuDNN 9: convolutions. The library is opened when a convolution is first
// planned, from the folder that SLUICE_CUDNN names, by the loader's rules, or beside the toolkit.
// It need not be there, neither to build nor to run. Private to the device.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

namespace sluice::devices::cuda {

/// The library's numbers, as its headers have them.
namespace cudnn {

using Handle = struct Context*;
using TensorDescriptor = struct Tensor*;
using FilterDescriptor = struct Filter*;
using ConvolutionDescriptor = struct Convolution*;

inline constexpr int kSuccess = 0;
inline constexpr int kFloat = 0;
inline constexpr int kHalf = 2;
inline constexpr int kBFloat16 = 9;
inline constexpr int kNchw = 0;
inline constexpr int kNhwc = 1;
inline constexpr int kCrossCorrelation = 1;
inline constexpr int kTensorOpMath = 1;
inline constexpr int kFmaMath = 3;
inline constexpr int kDeterministic = 1;

/// An algorithm and what the library says about it.
struct Algorithm {
  int number = 0;
  int status = 0;
  float time = 0;
  std::size_t memory = 0;
  int determinism = 0;
  int math = 0;
  int reserved[3] = {};
};

/// The three sums of a convolution.
enum class Sum : std::uint8_t { Output, Input, Weight };

/// Descriptors of a convolution; the caller owns them.
struct Descriptors {
  TensorDescriptor x = nullptr;
  FilterDescriptor w = nullptr;
  TensorDescriptor y = nullptr;
  ConvolutionDescriptor convolution = nullptr;
};

struct Shape {
  int type = kFloat;
  int format = kNchw;
  int math = kFmaMath;
  std::vector<int> x, w, y;                   ///< extents: batch, channels, axes
  std::vector<int> pads, strides, dilations;  ///< of the axes
};

/// Whether the library can be opened; says why not in a debug message.
bool isThere();
/// "9.19.0", or "" without the library.
std::string version();

Descriptors describe(const Shape& shape);
void forget(const Descriptors& descriptors);

/// The first algorithm in the library's own order that has a fixed order of sums and needs no more
/// memory; number -1 if there is none.
Algorithm choose(int gpu, const Descriptors& d, Sum sum, int math, std::size_t workspace);

struct Operands {
  const void* first = nullptr;
  const void* second = nullptr;
  void* result = nullptr;
  void* workspace = nullptr;
  std::size_t workspaceBytes = 0;
};
/// Gives the work to the stream. Operands: x and w, w and dy, or x and dy.
void run(int gpu,
         cudaStream_t stream,
         const Descriptors& d,
         Sum sum,
         const Algorithm& algorithm,
         const Operands& operands);

}  // namespace cudnn
}  // namespace sluice::devices::cuda
