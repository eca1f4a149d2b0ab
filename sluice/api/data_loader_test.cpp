#include "sluice/api/data_loader.h"

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sample i is {x[2] of i, y[1] of i}.
data::DatasetPtr points(std::int64_t count) {
  HostTensor x(DType::F64, Shape{count, 2});
  HostTensor y(DType::F64, Shape{count, 1});
  for (std::int64_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / 7;
    x.set(2 * i, std::sin(t));
    x.set(2 * i + 1, std::cos(3 * t));
    y.set(i, 2 * std::sin(t) - std::cos(3 * t) + 0.5);
  }
  return data::tensorDataset({x, y});
}

struct Regression : nn::Module {
  nn::Linear linear{*this, "linear", 2, 1, {.dtype = DType::F64}};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(linear(x), y); }
};

std::vector<HostTensor> rowsOf(const data::DatasetPtr& all,
                               std::int64_t first,
                               std::int64_t count) {
  std::vector<HostTensor> rows = data::makeBatch(all->types(), count);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(first + i);
  }
  all->read(indices, rows);
  return rows;
}

TEST(DataLoader, CombinesBatchesForACallOfTheModel) {
  Options options;
  options.deviceIterations(100);
  DataLoader two(options, points(10000), 2);
  EXPECT_EQ(two.combinedBatchSize(), 200);
  EXPECT_EQ(two.length(), 50);
  EXPECT_TRUE(options.isFrozen());
  EXPECT_EQ(two.next()->tensors[0].shape(), (Shape{200, 2}));
  Options replicated = options.clone();
  replicated.replicationFactor(4);
  const DataLoader eight(replicated, points(10000), 2);
  EXPECT_EQ(eight.combinedBatchSize(), 800);
  EXPECT_EQ(eight.length(), 12);
  EXPECT_EQ(eight.leftOver(), 400);
  Options grouped = replicated.clone();
  grouped.inputReplicaGrouping(2, CommGroupType::Consecutive);
  grouped.training.gradientAccumulation(3);
  EXPECT_EQ(DataLoader(grouped, points(10000), 2).combinedBatchSize(), 2 * 100 * 2 * 3);
}

TEST(DataLoader, IsWalkedEpochByEpoch) {
  DataLoader loader(Options(), points(10), 4, {.shuffle = data::Shuffle::Yes, .seed = 2});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::int64_t index = 0;
    for (const Batch& batch : loader) {
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.index, index++);
      EXPECT_FALSE(batch.shape);
    }
    EXPECT_EQ(index, 2);
  }
  loader.restore(DataLoader(Options(), points(10), 4, {.seed = 2}).state());
  EXPECT_EQ(loader.epoch(), 0);
}

TEST(DataLoader, TakesSamplesThatAreWholeCallsWithoutABatchSize) {
  DataLoader loader(Options().deviceIterations(5), data::batch(points(20), 10), std::nullopt);
  EXPECT_EQ(loader.length(), 2);
  EXPECT_EQ(loader.next()->tensors[1].shape(), (Shape{10, 1}));
}

TEST(DataLoader, GivesProcessesDisjointSamplesThatMakeUpTheBatchOfAll) {
  Options all;
  all.deviceIterations(2).replicationFactor(2).randomSeed(3);
  const DataLoaderOptions shuffled{.shuffle = data::Shuffle::Yes};
  DataLoader whole(all, points(50), 3, shuffled);
  const Batch expected = *whole.next();
  const BatchLayout layout = BatchLayout::of(all, RunKind::Training);
  for (const std::int64_t process : {0, 1}) {
    Options one;
    one.deviceIterations(2).randomSeed(3);
    one.distributed.configureProcessId(process, 2);
    DataLoader loader(one, points(50), 3, shuffled);
    EXPECT_EQ(loader.length(), whole.length());
    const Batch batch = *loader.next();
    for (std::int64_t iteration = 0; iteration < 2; ++iteration) {
      // A process has the rows that a replica of its number would have.
      const std::int64_t row = (iteration * layout.inputReplicas() + process) * 3;
      EXPECT_TRUE(
          batch.tensors[0].rows(iteration * 3, 3).sameBits(expected.tensors[0].rows(row, 3)));
    }
  }
  Options unseeded;
  unseeded.distributed.configureProcessId(0, 2);
  EXPECT_THAT(testing::messageOf([&] { DataLoader(unseeded, points(50), 3, shuffled); }),
              HasSubstr("randomSeed"));
}

