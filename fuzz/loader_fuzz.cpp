// Where a loader stands, as any text: refused, or the loader goes on from there and says so. The
// bytes are also taken for the numbers of an otherwise sound state, which text seldom is.
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "fuzz/small_net.h"
#include "fuzz/target.h"

using namespace sluice;

namespace {

/// A batch, or nothing at the end of an epoch or past the end of a stream.
std::optional<data::Batch> batchAt(data::Loader& loader, const std::string& state) {
  loader.restore(state);
  fuzz::require(loader.state() == state, "a loader's own state is another one when restored");
  std::optional<data::Batch> batch;
  fuzz::accepts([&] { batch = loader.next(); });
  return batch;
}

void check(data::Loader& loader, std::string_view state) {
  const std::string before = loader.state();
  if (!fuzz::accepts([&] { loader.restore(state); })) {
    fuzz::require(loader.state() == before, "a state that was refused changed the loader");
    return;
  }
  const std::string place = loader.state();
  const std::optional<data::Batch> batch = batchAt(loader, place);
  const std::optional<data::Batch> again = batchAt(loader, place);
  fuzz::require(batch.has_value() == again.has_value() &&
                    (!batch || batch->tensors[0].sameBits(again->tensors[0])),
                "another batch from the same state");
}

}  // namespace

SLUICE_FUZZ_TARGET(loader) {
  static data::Loader indexed(fuzz::smallDataset(), fuzz::smallLoading());
  static data::Loader stream(data::Stream{data::iterate(fuzz::smallDataset())},
                             {.batchSize = 2, .seed = 7});
  check(indexed, fuzz::textOf(data, size));
  check(stream, fuzz::textOf(data, size));
  std::array<std::int64_t, 2> numbers{};
  if (size >= sizeof(numbers)) {
    std::memcpy(numbers.data(), data, sizeof(numbers));
    constexpr std::string_view kState =
        R"({{"epoch":{},"position":{},"seed":7,"samples":{},"batches":{}}})";
    check(indexed, fmt::format(kState, numbers[0], numbers[1], 7, 3));
    check(stream, fmt::format(kState, numbers[0], numbers[1], -1, -1));
  }
}
