#include "sluice/api/data_loader.h"

#include <algorithm>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/data/given.h"

namespace sluice {

struct DataLoader::Plan {
  std::int64_t combined = 1;
  std::vector<CallShape> tail;
  data::LoaderOptions options;
};

namespace {

/// Adds the calls for `rest` samples: as many whole updates as there are, then one more. Its
/// micro-batches have one size, the largest that divides it and is no larger than a usual one: the
/// mean over them is the mean over the samples.
void addTail(const BatchLayout& layout,
             std::int64_t rest,
             std::vector<CallShape>& shapes,
             std::vector<std::int64_t>& sizes) {
  const std::int64_t perUpdate = layout.rowsPerUpdate();
  if (const std::int64_t updates = rest / perUpdate; updates > 0) {
    shapes.push_back({updates, layout.gradientAccumulation});
    sizes.push_back(updates * perUpdate);
  }
  const std::int64_t last = rest % perUpdate;
  if (last == 0) {
    return;
  }
  const std::int64_t replicas = layout.inputReplicas();
  if (last % replicas != 0) {
    raise<InvalidArgument>(
        "lastBatch Exact: the last update of an epoch has {} samples, which {} replicas cannot "
        "share evenly",
        last,
        replicas);
  }
  std::int64_t microBatch = std::min(layout.microBatch, last / replicas);
  while (last / replicas % microBatch != 0) {
    --microBatch;
  }
  shapes.push_back({1, last / replicas / microBatch});
  sizes.push_back(last);
}

}  // namespace

DataLoader::Plan DataLoader::planOf(const Options& options,
                                    std::optional<std::int64_t> samples,
                                    std::optional<std::int64_t> batchSize,
                                    const DataLoaderOptions& loading) {
  BatchLayout layout = BatchLayout::of(options, RunKind::Training);
  layout.microBatch = batchSize.value_or(1);
  Plan plan;
  if (layout.microBatch < 1 ||
      __builtin_mul_overflow(layout.microBatch, layout.inputFactor(), &plan.combined)) {
    raise<InvalidArgument>(
        "DataLoader: batches of {} samples make no call ({})", layout.microBatch, layout.factors());
  }
  const DistributedOptions& processes = options.distributed;
  // Processes that share a model are called with the same data.
  const bool shards = processes.numProcesses() > 1 && !processes.shareModel();
  if (loading.shuffle == data::Shuffle::Yes && shards && !loading.seed && !options.randomSeed()) {
    raise<InvalidArgument>(
        "DataLoader: {} processes that shuffle need a common seed: set randomSeed",
        processes.numProcesses());
  }
  plan.options = {.batchSize = batchSize ? std::optional(plan.combined) : std::nullopt,
                  .shuffle = loading.shuffle,
                  .seed = loading.seed.value_or(options.randomSeed().value_or(0)),
                  .workers = loading.workers,
                  .mode = loading.mode,
                  .rebatchedWorkerSize = loading.rebatchedWorkerSize,
                  .bufferSize = loading.bufferSize,
                  .loadIndefinitely = loading.loadIndefinitely,
                  .earlyPreload = loading.earlyPreload,
                  .shard = {.count = shards ? processes.numProcesses() : 1,
                            .index = shards ? processes.processId() : 0,
                            .block = batchSize ? layout.microBatch * layout.inputReplicas() : 1}};
  if (loading.lastBatch == LastBatch::Exact && batchSize) {
    if (options.training.accumulationReduction() == Reduction::Sum) {
      raise<InvalidArgument>(
          "lastBatch Exact gives every sample the same weight, which only the reduction Mean does");
    }
    if (!samples) {
      raise<InvalidArgument>("lastBatch Exact needs to know how many samples a stream has");
    }
    const std::int64_t rest = *samples % plan.combined;
    addTail(layout, rest, plan.tail, plan.options.tail);
    if (rest > 0) {
      log::warn(
          "data",
          "{} of {} samples do not fill a call of {}; lastBatch Exact adds {} of other shapes "
          "to every epoch, each with a program of its own",
          rest,
          *samples,
          plan.combined,
          plan.tail.size() == 1 ? "a call" : "two calls");
    }
  }
  options.freeze();
  return plan;
}

DataLoader::DataLoader(const Options& options,
                       data::DatasetPtr dataset,  // NOLINT: its size is asked in the same call
                       std::optional<std::int64_t> batchSize,
                       const DataLoaderOptions& loading)
    : DataLoader(planOf(options, data::given(dataset, "loader")->size(), batchSize, loading),
                 dataset) {}

DataLoader::DataLoader(const Plan& plan, data::DatasetPtr dataset)
    : combined_(plan.combined), tail_(plan.tail), loader_(std::move(dataset), plan.options) {}

DataLoader::DataLoader(const Options& options,
                       data::Stream stream,
                       std::optional<std::int64_t> batchSize,
                       const DataLoaderOptions& loading)
    : DataLoader(planOf(options, std::nullopt, batchSize, loading), std::move(stream)) {}

DataLoader::DataLoader(const Plan& plan, data::Stream stream)
    : combined_(plan.combined), loader_(std::move(stream), plan.options) {}

std::optional<Batch> DataLoader::next() {
  std::optional<data::Batch> loaded = loader_.next();
  if (!loaded) {
    return std::nullopt;
  }
  Batch batch{*std::move(loaded)};
  if (tail_.empty()) {
    return batch;
  }
  if (const std::int64_t full = length() - std::ssize(tail_); batch.index >= full) {
    batch.shape = tail_[static_cast<std::size_t>(batch.index - full)];
  }
  return batch;
}

}  // namespace sluice
