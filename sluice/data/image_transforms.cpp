#include "sluice/data/image_transforms.h"

#include <algorithm>

#include "sluice/base/error.h"

namespace sluice::data {
namespace {

const TensorType& typeAt(const Types& types, std::size_t tensor, const char* who) {
  if (tensor >= types.size()) {
    raise<InvalidArgument>("{}: there is no tensor {} in samples of {}", who, tensor, types.size());
  }
  return types[tensor];
}

}  // namespace

void Normalization::require(std::int64_t channels) const {
  for (const std::vector<double>* values : {&mean, &deviation}) {
    if (values->size() != 1 && static_cast<std::int64_t>(values->size()) != channels) {
      raise<InvalidArgument>("normalize: expected 1 or {} values for {} channels, got {}",
                             channels,
                             channels,
                             values->size());
    }
  }
  if (std::ranges::count(deviation, 0.0) > 0) {
    raise<InvalidArgument>("normalize: a deviation must not be 0");
  }
}

ImageDataset::ImageDataset(DatasetPtr inner, std::size_t tensor)
    : inner_(std::move(inner)), tensor_(tensor), types_(inner_->types()) {
  bytes_ = typeAt(types_, tensor, "toTensor");
  const std::int64_t rank = bytes_.shape.rank();
  if (bytes_.dtype != DType::U8 || (rank != 2 && rank != 3)) {
    raise<InvalidArgument>("toTensor: images must be u8[h, w] or u8[h, w, c], got {}",
                           bytes_.str());
  }
  const std::int64_t channels = rank == 3 ? bytes_.shape[2] : 1;
  types_[tensor_] = {DType::F32, Shape{channels, bytes_.shape[0], bytes_.shape[1]}};
  channels_ = static_cast<std::size_t>(channels);
  fillTables({});
}

ImageDataset::ImageDataset(const ImageDataset& plain,
                           std::vector<double> mean,
                           std::vector<double> deviation)
    : ImageDataset(plain.inner_, plain.tensor_) {
  const Normalization normalization{std::move(mean), std::move(deviation)};
  normalization.require(static_cast<std::int64_t>(channels_));
  fillTables(normalization);
  normalized_ = true;
}

void ImageDataset::fillTables(const Normalization& normalization) {
  tables_.resize(channels_);
  for (std::size_t c = 0; c < channels_; ++c) {
    for (std::size_t byte = 0; byte < tables_[c].size(); ++byte) {
      tables_[c][byte] = static_cast<float>(normalization.of(static_cast<double>(byte) / 255.0, c));
    }
  }
}

Sample ImageDataset::get(std::int64_t index) const {
  Sample rows = makeBatch(types_, 1);
  read(std::span(&index, 1), rows);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    rows[k] = rows[k].reshaped(types_[k].shape);
  }
  return rows;
}

void ImageDataset::read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const {
  // So many bytes of images at a time that they are still in the cache when they are converted.
  constexpr std::size_t kBlockBytes = std::size_t{32} * 1024;
  const std::size_t image = bytes_.bytes();
  const std::size_t pixels = image / std::max<std::size_t>(channels_, 1);
  const std::size_t block = std::max<std::size_t>(1, kBlockBytes / std::max<std::size_t>(image, 1));
  const HostTensor scratch(
      batchType(bytes_, static_cast<std::int64_t>(std::min(block, indices.size()))));
  std::vector<HostTensor> part(rows.size());
  for (std::size_t first = 0; first < indices.size(); first += block) {
    const std::size_t count = std::min(block, indices.size() - first);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      part[k] = k == tensor_ ? scratch.rows(0, static_cast<std::int64_t>(count))
                             : rows[k].rows(static_cast<std::int64_t>(first),
                                            static_cast<std::int64_t>(count));
    }
    inner_->read(indices.subspan(first, count), part);
    const auto* in = reinterpret_cast<const std::uint8_t*>(scratch.bytes());
    float* out = rows[tensor_].data<float>().data() + first * image;
    for (std::size_t i = 0; i < count; ++i, in += image) {
      for (std::size_t c = 0; c < channels_; ++c) {
        const Table& table = tables_[c];
        for (std::size_t p = 0; p < pixels; ++p) {
          *out++ = table[in[p * channels_ + c]];
        }
      }
    }
  }
}

NormalizedDataset::NormalizedDataset(DatasetPtr inner,
                                     std::vector<double> mean,
                                     std::vector<double> deviation,
                                     std::size_t tensor)
    : inner_(std::move(inner)),
      normalization_{std::move(mean), std::move(deviation)},
      tensor_(tensor) {
  const Types types = inner_->types();
  const TensorType& type = typeAt(types, tensor, "normalize");
  if (type.dtype != DType::F32) {
    raise<InvalidArgument>("normalize: the tensor must be f32 (see toTensor), got {}", type.str());
  }
  const std::int64_t channels = type.shape.rank() == 0 ? 1 : type.shape[0];
  normalization_.require(channels);
  channels_ = static_cast<std::size_t>(channels);
  perChannel_ =
      static_cast<std::size_t>(type.shape.elements()) / std::max<std::size_t>(1, channels_);
}

void NormalizedDataset::apply(std::span<float> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t channel = i / perChannel_ % channels_;
    values[i] = static_cast<float>(normalization_.of(static_cast<double>(values[i]), channel));
  }
}

Sample NormalizedDataset::get(std::int64_t index) const {
  Sample sample = inner_->get(index);
  sample[tensor_] = sample[tensor_].clone();
  apply(sample[tensor_].data<float>());
  return sample;
}

void NormalizedDataset::read(std::span<const std::int64_t> indices,
                             std::span<HostTensor> rows) const {
  inner_->read(indices, rows);
  apply(rows[tensor_].data<float>());
}

}  // namespace sluice::data