TEST(DataLoader, CombinesTheSamplesOfAStream) {
  const Options options = Options().deviceIterations(2);
  HostTensor numbers(DType::F32, Shape{11, 1});
  for (std::int64_t i = 0; i < 11; ++i) {
    numbers.set(i, static_cast<double>(i));
  }
  const auto stream = [&] { return data::Stream{data::iterate(data::tensorDataset({numbers}))}; };
  DataLoader loader(options, stream(), 2, {.workers = 2, .mode = DataLoaderMode::Async});
  EXPECT_EQ(loader.combinedBatchSize(), 4);
  EXPECT_FALSE(loader.hasLength());
  EXPECT_THAT(testing::messageOf([&] { loader.length(); }), HasSubstr("not known"));
  std::vector<double> seen;
  for (const Batch& batch : loader) {
    const std::vector<double> rows = batch.tensors.at(0).toDoubles();
    seen.insert(seen.end(), rows.begin(), rows.end());
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_THAT(testing::messageOf(
                  [&] { DataLoader(Options(), stream(), 2, {.lastBatch = LastBatch::Exact}); }),
              HasSubstr("how many samples a stream has"));
}

TEST(DataLoader, OfAStreamTrainsToTheBitsOfTheDataset) {
  const auto weightAfter = [](DataLoader loader) {
    Regression net;
    auto model = trainingModel(net, Options(), optim::SGD(0.1));
    const FitResult result = fit(model, loader, {.epochs = 3});
    EXPECT_EQ(result.epochs.size(), 3U);
    EXPECT_EQ(model.updates(), 12);
    return net.linear.weight.value().hash();
  };
  const std::uint64_t indexed = weightAfter(DataLoader(Options(), points(50), 12));
  const data::Stream stream{data::iterate(points(50))};
  EXPECT_EQ(weightAfter(DataLoader(
                Options(), stream, 12, {.workers = 3, .mode = DataLoaderMode::AsyncRebatched})),
            indexed);
}

TEST(ExactLastBatch, HasWholeUpdatesAndThenOneOfTheRest) {
  Options options;
  options.deviceIterations(4);
  options.training.gradientAccumulation(3);
  // 48 samples per call, 12 per update: 48 + 2 * 12 + 10, and 10 is 5 micro-batches of 2.
  DataLoader loader(options, points(82), 4, {.lastBatch = LastBatch::Exact});
  EXPECT_EQ(loader.length(), 3);
  EXPECT_EQ(loader.leftOver(), 0);
  EXPECT_FALSE(loader.next()->shape);
  const Batch updates = *loader.next();
  EXPECT_EQ(updates.tensors[0].shape()[0], 24);
  EXPECT_EQ(updates.shape->deviceIterations, 2);
  EXPECT_EQ(updates.shape->gradientAccumulation, 3);
  const Batch last = *loader.next();
  EXPECT_EQ(last.tensors[0].shape()[0], 10);
  EXPECT_EQ(last.shape->deviceIterations, 1);
  EXPECT_EQ(last.shape->gradientAccumulation, 5);
}

/// What is logged while the loader is made.
std::string logOfLoader(const Options& options,
                        std::int64_t samples,
                        std::int64_t batchSize,
                        LastBatch lastBatch) {
  ::testing::internal::CaptureStderr();
  const DataLoader loader(options, points(samples), batchSize, {.lastBatch = lastBatch});
  return ::testing::internal::GetCapturedStderr();
}

TEST(LastBatches, ThatAreNotFullAreWarnedOfWithTheirSize) {
  Options options;
  options.deviceIterations(4);
  options.training.gradientAccumulation(3);
  // 48 samples per call and 12 per update.
  EXPECT_THAT(logOfLoader(options.clone(), 82, 4, LastBatch::Exact),
              AllOf(HasSubstr("warning data: 34 of 82 samples do not fill a call of 48"),
                    HasSubstr("adds two calls")));
  EXPECT_THAT(logOfLoader(options.clone(), 72, 4, LastBatch::Exact),
              AllOf(HasSubstr("warning data: 24 of 72 samples"), HasSubstr("adds a call")));
  EXPECT_EQ(logOfLoader(options.clone(), 96, 4, LastBatch::Exact), "");
  // What is left out is no surprise of shapes: it is only mentioned.
  EXPECT_THAT(logOfLoader(options.clone(), 82, 4, LastBatch::Drop),
              AllOf(HasSubstr("info data: 34 of 82 samples"), HasSubstr("left out")));
  EXPECT_EQ(logOfLoader(options.clone(), 96, 4, LastBatch::Drop), "");
}

TEST(ExactLastBatch, HasEverySampleOnceForAnyModeAndWorkers) {
  HostTensor numbers(DType::F32, Shape{29, 1});
  std::vector<double> all;
  for (std::int64_t i = 0; i < 29; ++i) {
    numbers.set(i, static_cast<double>(i));
    all.push_back(static_cast<double>(i));
  }
  Options options;
  options.deviceIterations(2);
  options.training.gradientAccumulation(3);
  for (const DataLoaderMode mode :
       {DataLoaderMode::Sync, DataLoaderMode::Async, DataLoaderMode::AsyncRebatched}) {
    for (const std::int64_t workers : {0, 7}) {
      DataLoader loader(options,
                        data::tensorDataset({numbers}),
                        2,
                        {.workers = workers, .mode = mode, .lastBatch = LastBatch::Exact});
      for (int epoch = 0; epoch < 2; ++epoch) {
        std::vector<double> seen;
        std::vector<std::int64_t> sizes;
        for (const Batch& batch : loader) {
          const std::vector<double> rows = batch.tensors.at(0).toDoubles();
          sizes.push_back(std::ssize(rows));
          seen.insert(seen.end(), rows.begin(), rows.end());
        }
        // Two calls of 12 and the last update of 5: workers share batches and leave no remainder.
        EXPECT_THAT(sizes, ElementsAre(12, 12, 5));
        EXPECT_EQ(seen, all);
      }
    }
  }
}

TEST(ExactLastBatch, TrainsAsIfEveryUpdateWereTheMeanOverItsSamples) {
  const data::DatasetPtr data = points(29);
  Regression net;
  Options options;
  options.deviceIterations(2);
  options.training.gradientAccumulation(3);
  auto model = trainingModel(net, options, optim::SGD({.lr = 0.1, .momentum = 0.9}));
  DataLoader loader(
      options, data, 4, {.mode = DataLoaderMode::Async, .lastBatch = LastBatch::Exact});
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const Batch& batch : loader) {
      model.run(batch);
    }
  }
  EXPECT_EQ(model.updates(), 6);
  // The oracle has no micro-batches: an update is one batch of 12, 12 and 5 samples.
  Regression reference;
  auto plain = trainingModel(reference, Options(), optim::SGD({.lr = 0.1, .momentum = 0.9}));
  for (int epoch = 0; epoch < 2; ++epoch) {
    plain.run(rowsOf(data, 0, 12));
    plain.run(rowsOf(data, 12, 12));
    plain.run(rowsOf(data, 24, 5));
  }
  for (std::int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(net.linear.weight.value().at(i), reference.linear.weight.value().at(i), 1e-12);
  }
}

