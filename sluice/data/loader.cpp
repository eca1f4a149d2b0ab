#include "sluice/data/loader.h"

#include <algorithm>
#include <numeric>

#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/base/workers.h"
#include "sluice/data/buffer_pool.h"

namespace sluice::data {
namespace {

constexpr std::int64_t kMostWorkers = 1024;

void require(const LoaderOptions& o) {
  const std::int64_t batch = o.batchSize.value_or(1);
  if (batch < 1) {
    raise<InvalidArgument>("loader: the batch size must be positive, got {}", batch);
  }
  if (o.workers < 0 || o.workers > kMostWorkers) {
    raise<InvalidArgument>("loader: workers must be 0 to {}, got {}", kMostWorkers, o.workers);
  }
  if (o.bufferSize < 1) {
    raise<InvalidArgument>("loader: bufferSize must be positive, got {}", o.bufferSize);
  }
  if (o.rebatchedWorkerSize < 0 || o.rebatchedWorkerSize > batch) {
    raise<InvalidArgument>("loader: rebatchedWorkerSize must be at most the batch of {}, got {}",
                           batch,
                           o.rebatchedWorkerSize);
  }
  const Shard& s = o.shard;
  if (s.count < 1 || s.index < 0 || s.index >= s.count || s.block < 1 || batch % s.block != 0) {
    raise<InvalidArgument>("loader: shard {} of {} in blocks of {} does not fit batches of {}",
                           s.index,
                           s.count,
                           s.block,
                           batch);
  }
  if (!o.tail.empty() && (s.count > 1 || !o.batchSize)) {
    raise<InvalidArgument>(
        "loader: the samples behind full batches cannot be shared by {} processes", s.count);
  }
}

}  // namespace

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

/// Makes batch after batch, in the thread of whoever calls.
class Loader::Assembler {
 public:
  Assembler(DatasetPtr dataset, const LoaderOptions& given)
      : options(given),
        dataset_(std::move(dataset)),
        team_(static_cast<int>(std::max<std::int64_t>(1, given.workers))) {
    require(options);
    samples = dataset_->size();
    const std::int64_t size = options.batchSize.value_or(1);
    const std::int64_t perStep = size * options.shard.count;
    full_ = samplesUsed(samples, perStep, 1, Batching::Joined) / perStep;
    std::int64_t inTail = 0;
    for (const std::int64_t each : options.tail) {
      inTail += each;
      if (each < 1 || inTail > samples - full_ * size) {
        raise<InvalidArgument>(
            "loader: a tail of {} samples does not fit the {} behind full batches",
            inTail,
            samples - full_ * size);
      }
    }
    leftOver = samples - full_ * perStep - inTail;
    if (samples > 0) {
      types = dataset_->types();
    }
    pool_ = std::make_unique<BufferPool>(types.size() *
                                         static_cast<std::size_t>(options.bufferSize + 2));
  }

  std::int64_t batches() const { return full_ + static_cast<std::int64_t>(options.tail.size()); }

  void goTo(std::int64_t epoch, std::int64_t position) {
    epoch_ = epoch;
    position_ = position;
  }

  std::optional<Batch> produce() {
    if (position_ == batches()) {
      ++epoch_;
      position_ = 0;
      return std::nullopt;
    }
    if (orderEpoch_ != epoch_) {
      order_ = sampleOrder(samples, options.shuffle, options.seed, epoch_);
      orderEpoch_ = epoch_;
    }
    Batch batch{.tensors = {}, .epoch = epoch_, .index = position_};
    if (options.batchSize) {
      batch.tensors = assemble();
    } else {
      batch.tensors = dataset_->get(order_[static_cast<std::size_t>(globalPosition(position_))]);
    }
    ++position_;
    return batch;
  }

  const LoaderOptions options;
  Types types;
  std::int64_t samples = 0;
  std::int64_t leftOver = 0;

 private:
  /// Where in the order of all processes this one's sample number `local` stands.
  std::int64_t globalPosition(std::int64_t local) const {
    const Shard& s = options.shard;
    return ((local / s.block) * s.count + s.index) * s.block + local % s.block;
  }

