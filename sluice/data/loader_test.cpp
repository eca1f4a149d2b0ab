#include <algorithm>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/buffer_pool.h"
#include "sluice/data/dataset.h"
#include "sluice/data/prefetcher.h"
#include "tests/support/message_of.h"

namespace sluice::data {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

/// Sample i is {i as i64[]}.
DatasetPtr loadedNumbers(std::int64_t count) {
  HostTensor values(DType::I64, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    values.set(i, static_cast<double>(i));
  }
  return tensorDataset({values});
}

Numbers valuesOf(const Batch& batch) {
  const auto data = batch.tensors[0].data<std::int64_t>();
  return {data.begin(), data.end()};
}

/// One epoch, batch by batch.
std::vector<Numbers> epochOf(Loader& loader) {
  std::vector<Numbers> all;
  while (const std::optional<Batch> batch = loader.next()) {
    all.push_back(valuesOf(*batch));
  }
  return all;
}

Numbers joined(const std::vector<Numbers>& batches) {
  Numbers all;
  for (const Numbers& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(Loader, EverySampleOncePerEpochInTheSeededOrderForAnyModeAndWorkers) {
  std::mt19937 random(20240607);  // the seed of the trials below
  for (int trial = 0; trial < 12; ++trial) {
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t samples = draw(1, 300);
    LoaderOptions options{.batchSize = draw(1, 40), .seed = random()};
    options.shuffle = draw(0, 3) == 0 ? Shuffle::No : Shuffle::Yes;
    SCOPED_TRACE(fmt::format("trial {}: {} samples in batches of {}, seed {}",
                             trial,
                             samples,
                             *options.batchSize,
                             options.seed));
    // Half of the samples by a dataset that reads them one by one.
    const DatasetPtr dataset = trial % 2 == 0
                                   ? loadedNumbers(samples)
                                   : map(loadedNumbers(samples), [](Sample s) { return s; });
    for (const LoaderMode mode :
         {LoaderMode::Sync, LoaderMode::Async, LoaderMode::AsyncRebatched}) {
      for (const std::int64_t workers : {0, 1, 3}) {
        options.mode = mode;
        options.workers = workers;
        Loader loader(dataset, options);
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          EXPECT_EQ(loader.epoch(), epoch);
          const Numbers seen = joined(epochOf(loader));
          Numbers expected = sampleOrder(samples, options.shuffle, options.seed, epoch);
          expected.resize(
              static_cast<std::size_t>(samples / *options.batchSize * *options.batchSize));
          EXPECT_EQ(seen, expected) << "workers " << workers;
          EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), seen.size());
        }
      }
    }
  }
}

TEST(Loader, ShufflesEachEpochAnew) {
  Loader loader(loadedNumbers(50), {.batchSize = 50, .shuffle = Shuffle::Yes, .seed = 1});
  const Numbers first = joined(epochOf(loader));
  const Numbers second = joined(epochOf(loader));
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::ranges::is_permutation(first, second));
}

TEST(Loader, HasAsManyBatchesAsAreFull) {
  EXPECT_EQ(Loader(loadedNumbers(10000), {.batchSize = 200}).batches(), 50);
  const Loader loader(loadedNumbers(10000), {.batchSize = 800});
  EXPECT_EQ(loader.batches(), 12);
  EXPECT_EQ(loader.leftOver(), 400);
  EXPECT_EQ(Loader(loadedNumbers(3), {.batchSize = 4}).batches(), 0);
  Loader empty(loadedNumbers(0), {.batchSize = 4, .mode = LoaderMode::Async});
  EXPECT_FALSE(empty.next());
  EXPECT_FALSE(empty.next());
}

