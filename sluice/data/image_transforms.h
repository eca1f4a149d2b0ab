// The datasets that toTensor and normalize return: images of bytes as normalised floats, and
// normalised floats. A byte has 256 values, so the whole transform of an image is one table per
// channel, and every float is rounded once. Private to the data module.
#pragma once

#include <array>
#include <vector>

#include "sluice/data/dataset.h"

namespace sluice::data {

/// The mean and standard deviation by channel; a single value stands for all channels.
struct Normalization {
  std::vector<double> mean = {0.0};
  std::vector<double> deviation = {1.0};
  /// Throws InvalidArgument for another number of values and for a deviation of 0.
  void require(std::int64_t channels) const;
  double of(double x, std::size_t channel) const {
    return (x - mean[channel % mean.size()]) / deviation[channel % deviation.size()];
  }
};

class ImageDataset : public Dataset {
 public:
  ImageDataset(DatasetPtr inner, std::size_t tensor);
  /// The same images, normalised.
  ImageDataset(const ImageDataset& plain, std::vector<double> mean, std::vector<double> deviation);

  std::size_t tensor() const { return tensor_; }
  bool normalized() const { return normalized_; }
  std::int64_t size() const override { return inner_->size(); }
  Types types() const override { return types_; }
  Sample get(std::int64_t index) const override;
  void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const override;

 private:
  using Table = std::array<float, 256>;
  void fillTables(const Normalization& normalization);

  DatasetPtr inner_;
  std::size_t tensor_;
  bool normalized_ = false;
  TensorType bytes_;  // type of an image in the inner dataset
  Types types_;       // types of a sample
  std::size_t channels_ = 1;
  std::vector<Table> tables_;  // by channel
};

class NormalizedDataset : public Dataset {
 public:
  NormalizedDataset(DatasetPtr inner,
                    std::vector<double> mean,
                    std::vector<double> deviation,
                    std::size_t tensor);
  std::int64_t size() const override { return inner_->size(); }
  Types types() const override { return inner_->types(); }
  Sample get(std::int64_t index) const override;
  void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const override;

 private:
  /// Normalises the values of consecutive whole samples.
  void apply(std::span<float> values) const;

  DatasetPtr inner_;
  Normalization normalization_;
  std::size_t tensor_;
  std::size_t channels_ = 1;
  std::size_t perChannel_ = 1;
};

}  // namespace sluice::data
