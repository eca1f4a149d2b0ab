#include <filesystem>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/data/files.h"

namespace sluice::data {
namespace {

constexpr double kMean = 0.1307;
constexpr double kDeviation = 0.3081;

HostTensor readOrExplain(const std::string& path) {
  try {
    std::error_code unknown;  // reading says what is wrong
    const bool packed =
        !std::filesystem::exists(path, unknown) && std::filesystem::exists(path + ".gz", unknown);
    return readIdx(packed ? path + ".gz" : path);
  } catch (Error& error) {
    error.at(
        "loading MNIST: the folder has to hold the four files of MNIST or Fashion-MNIST in the IDX "
        "format, packed (.gz) or not");
    throw;
  }
}

}  // namespace

DatasetPtr mnistDataset(const std::string& folder, Split split) {
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
  return normalize(
      toTensor(tensorDataset({images, cast(labels, DType::I64)})), {kMean}, {kDeviation});
}

}  // namespace sluice::data