TEST(ExactLastBatch, RunsInferenceOverEverySample) {
  Regression net;
  auto model = inferenceModel(net, Options().deviceIterations(3));
  Options options;
  options.deviceIterations(3);
  DataLoader loader(options, points(17), 4, {.lastBatch = LastBatch::Exact});
  double sum = 0;
  for (const Batch& batch : loader) {
    const HostTensor losses = model.run(batch)[0];
    const std::int64_t rows = batch.tensors[0].shape()[0] / losses.shape().elements();
    for (const double loss : losses.toDoubles()) {
      sum += loss * static_cast<double>(rows);
    }
  }
  auto plain = inferenceModel(net, Options());
  EXPECT_NEAR(sum, 17 * plain.run(rowsOf(points(17), 0, 17))[0].at(0), 1e-12);
}

TEST(ExactLastBatch, RefusesWhatCannotBeExact) {
  const auto refused = [](const Options& options) {
    return testing::messageOf(
        [&] { DataLoader(options, points(29), 4, {.lastBatch = LastBatch::Exact}); });
  };
  EXPECT_THAT(refused(Options().replicationFactor(2)), HasSubstr("2 replicas cannot share"));
  Options sum;
  sum.training.accumulationAndReplicationReductionType(Reduction::Sum);
  EXPECT_THAT(refused(sum), HasSubstr("reduction Mean"));
  Options processes;
  processes.distributed.configureProcessId(0, 2);
  EXPECT_THAT(refused(processes), HasSubstr("2 processes"));
  EXPECT_THAT(testing::messageOf([] { DataLoader(Options(), points(4), 0); }),
              HasSubstr("0 samples"));
}

}  // namespace
}  // namespace sluice
