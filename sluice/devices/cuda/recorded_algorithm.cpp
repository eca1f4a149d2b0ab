#include "sluice/devices/cuda/recorded_algorithm.h"

#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sluice/base/error.h"

namespace sluice::devices::cuda {
namespace {

constexpr std::size_t kDigits = 16;  // of a word

bool readNumber(std::string_view text, int base, std::uint64_t& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to, base);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string algorithmKey(const ir::OpView& op) {
  return fmt::format("cublaslt.{}.{}{}.{}.{}",
                     name(op.inputs[0].dtype),
                     op.attrs.flag("transposeA") ? 't' : 'n',
                     op.attrs.flag("transposeB") ? 't' : 'n',
                     fmt::join(op.inputs[0].shape.dims(), "x"),
                     fmt::join(op.inputs[1].shape.dims(), "x"));
}

std::string RecordedAlgorithm::str() const {
  std::string text = fmt::format("{}/{}/", architecture, library);
  for (const std::uint64_t word : words) {
    text += fmt::format("{:016x}", word);
  }
  return text;
}

RecordedAlgorithm RecordedAlgorithm::parse(std::string_view text) {
  RecordedAlgorithm read;
  const std::size_t first = text.find('/');
  const std::size_t second = first == std::string_view::npos ? first : text.find('/', first + 1);
  bool good = second != std::string_view::npos && first > 0 &&
              text.size() == second + 1 + read.words.size() * kDigits &&
              readNumber(text.substr(first + 1, second - first - 1), 10, read.library);
  for (std::size_t i = 0; good && i < read.words.size(); ++i) {
    good = readNumber(text.substr(second + 1 + i * kDigits, kDigits), 16, read.words[i]);
  }
  if (!good) {
    raise<ConfigFileError>(
        "expected the algorithm of a product as chip/version/digits, as the log of 'cuda' at level "
        "debug shows it; got '{}'",
        text);
  }
  read.architecture = text.substr(0, first);
  return read;
}

}  // namespace sluice::devices::cuda