TEST(Rebatching, JoinedBatchesLoseLessThanThoseOfWorkers) {
  EXPECT_EQ(samplesUsed(100, 4, 7, Batching::PerWorker), 80);
  EXPECT_EQ(samplesUsed(100, 4, 7, Batching::Joined), 100);
  EXPECT_EQ(samplesUsed(103, 4, 1, Batching::PerWorker), 100);
  EXPECT_EQ(samplesUsed(0, 4, 7, Batching::PerWorker), 0);
  EXPECT_THROW(samplesUsed(10, 0, 1, Batching::Joined), InvalidArgument);
  Loader loader(
      loadedNumbers(100),
      {.batchSize = 4, .workers = 7, .mode = LoaderMode::AsyncRebatched, .rebatchedWorkerSize = 1});
  EXPECT_EQ(joined(epochOf(loader)).size(), 100U);
}

TEST(Loader, TailBatchesFollowTheFullOnes) {
  Loader loader(loadedNumbers(29), {.batchSize = 12, .tail = {4, 1}, .mode = LoaderMode::Async});
  EXPECT_EQ(loader.batches(), 4);
  EXPECT_EQ(loader.leftOver(), 0);
  const std::vector<Numbers> epoch = epochOf(loader);
  EXPECT_EQ(epoch[2], (Numbers{24, 25, 26, 27}));
  EXPECT_EQ(epoch[3], Numbers{28});
  EXPECT_THROW(Loader(loadedNumbers(29), {.batchSize = 12, .tail = {6}}), InvalidArgument);
}

TEST(Loader, ShardsAreDisjointAndMakeUpTheOrderOfAll) {
  const LoaderOptions whole{.batchSize = 12, .shuffle = Shuffle::Yes, .seed = 5};
  Loader one(loadedNumbers(40), whole);
  const std::vector<Numbers> all = epochOf(one);
  std::vector<std::vector<Numbers>> parts;
  for (const std::int64_t index : {0, 1, 2}) {
    LoaderOptions options = whole;
    options.batchSize = 4;
    options.shard = {.count = 3, .index = index, .block = 2};
    Loader loader(loadedNumbers(40), options);
    EXPECT_EQ(loader.batches(), 3);
    EXPECT_EQ(loader.leftOver(), 4);
    parts.push_back(epochOf(loader));
  }
  for (std::size_t b = 0; b < all.size(); ++b) {
    Numbers together;  // blocks of 2 by turns
    for (std::size_t i = 0; i < 4; i += 2) {
      for (const auto& part : parts) {
        together.insert(together.end(), {part[b][i], part[b][i + 1]});
      }
    }
    EXPECT_EQ(together, all[b]);
  }
}

TEST(Loader, WithoutABatchSizeEverySampleIsABatch) {
  Loader loader(batch(loadedNumbers(6), 2), {.batchSize = std::nullopt});
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(epochOf(loader)[1], (Numbers{2, 3}));
}

TEST(Loader, AKeptBatchNeverChanges) {
  LoaderOptions options{.batchSize = 5, .shuffle = Shuffle::Yes, .mode = LoaderMode::Async};
  std::vector<HostTensor> kept;
  std::vector<Numbers> expected;
  {
    Loader loader(loadedNumbers(100), options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (const std::optional<Batch> batch = loader.next()) {
        if (batch->index % 3 == 0) {
          kept.push_back(batch->tensors[0].rows(1, 2));  // a view keeps the whole
          const Numbers values = valuesOf(*batch);
          expected.push_back({values[1], values[2]});
        }
      }
    }
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto data = kept[i].data<std::int64_t>();
    EXPECT_EQ(Numbers(data.begin(), data.end()), expected[i]);
  }
}

TEST(BufferPool, UsesMemoryAgainOnceNobodyHoldsIt) {
  BufferPool pool(1);
  const TensorType type{DType::F32, {4, 2}};
  HostTensor first = pool.tensor(type);
  const std::byte* memory = first.bytes();
  HostTensor view = first.rows(2, 1);
  first = HostTensor();
  EXPECT_NE(pool.tensor(type).bytes(), memory);
  view = HostTensor();
  HostTensor again = pool.tensor(type);
  EXPECT_NE(pool.tensor({DType::F32, {2, 2}}).bytes(), again.bytes());
}

