// Batches of a dataset with an index: workers read the samples that the order of the epoch names.
#include <algorithm>
#include <numeric>

#include "sluice/base/error.h"
#include "sluice/base/workers.h"
#include "sluice/data/assembler.h"
#include "sluice/data/buffer_pool.h"

namespace sluice::data {
namespace {

class IndexedAssembler : public Assembler {
 public:
  IndexedAssembler(DatasetPtr dataset, const LoaderOptions& given)
      : Assembler(given),
        dataset_(std::move(dataset)),
        team_(static_cast<int>(std::max<std::int64_t>(1, given.workers))) {
    samples_ = dataset_->size();
    const std::int64_t batch = options.batchSize.value_or(1);
    const std::int64_t perStep = batch * options.shard.count;
    full_ = samplesUsed(samples_, perStep, 1, Batching::Joined) / perStep;
    std::int64_t inTail = 0;
    for (const std::int64_t each : options.tail) {
      inTail += each;
      if (each < 1 || inTail > samples_ - full_ * batch) {
        raise<InvalidArgument>(
            "loader: a tail of {} samples does not fit the {} behind full batches",
            inTail,
            samples_ - full_ * batch);
      }
    }
    leftOver_ = samples_ - full_ * perStep - inTail;
    if (samples_ > 0) {
      types_ = dataset_->types();
    }
    pool_ = std::make_unique<BufferPool>(types_.size() *
                                         static_cast<std::size_t>(options.bufferSize + 2));
  }

  std::optional<EpochSize> size() const override {
    return EpochSize{.samples = samples_, .batches = batches(), .leftOver = leftOver_};
  }

  void goTo(std::int64_t epoch, std::int64_t position) override {
    epoch_ = epoch;
    position_ = position;
  }

  std::optional<Batch> produce() override {
    if (position_ == batches()) {
      ++epoch_;
      position_ = 0;
      return std::nullopt;
    }
    if (orderEpoch_ != epoch_) {
      order_ = sampleOrder(samples_, options.shuffle, options.seed, epoch_);
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

 private:
  std::int64_t batches() const { return full_ + std::ssize(options.tail); }

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
    for (const TensorType& type : types_) {
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

  void readParts(std::span<const HostTensor> batch, std::int64_t count) {
    const std::int64_t size = partSize(count, team_.threads());
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
  Types types_;
  std::int64_t samples_ = 0;
  std::int64_t leftOver_ = 0;  // samples that no process reads
  std::int64_t full_ = 0;      // batches of the full size
  Workers team_;
  std::unique_ptr<BufferPool> pool_;
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  std::int64_t orderEpoch_ = -1;
  std::vector<std::int64_t> order_;
  std::vector<std::int64_t> indices_;  // of the samples of one batch
};

}  // namespace

std::unique_ptr<Assembler> assemblerOf(DatasetPtr dataset, const LoaderOptions& options) {
  return std::make_unique<IndexedAssembler>(std::move(dataset), options);
}

}  // namespace sluice::data
