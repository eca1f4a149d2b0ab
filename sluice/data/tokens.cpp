#include <cstring>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/data/file.h"
#include "sluice/data/files.h"

namespace sluice::data {
namespace {

class TokenDataset : public Dataset {
 public:
  TokenDataset(const std::string& path, const TokenOptions& options)
      : path_(path), options_(options), file_(path) {
    if (options_.stride == 0) {
      options_.stride = options_.sequence;
    }
    if (options_.sequence < 1 || options_.stride < 1 || !isInteger(options_.stored) ||
        !isInteger(options_.as)) {
      raise<InvalidArgument>(
          "tokens: expected a positive sequence and stride and integer types, got {}, {}, {} and "
          "{}",
          options_.sequence,
          options_.stride,
          name(options_.stored),
          name(options_.as));
    }
    const std::size_t size = byteSize(options_.stored);
    if (file_.size() < options_.headerBytes || (file_.size() - options_.headerBytes) % size != 0) {
      raise<FileError>(
          "'{}' has {} bytes, which is no whole number of {} tokens behind a header of {}",
          path,
          file_.size(),
          name(options_.stored),
          options_.headerBytes);
    }
    const auto tokens = static_cast<std::int64_t>((file_.size() - options_.headerBytes) / size);
    if (tokens <= options_.sequence) {
      raise<FileError>("'{}' has {} tokens; a sample needs {} and the one behind them",
                       path,
                       tokens,
                       options_.sequence);
    }
    size_ = (tokens - options_.sequence - 1) / options_.stride + 1;
  }

  std::int64_t size() const override { return size_; }
  Types types() const override { return {2, TensorType{options_.as, Shape{options_.sequence}}}; }
  Sample get(std::int64_t index) const override {
    Sample rows = makeBatch(types(), 1);
    read(std::span(&index, 1), rows);
    return {rows[0].reshaped(Shape{options_.sequence}), rows[1].reshaped(Shape{options_.sequence})};
  }
  void read(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const override {
    dispatch(options_.stored, [&]<class From>(From) {
      dispatch(options_.as, [&]<class To>(To) {
        if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
          readAs<From, To>(indices, rows);
        }
      });
    });
  }

 private:
  template <class From, class To>
  void readAs(std::span<const std::int64_t> indices, std::span<HostTensor> rows) const {
    const auto length = static_cast<std::size_t>(options_.sequence);
    To* inputs = rows[0].data<To>().data();
    To* targets = rows[1].data<To>().data();
    for (const std::int64_t index : indices) {
      requireIndex(index);
      const std::byte* from = file_.data() + options_.headerBytes +
                              static_cast<std::size_t>(index * options_.stride) * sizeof(From);
      for (std::size_t t = 0; t <= length; ++t) {
        From token{};
        std::memcpy(&token, from + t * sizeof(From), sizeof(From));
        requireToken(static_cast<std::int64_t>(token), index);
        // NOLINTBEGIN(bugprone-signed-char-misuse): tokens are numbers
        if (t < length) {
          inputs[t] = static_cast<To>(token);
        }
        if (t > 0) {
          targets[t - 1] = static_cast<To>(token);
        }
        // NOLINTEND(bugprone-signed-char-misuse)
      }
      inputs += length;
      targets += length;
    }
  }
  void requireToken(std::int64_t token, std::int64_t sample) const {
    if (options_.vocabulary > 0 && (token < 0 || token >= options_.vocabulary)) {
      raise<FileError>("'{}', sample {}: token {} is not in a vocabulary of {}",
                       path_,
                       sample,
                       token,
                       options_.vocabulary);
    }
  }

  std::string path_;
  TokenOptions options_;
  MappedFile file_;
  std::int64_t size_ = 0;
};

}  // namespace

DatasetPtr tokenDataset(const std::string& path, const TokenOptions& options) {
  return std::make_shared<TokenDataset>(path, options);
}

}  // namespace sluice::data