TEST(BufferPool, TensorsMayOutliveIt) {
  auto pool = std::make_unique<BufferPool>(4);
  HostTensor tensor = pool->tensor({DType::F32, {8}});
  tensor.set(7, 3);
  pool.reset();
  EXPECT_EQ(tensor.at(7), 3);
}

TEST(Loader, ErrorsOfTheDatasetReachTheCallerWithTheSample) {
  const DatasetPtr broken = map(loadedNumbers(20), [](Sample s) {
    if (s[0].at(0) == 13) {
      throw std::runtime_error("the file is gone");
    }
    return s;
  });
  for (const LoaderMode mode : {LoaderMode::Sync, LoaderMode::Async, LoaderMode::AsyncRebatched}) {
    Loader loader(broken, {.batchSize = 5, .workers = 2, .mode = mode});
    EXPECT_EQ(valuesOf(*loader.next()), (Numbers{0, 1, 2, 3, 4}));  // those before it arrive
    EXPECT_EQ(valuesOf(*loader.next()), (Numbers{5, 6, 7, 8, 9}));
    EXPECT_THAT(testing::messageOf<Error>([&] { loader.next(); }),
                HasSubstr("sample 13: the file is gone"));
  }
}

TEST(Loader, ContinuesFromASavedState) {
  for (const LoaderMode mode : {LoaderMode::Sync, LoaderMode::Async}) {
    const LoaderOptions options{.batchSize = 3, .shuffle = Shuffle::Yes, .seed = 9, .mode = mode};
    Loader loader(loadedNumbers(20), options);
    epochOf(loader);
    loader.next();
    loader.next();
    const std::string state = loader.state();
    EXPECT_EQ(
        state,
        R"({"epoch":1,"position":2,"seed":9,"samples":20,"batches":6,"batch":3,"shuffle":true})");
    const std::vector<Numbers> rest = epochOf(loader);
    const std::vector<Numbers> third = epochOf(loader);
    Loader other(loadedNumbers(20), options);
    other.next();
    other.restore(state);
    EXPECT_EQ(epochOf(other), rest);
    EXPECT_EQ(epochOf(other), third);
    other.restore(R"({"epoch":1,"position":6,"seed":9,"samples":20,"batches":6})");
    EXPECT_FALSE(other.next());
    EXPECT_EQ(epochOf(other), third);
  }
}

TEST(Loader, RefusesStatesOfOthersAndTextThatIsNone) {
  Loader loader(loadedNumbers(20), {.batchSize = 3, .seed = 9});
  const auto message = [&](const std::string& text) {
    return testing::messageOf<InvalidArgument>([&] { loader.restore(text); });
  };
  EXPECT_THAT(message("{"), HasSubstr("no state"));
  EXPECT_THAT(message("[1]"), HasSubstr("no state"));
  EXPECT_THAT(message(R"({"epoch":"1"})"), HasSubstr("'epoch'"));
  EXPECT_THAT(message(R"({"epoch":1,"position":2,"seed":9,"samples":21,"batches":6})"),
              HasSubstr("another loader"));
  EXPECT_THAT(
      message(R"({"epoch":1,"position":2,"seed":9,"samples":20,"batches":6,"shuffle":true})"),
      AllOf(HasSubstr("in order"), HasSubstr("as the run had it")));
  EXPECT_THAT(message(R"({"epoch":1,"position":2,"seed":9,"samples":20,"batches":6,"batch":2})"),
              HasSubstr("6 batches of 3"));
  loader.restore(R"({"epoch":1,"position":2,"seed":9,"samples":20,"batches":6,"batch":3})");
  loader.restore(R"({"epoch":1,"position":0,"seed":9,"samples":20,"batches":6,"shuffle":true})");
  EXPECT_THAT(message(R"({"epoch":1,"position":7,"seed":9,"samples":20,"batches":6})"),
              HasSubstr("no batch 7"));
  EXPECT_THAT(
      message(R"({"epoch":9223372036854775807,"position":6,"seed":9,"samples":20,"batches":6})"),
      HasSubstr("of epoch 9223372036854775807"));
}

