// Batches of a stream: one thread reads the samples in order, the workers prepare those of a batch
// and write each into its row. So every sample comes once and in its place, whatever the workers.
#include <algorithm>

#include "sluice/base/log.h"
#include "sluice/base/workers.h"
#include "sluice/data/assembler.h"
#include "sluice/data/buffer_pool.h"
#include "sluice/data/sample_rows.h"

namespace sluice::data {
namespace {

class StreamAssembler : public Assembler {
 public:
  StreamAssembler(Stream stream, const LoaderOptions& given)
      : Assembler(given),
        stream_(std::move(stream)),
        team_(static_cast<int>(std::max<std::int64_t>(1, given.workers))) {
    if (!stream_.dataset) {
      raise<InvalidArgument>("loader: the stream has no dataset");
    }
    if (given.shuffle == Shuffle::Yes) {
      raise<InvalidArgument>(
          "loader: the samples of a stream come as they come; shuffle it with "
          "data::shuffle(stream, bufferSize, seed)");
    }
    if (!given.tail.empty()) {
      raise<InvalidArgument>("loader: the rest of a stream is not known before it ends");
    }
  }

  std::optional<Batch> produce() override {
    if (streamEpoch_ != epoch_) {
      place();
    }
    if (!readStep()) {
      ++epoch_;
      position_ = 0;
      return std::nullopt;
    }
    Batch batch{.tensors = {}, .epoch = epoch_, .index = position_};
    if (options.batchSize) {
      batch.tensors = assemble();
    } else {
      ofSample(numbers_[0], [&] { prepare(samples_[0]); });
      batch.tensors = std::move(samples_[0]);
    }
    ++position_;
    return batch;
  }

  void goTo(std::int64_t epoch, std::int64_t position) override {
    epoch_ = epoch;
    position_ = position;
    streamEpoch_ = -1;
  }

  std::optional<EpochSize> size() const override { return std::nullopt; }

 private:
  /// Of all processes.
  std::int64_t samplesPerStep() const {
    return options.batchSize.value_or(1) * options.shard.count;
  }

  /// Brings the dataset to the batch that comes next.
  void place() {
    stream_.dataset->setEpoch(epoch_);
    const std::int64_t before = position_ * samplesPerStep();
    if (const std::int64_t skipped = stream_.dataset->skip(before); skipped < before) {
      raise<InvalidArgument>(
          "loader: epoch {} of the stream ends behind {} samples, before batch {}",
          epoch_,
          skipped,
          position_);
    }
    streamEpoch_ = epoch_;
  }

  /// The samples of this process of one batch of all processes. False: there are not enough.
  bool readStep() {
    samples_.clear();
    numbers_.clear();
    const Shard& shard = options.shard;
    std::int64_t read = 0;
    for (std::int64_t block = 0; read < samplesPerStep(); ++block) {
      const std::int64_t want = read + shard.block;
      if (block % shard.count == shard.index) {
        for (; read < want && readSample(position_ * samplesPerStep() + read); ++read) {
        }
      } else {
        read += stream_.dataset->skip(shard.block);
      }
      if (read < want) {
        noteRest(read);
        return false;
      }
    }
    return true;
  }

  bool readSample(std::int64_t number) {
    std::optional<Sample> sample;
    ofSample(number, [&] { sample = stream_.dataset->next(); });
    if (!sample) {
      return false;
    }
    samples_.push_back(*std::move(sample));
    numbers_.push_back(number);
    return true;
  }

  void noteRest(std::int64_t rest) const {
    if (rest > 0) {
      log::info("data",
                "the last {} samples of epoch {} do not fill a batch and are left out",
                rest,
                epoch_);
    }
  }

  void prepare(Sample& sample) const {
    if (stream_.prepare) {
      sample = stream_.prepare(std::move(sample));
    }
  }

  std::vector<HostTensor> assemble() {
    std::int64_t prepared = 0;
    if (!pool_) {
      ofSample(numbers_[0], [&] { prepare(samples_[0]); });
      prepared = 1;
      for (const HostTensor& tensor : samples_[0]) {
        types_.push_back(tensor.type());
      }
      pool_ = std::make_unique<BufferPool>(types_.size() *
                                           static_cast<std::size_t>(options.bufferSize + 2));
    }
    const std::int64_t count = std::ssize(samples_);
    std::vector<HostTensor> batch;
    for (const TensorType& type : types_) {
      batch.push_back(pool_->tensor(batchType(type, count)));
    }
    const std::int64_t size = partSize(count, team_.threads());
    team_.parallelFor((count + size - 1) / size, [&](std::int64_t part) {
      for (std::int64_t row = part * size; row < std::min(count, (part + 1) * size); ++row) {
        const auto i = static_cast<std::size_t>(row);
        ofSample(numbers_[i], [&] {
          if (row >= prepared) {
            prepare(samples_[i]);
          }
          writeRow(samples_[i], batch, row);
        });
      }
    });
    return batch;
  }

  Stream stream_;
  Workers team_;
  Types types_;                       // of a prepared sample, seen at the first
  std::unique_ptr<BufferPool> pool_;  // null: no sample was prepared yet
  std::int64_t epoch_ = 0;
  std::int64_t position_ = 0;
  std::int64_t streamEpoch_ = -1;  // that the dataset is in; -1: it must be placed
  std::vector<Sample> samples_;    // of one batch
  std::vector<std::int64_t> numbers_;
};

}  // namespace

std::unique_ptr<Assembler> assemblerOf(Stream stream, const LoaderOptions& options) {
  return std::make_unique<StreamAssembler>(std::move(stream), options);
}

}  // namespace sluice::data
