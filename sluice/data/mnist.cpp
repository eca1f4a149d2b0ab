#include "sluice/data/mnist.h"

#include <array>

#include "sluice/base/error.h"
#include "sluice/data/idx.h"

namespace sluice::data {
namespace {

constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;

HostTensor readOrExplain(const std::string& path) {
  try {
    return readIdx(path);
  } catch (Error& error) {
    error.at("loading MNIST; `./dev data mnist` or `./dev data fashion` fetches the files");
    throw;
  }
}

}  // namespace

HostTensor normalizeImages(const HostTensor& bytes, double mean, double deviation) {
  if (bytes.dtype() != DType::U8 || bytes.shape().rank() != 3) {
    raise<InvalidArgument>("images must be u8[n, h, w], got {}", bytes.type().str());
  }
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<float>((static_cast<double>(i) / 255.0 - mean) / deviation);
  }
  const Shape& shape = bytes.shape();
  HostTensor images(DType::F32, Shape{shape[0], 1, shape[1], shape[2]});
  const auto in = bytes.data<std::uint8_t>();
  const auto out = images.data<float>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = table[in[i]];
  }
  return images;
}

ImageSet loadMnist(const std::string& folder, Split split) {
  const std::string prefix = folder + (split == Split::Train ? "/train" : "/t10k");
  const HostTensor images = readOrExplain(prefix + "-images-idx3-ubyte");
  const HostTensor labels = readOrExplain(prefix + "-labels-idx1-ubyte");
  const bool fits = images.dtype() == DType::U8 && images.shape().rank() == 3 &&
                    labels.dtype() == DType::U8 && labels.shape().rank() == 1 &&
                    images.shape()[0] == labels.shape()[0];
  if (!fits) {
    raise<FileError>("the MNIST files in '{}' hold {} and {}, expected u8[n, h, w] and u8[n]",
                     folder,
                     images.type().str(),
                     labels.type().str());
  }
  return {normalizeImages(images, kMean, kDeviation), cast(labels, DType::I64)};
}

}  // namespace sluice::data
