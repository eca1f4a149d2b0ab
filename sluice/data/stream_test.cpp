// Loaders of streams: every sample once and in order, whatever the workers and the processes.
#include <atomic>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "tests/support/message_of.h"

namespace sluice::data {
namespace {

using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

/// 0, 1, ... `count` - 1, and counts who reads it.
class NumberStream : public IterableDataset {
 public:
  explicit NumberStream(std::int64_t count) : count_(count) {}
  std::optional<Sample> next() override {
    ++reads;
    return at_ < count_ ? std::optional(Sample{HostTensor::scalar(at_++)}) : std::nullopt;
  }
  void restart() override { at_ = 0; }

  std::int64_t reads = 0;

 private:
  std::int64_t count_;
  std::int64_t at_ = 0;
};

std::vector<std::int64_t> counting(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(last - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

/// The samples of what is left of the epoch.
std::vector<std::int64_t> restOf(Loader& loader) {
  std::vector<std::int64_t> numbers;
  while (const std::optional<Batch> batch = loader.next()) {
    const auto data = batch->tensors.at(0).data<std::int64_t>();
    numbers.insert(numbers.end(), data.begin(), data.end());
  }
  return numbers;
}

TEST(StreamLoader, GivesEverySampleOnceInOrderForAnyModeAndWorkers) {
  for (const LoaderMode mode : {LoaderMode::Sync, LoaderMode::Async, LoaderMode::AsyncRebatched}) {
    for (const std::int64_t workers : {0, 1, 2, 3, 7}) {
      std::atomic<std::int64_t> prepared = 0;
      Loader loader(
          Stream{std::make_shared<NumberStream>(103),
                 [&](Sample sample) {
                   ++prepared;
                   return Sample{HostTensor::scalar(sample.at(0).data<std::int64_t>()[0] * 10)};
                 }},
          {.batchSize = 5,
           .workers = workers,
           .mode = mode,
           .bufferSize = 2,
           .loadIndefinitely = false});
      for (int epoch = 0; epoch < 3; ++epoch) {
        EXPECT_EQ(loader.epoch(), epoch);
        std::vector<std::int64_t> expected = counting(0, 100);  // 3 do not fill a batch
        for (std::int64_t& number : expected) {
          number *= 10;
        }
        EXPECT_EQ(restOf(loader), expected) << workers;
      }
      EXPECT_EQ(prepared, 300);
    }
  }
}

TEST(StreamLoader, TakesSamplesThatAreBatchesWithoutABatchSize) {
  Loader loader(Stream{batch(std::make_shared<NumberStream>(6), 3)}, {.batchSize = std::nullopt});
  EXPECT_THAT(loader.next()->tensors.at(0).toDoubles(), ElementsAre(0, 1, 2));
  EXPECT_THAT(loader.next()->tensors.at(0).toDoubles(), ElementsAre(3, 4, 5));
  EXPECT_FALSE(loader.next());
}

TEST(StreamLoader, ShardsAreDisjointAndMakeUpTheStream) {
  // Steps of 2 x 4 samples in blocks of 2; the 3 behind the last whole one belong to nobody.
  std::vector<std::int64_t> all;
  std::atomic<std::int64_t> prepared = 0;
  for (const std::int64_t process : {0, 1}) {
    Loader loader(
        Stream{std::make_shared<NumberStream>(27),
               [&](Sample sample) {
                 ++prepared;
                 return sample;
               }},
        {.batchSize = 4, .workers = 2, .shard = {.count = 2, .index = process, .block = 2}});
    const std::vector<std::int64_t> own = restOf(loader);
    EXPECT_EQ(own.size(), 12U);
    EXPECT_EQ(own[0], 2 * process);
    EXPECT_EQ(own[2], 4 + 2 * process);
    all.insert(all.end(), own.begin(), own.end());
  }
  std::ranges::sort(all);
  EXPECT_THAT(all, ElementsAreArray(counting(0, 24)));
  EXPECT_EQ(prepared, 24);
}

TEST(StreamLoader, ContinuesWhereAnotherOneWas) {
  const auto stream = [] {
    return Stream{shuffle(
        iterate(tensorDataset({HostTensor::of<std::int64_t>(Shape{40}, counting(0, 40))})), 16, 9)};
  };
  for (const LoaderMode mode : {LoaderMode::Sync, LoaderMode::Async}) {
    const LoaderOptions options{.batchSize = 4, .workers = 2, .mode = mode};
    Loader first(stream(), options);
    std::vector<std::int64_t> epoch0 = restOf(first);
    for (int i = 0; i < 3; ++i) {
      first.next();
    }
    const std::string state = first.state();
    const std::vector<std::int64_t> rest = restOf(first);
    const std::vector<std::int64_t> epoch2 = restOf(first);
    EXPECT_EQ(rest.size(), 28U);
    EXPECT_NE(epoch2, epoch0);
    Loader second(stream(), options);
    second.next();  // it need not be fresh
    second.restore(state);
    EXPECT_EQ(second.epoch(), 1);
    EXPECT_EQ(second.position(), 3);
    EXPECT_EQ(restOf(second), rest);
    EXPECT_EQ(restOf(second), epoch2);
    // Back again.
    second.restore(Loader(stream(), options).state());
    EXPECT_EQ(restOf(second), epoch0);
  }
}

TEST(StreamLoader, SkipsWithoutPreparing) {
  std::atomic<std::int64_t> prepared = 0;
  const auto counted = [&](Sample sample) {
    ++prepared;
    return sample;
  };
  Loader loader(Stream{std::make_shared<NumberStream>(20), counted}, {.batchSize = 2});
  loader.restore(R"({"epoch": 5, "position": 8, "seed": 0, "samples": -1, "batches": -1})");
  EXPECT_THAT(restOf(loader), ElementsAre(16, 17, 18, 19));
  EXPECT_EQ(prepared, 4);
  loader.restore(R"({"epoch": 0, "position": 11, "seed": 0, "samples": -1, "batches": -1})");
  EXPECT_THAT(messageOf([&] { loader.next(); }),
              AllOf(HasSubstr("ends behind 20 samples"), HasSubstr("batch 11")));
}

TEST(StreamLoader, HasNoLength) {
  Loader loader(Stream{std::make_shared<NumberStream>(3)}, {});
  EXPECT_FALSE(loader.hasLength());
  EXPECT_THAT(messageOf([&] { loader.batches(); }), HasSubstr("not known"));
  EXPECT_THAT(messageOf([&] { loader.samples(); }), HasSubstr("not known"));
  EXPECT_THAT(messageOf([&] { loader.leftOver(); }), HasSubstr("not known"));
  Loader indexed(tensorDataset({HostTensor(DType::F32, Shape{3})}), {});
  EXPECT_THAT(messageOf([&] { indexed.restore(loader.state()); }), HasSubstr("another loader"));
}

TEST(StreamLoader, RefusesWhatNeedsAnIndex) {
  const auto numbers = std::make_shared<NumberStream>(3);
  EXPECT_THAT(messageOf([&] { Loader(Stream{numbers}, {.shuffle = Shuffle::Yes}); }),
              HasSubstr("data::shuffle"));
  EXPECT_THAT(messageOf([&] { Loader(Stream{numbers}, {.tail = {1}}); }),
              HasSubstr("not known before it ends"));
  EXPECT_THAT(messageOf([&] { Loader(Stream{}, {}); }), HasSubstr("no dataset"));
}

TEST(StreamLoader, ErrorsNameTheSample) {
  const auto fail = [](Sample sample) {
    const std::int64_t number = sample.at(0).data<std::int64_t>()[0];
    if (number == 7) {
      raise<InvalidArgument>("no good");
    }
    return number == 5 ? Sample{HostTensor::scalar(1.0F)} : sample;
  };
  const auto at = [&](std::int64_t size, LoaderMode mode) {
    return messageOf([&] {
      Loader loader(Stream{std::make_shared<NumberStream>(20), fail},
                    {.batchSize = size, .workers = 3, .mode = mode});
      restOf(loader);
    });
  };
  EXPECT_THAT(at(1, LoaderMode::Sync), HasSubstr("sample 5"));
  EXPECT_THAT(at(1, LoaderMode::Async), AllOf(HasSubstr("f32[]"), HasSubstr("sample 5")));
  const auto third = [&](Sample sample) {
    return sample.at(0).data<std::int64_t>()[0] == 7 ? fail(sample) : sample;
  };
  EXPECT_THAT(messageOf([&] {
                Loader loader(Stream{std::make_shared<NumberStream>(20), third},
                              {.batchSize = 4, .workers = 3, .mode = LoaderMode::Async});
                restOf(loader);
              }),
              AllOf(HasSubstr("no good"), HasSubstr("sample 7")));
}

TEST(Streams, SetTheirEpochAndSkipAsIfTheyHadBeenRead) {
  const auto numbers = [] {
    return iterate(tensorDataset({HostTensor::of<std::int64_t>(Shape{10}, counting(0, 10))}));
  };
  const auto twice = [](Sample sample) {
    return Sample{HostTensor::scalar(sample.at(0).data<std::int64_t>()[0] * 2)};
  };
  const std::vector<std::function<IterablePtr()>> makers = {
      numbers,
      [&] { return map(numbers(), twice); },
      [&] { return shuffle(numbers(), 4, 3); },
      [&] { return take(shuffle(numbers(), 4, 3), 7); },
      [&] { return repeat(shuffle(numbers(), 4, 3), 2); },
      [&] { return batch(shuffle(numbers(), 4, 3), 3, Remainder::Keep); },
      [&] {
        return zip({shuffle(numbers(), 4, 3), numbers()});
      }};
  for (std::size_t m = 0; m < makers.size(); ++m) {
    const IterablePtr read = makers[m]();
    for (int epoch = 0; epoch < 2; ++epoch) {
      while (read->next()) {
      }
      read->restart();
    }
    const IterablePtr placed = makers[m]();
    placed->next();
    placed->setEpoch(2);
    EXPECT_EQ(placed->skip(2), 2);
    read->next();
    read->next();
    std::int64_t rest = 0;
    for (std::optional<Sample> expected = read->next(); expected; expected = read->next()) {
      const std::optional<Sample> got = placed->next();
      ASSERT_TRUE(got) << m;
      EXPECT_TRUE(got->at(0).sameBits(expected->at(0))) << m;
      ++rest;
    }
    EXPECT_FALSE(placed->next()) << m;
    placed->setEpoch(2);
    EXPECT_EQ(placed->skip(100), rest + 2) << m;
  }
}

}  // namespace
}  // namespace sluice::data
