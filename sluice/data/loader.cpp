#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/data/assembler.h"
#include "sluice/data/dataset.h"
#include "sluice/data/given.h"
#include "sluice/data/prefetcher.h"

namespace sluice::data {
std::int64_t samplesUsed(std::int64_t samples,
                         std::int64_t batchSize,
                         std::int64_t workers,
                         Batching batching) {
  if (samples < 0 || batchSize < 1 || workers < 1) {
    raise<InvalidArgument>("loader: there are no batches of {} in {} samples of {} workers",
                           batchSize,
                           samples,
                           workers);
  }
  const auto full = [&](std::int64_t count) { return count / batchSize * batchSize; };
  if (batching == Batching::Joined) {
    return full(samples);
  }
  const std::int64_t share = (samples + workers - 1) / workers;
  std::int64_t used = 0;
  for (std::int64_t first = 0; first < samples; first += share) {
    used += full(std::min(share, samples - first));
  }
  return used;
}

Loader::Loader(DatasetPtr dataset, const LoaderOptions& options)
    : assembler_(assemblerOf(given(std::move(dataset), "loader"), options)) {
  if (leftOver() > 0 && batches() == 0) {
    log::warn("data",
              "a batch takes more than the {} samples that there are: no batch is delivered",
              samples());
  } else if (leftOver() > 0) {
    log::info("data",
              "{} of {} samples do not fill a batch and are left out of every epoch",
              leftOver(),
              samples());
  }
  begin();
}

Loader::Loader(Stream stream, const LoaderOptions& options)
    : assembler_(assemblerOf(std::move(stream), options)) {
  begin();
}

Loader::~Loader() {
  prefetcher_.reset();  // its thread uses the assembler
}

void Loader::begin() {
  if (options().earlyPreload) {
    startPrefetching();
  }
}

void Loader::startPrefetching() {
  const LoaderOptions& o = options();
  const bool empty = hasLength() && batches() == 0;
  if (o.mode != LoaderMode::Sync && !prefetcher_ && !empty) {
    prefetcher_ = std::make_unique<Prefetcher>([this] { return assembler_->produce(); },
                                               o.bufferSize,
                                               o.loadIndefinitely ? AtEnd::Continue : AtEnd::Pause);
  }
}

std::optional<Batch> Loader::next() {
  startPrefetching();
  std::optional<Batch> batch = prefetcher_ ? prefetcher_->take() : assembler_->produce();
  epoch_ += batch ? 0 : 1;
  position_ = batch ? position_ + 1 : 0;
  return batch;
}

namespace {

/// Of a stream, in the text of a state.
constexpr EpochSize kUnknownSize{.samples = -1, .batches = -1};

/// Of all processes together, which may be more or fewer when a run is continued.
std::int64_t samplesPerBatch(const LoaderOptions& options) {
  return options.batchSize.value_or(1) * options.shard.count;
}

EpochSize knownSize(const Assembler& assembler) {
  const std::optional<EpochSize> size = assembler.size();
  if (!size) {
    raise<InvalidArgument>("loader: a stream ends when it ends, its length is not known");
  }
  return *size;
}

}  // namespace

std::int64_t Loader::batches() const {
  return knownSize(*assembler_).batches;
}
std::int64_t Loader::samples() const {
  return knownSize(*assembler_).samples;
}
std::int64_t Loader::leftOver() const {
  return knownSize(*assembler_).leftOver;
}
bool Loader::hasLength() const {
  return assembler_->size().has_value();
}
const LoaderOptions& Loader::options() const {
  return assembler_->options;
}

std::string Loader::state() const {
  const EpochSize size = assembler_->size().value_or(kUnknownSize);
  const nlohmann::ordered_json state = {{"epoch", epoch_},
                                        {"position", position_},
                                        {"seed", options().seed},
                                        {"samples", size.samples},
                                        {"batches", size.batches},
                                        {"batch", samplesPerBatch(options())},
                                        {"shuffle", options().shuffle == Shuffle::Yes}};
  return state.dump();
}

void Loader::restore(std::string_view text) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, false);
  const auto number = [&](const char* key) {
    if (!state.is_object() || !state.contains(key) || !state[key].is_number_integer()) {
      raise<InvalidArgument>(
          "loader: '{}' is no state of a loader: it has no number '{}'", text.substr(0, 80), key);
    }
    return state[key].get<std::int64_t>();
  };
  const std::int64_t epoch = number("epoch");
  const std::int64_t position = number("position");
  const auto seed = static_cast<std::uint64_t>(number("seed"));
  const EpochSize size = assembler_->size().value_or(kUnknownSize);
  const auto differs = [&](const char* key, const nlohmann::json& own) {
    // Between epochs it does no harm, and states of earlier versions do not say it.
    return position > 0 && state.contains(key) && state[key] != own;
  };
  const bool shuffles = options().shuffle == Shuffle::Yes;
  if (number("samples") != size.samples || number("batches") != size.batches ||
      seed != options().seed || differs("batch", samplesPerBatch(options())) ||
      differs("shuffle", shuffles)) {
    raise<InvalidArgument>(
        "loader: the state {} belongs to another loader; this one has {} samples in {} batches of "
        "{}, {}, seed {}: make it as the run had it, or begin a new run",
        text.substr(0, 200),
        size.samples,
        size.batches,
        samplesPerBatch(options()),
        shuffles ? "shuffled" : "in order",
        options().seed);
  }
  // Epochs and samples are counted on from there.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (epoch < 0 || epoch == kMost || position < 0 ||
      position >= kMost / samplesPerBatch(options()) || (hasLength() && position > size.batches)) {
    raise<InvalidArgument>("loader: there is no batch {} of epoch {}", position, epoch);
  }
  prefetcher_.reset();
  epoch_ = epoch;
  position_ = position;
  assembler_->goTo(epoch, position);
  begin();
}

}  // namespace sluice::data