  std::vector<HostTensor> assemble() {
    const std::int64_t first = firstSample();
    const std::int64_t count = position_ < full_ ? *options.batchSize : tailSize();
    indices_.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      indices_[static_cast<std::size_t>(i)] =
          order_[static_cast<std::size_t>(globalPosition(first + i))];
    }
    std::vector<HostTensor> batch;
    for (const TensorType& type : types) {
      batch.push_back(pool_->tensor(batchType(type, count)));
    }
    readParts(batch, count);
    return batch;
  }

  std::int64_t tailSize() const {
    return options.tail[static_cast<std::size_t>(position_ - full_)];
  }
  std::int64_t firstSample() const {
    const std::int64_t inTail = std::max<std::int64_t>(0, position_ - full_);
    return std::accumulate(options.tail.begin(),
                           options.tail.begin() + inTail,
                           std::min(position_, full_) * *options.batchSize);
  }

  std::int64_t partSize(std::int64_t count) const {
    const std::int64_t equal = (count + team_.threads() - 1) / team_.threads();
    if (options.mode != LoaderMode::AsyncRebatched) {
      return equal;
    }
    constexpr std::int64_t kPartsPerWorker = 4;
    return options.rebatchedWorkerSize > 0 ? options.rebatchedWorkerSize
                                           : std::max<std::int64_t>(1, equal / kPartsPerWorker);
  }

  void readParts(std::span<const HostTensor> batch, std::int64_t count) {
    const std::int64_t size = partSize(count);
    team_.parallelFor((count + size - 1) / size, [&](std::int64_t part) {
      const std::int64_t first = part * size;
      const std::int64_t rows = std::min(size, count - first);
      std::vector<HostTensor> views;
      for (const HostTensor& tensor : batch) {
        views.push_back(tensor.rows(first, rows));
      }
      dataset_->read(std::span(indices_).subspan(static_cast<std::size_t>(first),
                                                 static_cast<std::size_t>(rows)),
                     views);
    });
  }

  DatasetPtr dataset_;
  std::int64_t full_ = 0;  // batches of the full size
  Workers team_;
  std::unique_ptr<BufferPool> pool_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  std::int64_t orderEpoch_ = -1;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> indices_;  // of the samples of one batch
};

Loader::Loader(DatasetPtr dataset, const LoaderOptions& options)
    : assembler_(std::make_unique<Assembler>(std::move(dataset), options)) {
  if (leftOver() > 0) {
    log::info("data",
              "{} of {} samples do not fill a batch and are left out of every epoch",
              leftOver(),
              samples());
  }
  if (options.earlyPreload) {
    startPrefetching();
  }
}

Loader::~Loader() {
  prefetcher_.reset();  // its thread uses the assembler
}

void Loader::startPrefetching() {
  const LoaderOptions& o = options();
  if (o.mode != LoaderMode::Sync && !prefetcher_ && batches() > 0) {
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

std::int64_t Loader::batches() const {
  return assembler_->batches();
}
std::int64_t Loader::samples() const {
  return assembler_->samples;
}
std::int64_t Loader::leftOver() const {
  return assembler_->leftOver;
}
const LoaderOptions& Loader::options() const {
  return assembler_->options;
}
const Types& Loader::types() const {
  return assembler_->types;
}

std::string Loader::state() const {
  const nlohmann::ordered_json state = {{"epoch", epoch_},
                                        {"position", position_},
                                        {"seed", options().seed},
                                        {"samples", samples()},
                                        {"batches", batches()}};
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
  if (number("samples") != samples() || number("batches") != batches() || seed != options().seed) {
    raise<InvalidArgument>(
        "loader: the state {} belongs to another loader; this one has {} samples in {} batches, "
        "seed {}",
        text.substr(0, 200),
        samples(),
        batches(),
        options().seed);
  }
  if (epoch < 0 || position < 0 || position > batches()) {
    raise<InvalidArgument>("loader: there is no batch {} of epoch {}", position, epoch);
  }
  prefetcher_.reset();
  epoch_ = epoch;
  position_ = position;
  assembler_->goTo(epoch, position);
  if (options().earlyPreload) {
    startPrefetching();
  }
}

}  // namespace sluice::data
