// Files of tokens: the first bytes choose the options, the others are the file. Samples are the
// windows of the file, counted here by hand.
#include <array>
#include <cstring>

#include "fuzz/target.h"
#include "sluice/data/files.h"

using namespace sluice;

namespace {

constexpr std::size_t kChosen = 6;

data::TokenOptions optionsOf(const std::uint8_t* bytes) {
  constexpr std::array kTypes = {
      DType::U8, DType::I8, DType::U16, DType::I16, DType::I32, DType::U32, DType::I64, DType::U64};
  return {.sequence = static_cast<std::int8_t>(bytes[0]),
          .stride = static_cast<std::int8_t>(bytes[1]),
          .stored = kTypes[bytes[2] % kTypes.size()],
          .as = kTypes[bytes[3] % kTypes.size()],
          .headerBytes = bytes[4],
          .vocabulary = bytes[5]};
}

/// Token `place` of the file, as a sample has it.
double tokenAt(std::string_view file, const data::TokenOptions& options, std::int64_t place) {
  HostTensor token(options.stored, Shape{});
  const std::size_t bytes = byteSize(options.stored);
  std::memcpy(token.bytes(),
              file.data() + options.headerBytes + static_cast<std::size_t>(place) * bytes,
              bytes);
  return cast(token, options.as).at(0);
}

void check(const data::Dataset& dataset, std::string_view file, const data::TokenOptions& options) {
  const std::int64_t stride = options.stride == 0 ? options.sequence : options.stride;
  for (const std::int64_t sample : {std::int64_t{0}, dataset.size() - 1}) {
    data::Sample values;
    if (!fuzz::accepts([&] { values = dataset.get(sample); })) {
      fuzz::require(options.vocabulary > 0, "a sample is refused without a vocabulary");
      continue;
    }
    for (std::int64_t i = 0; i < options.sequence; ++i) {
      const std::int64_t place = sample * stride + i;
      fuzz::require(values[0].at(i) == tokenAt(file, options, place) &&
                        values[1].at(i) == tokenAt(file, options, place + 1),
                    "a sample is not its window of the file");
    }
  }
  fuzz::require(!fuzz::accepts([&] { dataset.get(dataset.size()); }), "a sample past the last one");
}

}  // namespace

SLUICE_FUZZ_TARGET(tokens) {
  static const fuzz::MemoryFile memory("tokens");
  if (size < kChosen) {
    return;
  }
  const data::TokenOptions options = optionsOf(data);
  const std::string_view file = fuzz::textOf(data, size).substr(kChosen);
  memory.write(file);
  data::DatasetPtr dataset;
  if (fuzz::accepts([&] { dataset = data::tokenDataset(memory.path(), options); })) {
    check(*dataset, file, options);
  }
}