TEST(Loader, RefusesPositionsOfAStreamThatCannotBeCounted) {
  Loader loader(Stream{iterate(loadedNumbers(20))}, {.batchSize = 3, .seed = 9});
  // 3 * 6148914691236517206 is 2 in 64 bits: taken for two samples that are skipped.
  constexpr std::string_view kState =
      R"({"epoch":1,"position":6148914691236517206,"seed":9,"samples":-1,"batches":-1})";
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] {
                loader.restore(kState);
                loader.next();
              }),
              HasSubstr("no batch 6148914691236517206"));
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  const auto refused = [](LoaderOptions options) {
    return testing::messageOf<InvalidArgument>([&] { Loader(loadedNumbers(9), options); });
  };
  EXPECT_THAT(refused({.batchSize = 0}), HasSubstr("batch size"));
  EXPECT_THAT(refused({.workers = -1}), HasSubstr("workers"));
  EXPECT_THAT(refused({.bufferSize = 0}), HasSubstr("bufferSize"));
  EXPECT_THAT(refused({.batchSize = 3, .rebatchedWorkerSize = 4}),
              HasSubstr("rebatchedWorkerSize"));
  EXPECT_THAT(refused({.batchSize = 3, .shard = {.count = 2, .index = 2}}), HasSubstr("shard 2"));
  EXPECT_THAT(refused({.batchSize = 2, .tail = {1}, .shard = {.count = 2}}),
              HasSubstr("cannot be shared"));
}

/// Counts how many samples were read and lets others wait for that.
class ReadCounter {
 public:
  DatasetPtr over(DatasetPtr dataset) {
    return map(std::move(dataset), [this](Sample sample) {
      const std::scoped_lock lock(mutex_);
      ++count_;
      changed_.notify_all();
      return sample;
    });
  }
  void await(std::int64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }
  std::int64_t count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t count_ = 0;
};

TEST(Loader, LoadsAheadAsFarAsTheBufferAndWhenItIsTold) {
  ReadCounter counter;
  LoaderOptions options{.batchSize = 2, .mode = LoaderMode::Async, .bufferSize = 3};
  options.earlyPreload = true;
  Loader early(counter.over(loadedNumbers(100)), options);
  counter.await(1 + 6);  // the types, then three batches; nobody has asked for one
  ReadCounter late;
  options.earlyPreload = false;
  Loader lazy(late.over(loadedNumbers(100)), options);
  EXPECT_EQ(late.count(), 1);
  lazy.next();
  late.await(1 + 2 + 6);
}

TEST(Loader, GoesOnToTheNextEpochOnlyIfItLoadsIndefinitely) {
  LoaderOptions options{.batchSize = 2, .mode = LoaderMode::Async, .bufferSize = 2};
  ReadCounter counter;
  Loader indefinite(counter.over(loadedNumbers(4)), options);
  epochOf(indefinite);
  counter.await(1 + 4 + 4);  // the second epoch comes by itself
  ReadCounter paused;
  options.loadIndefinitely = false;
  Loader once(paused.over(loadedNumbers(4)), options);
  epochOf(once);
  EXPECT_EQ(paused.count(), 1 + 4);
  EXPECT_EQ(epochOf(once).size(), 2U);
}

TEST(Prefetcher, ClosingItWhileSomebodyWaitsIsAnErrorAndNotAHang) {
  std::latch released(1);
  std::latch producing(1);
  Prefetcher prefetcher(
      [&]() -> std::optional<Batch> {
        producing.count_down();
        released.wait();
        return Batch{};
      },
      1,
      AtEnd::Stop);
  std::future<std::string> taker = std::async(std::launch::async, [&] {
    return testing::messageOf<InvalidArgument>([&] { prefetcher.take(); });
  });
  producing.wait();
  prefetcher.close();
  EXPECT_THAT(taker.get(), HasSubstr("closed"));
  released.count_down();
}

}  // namespace
}  // namespace sluice::data
