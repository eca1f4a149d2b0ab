#include "sluice/data/queues.h"

#include <atomic>
#include <future>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "tests/support/message_of.h"

namespace sluice::data {
namespace {

using ::testing::HasSubstr;
using Doubles = std::vector<double>;

DatasetPtr queuedNumbers(std::int64_t count) {
  HostTensor values(DType::F32, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    values.set(i, static_cast<double>(i));
  }
  return tensorDataset({values});
}

void putAll(OutfeedQueue& queue, std::size_t tensor, std::initializer_list<float> values) {
  for (const float value : values) {
    queue.put(tensor, 0, &value);
  }
}

TEST(InfeedQueue, GivesTheElementsInOrderAndKeepsTheOneItSawTheTypesOf) {
  InfeedQueue queue(iterate(batch(queuedNumbers(6), 2)), 2);
  EXPECT_EQ(queue.types(), (Types{{DType::F32, {2}}}));
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), (Doubles{0, 1}));
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), (Doubles{2, 3}));
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), (Doubles{4, 5}));
  EXPECT_EQ(queue.dequeued(), 3);
  for (int again = 0; again < 2; ++again) {
    EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { queue.dequeue(); }),
                HasSubstr("has 3 elements"));
  }
}

TEST(InfeedQueue, RefusesABatchThatIsNotFullAndSaysWhich) {
  InfeedQueue queue(iterate(batch(queuedNumbers(5), 2, Remainder::Keep)));
  queue.dequeue();
  queue.dequeue();
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { queue.dequeue(); }),
              HasSubstr("element 2 of the infeed is f32[1], the first was f32[2]"));
  EXPECT_THROW(InfeedQueue(iterate(queuedNumbers(1)), 0), InvalidArgument);
  InfeedQueue named(iterate(queuedNumbers(1)), 1, {"a", "b"});
  EXPECT_THROW(named.types(), InvalidArgument);
}

TEST(InfeedQueue, ErrorsOfTheDatasetReachTheReaderWithTheElement) {
  InfeedQueue queue(map(iterate(queuedNumbers(9)), [](Sample s) -> Sample {
    if (s[0].at(0) == 2) {
      throw std::runtime_error("unreadable");
    }
    return s;
  }));
  queue.dequeue();
  queue.dequeue();
  EXPECT_THAT(testing::messageOf<Error>([&] { queue.dequeue(); }),
              HasSubstr("element 2 of the infeed: unreadable"));
}

TEST(InfeedQueue, ClosedWhileInUseIsAnError) {
  std::latch reading(1);
  std::latch released(1);
  InfeedQueue queue(map(iterate(queuedNumbers(9)), [&](Sample s) {
    reading.count_down();
    released.wait();
    return s;
  }));
  std::future<std::string> reader = std::async(std::launch::async, [&] {
    return testing::messageOf<InvalidArgument>([&] { queue.dequeue(); });
  });
  reading.wait();
  queue.close();
  EXPECT_THAT(reader.get(), HasSubstr("closed"));
  released.count_down();
}

TEST(OutfeedQueue, HasTheShapesOfItsModeAndReplicas) {
  for (const std::int64_t replicas : {1, 2}) {
    OutfeedQueue all;
    OutfeedQueue last(OutfeedMode::Last);
    for (OutfeedQueue* queue : {&all, &last}) {
      queue->define({{DType::F32, {3}}}, replicas);
      for (int i = 0; i < 4; ++i) {
        for (std::int64_t r = 0; r < replicas; ++r) {
          const std::vector<float> values(3, static_cast<float>(10 * i) + static_cast<float>(r));
          queue->put(0, r, values.data());
        }
      }
    }
    const bool one = replicas == 1;
    const HostTensor every = all.dequeue()[0];
    EXPECT_EQ(every.shape(), one ? (Shape{4, 3}) : (Shape{4, 2, 3}));
    EXPECT_EQ(every.at(every.shape().elements() - 1), one ? 30 : 31);
    const HostTensor newest = last.dequeue()[0];
    EXPECT_EQ(newest.shape(), one ? Shape{3} : (Shape{2, 3}));
    EXPECT_EQ(newest.at(0), 30);
    EXPECT_TRUE(last.dequeue()[0].sameBits(newest));
    EXPECT_EQ(all.dequeue()[0].shape()[0], 0);
  }
}

TEST(OutfeedQueue, HasTuplesAndNamedTensors) {
  OutfeedQueue queue;
  queue.define({{DType::F32, {}}, {DType::F32, {}}}, 1, {"loss", "accuracy"});
  putAll(queue, 0, {1, 2, 3});
  putAll(queue, 1, {10, 20});
  EXPECT_EQ(queue.size(), 2);  // the third is not whole
  const auto named = queue.dequeueNamed();
  EXPECT_EQ(named.at("loss").toDoubles(), (Doubles{1, 2}));
  EXPECT_EQ(named.at("accuracy").toDoubles(), (Doubles{10, 20}));
  putAll(queue, 1, {30});
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), Doubles{3});
  OutfeedQueue tuple;
  tuple.define({{DType::F32, {}}});
  EXPECT_THROW(tuple.dequeueNamed(), InvalidArgument);
}

TEST(OutfeedQueue, RefusesToDequeueBeforeAnythingIsEnqueued) {
  OutfeedQueue queue;
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { queue.dequeue(); }),
              HasSubstr("nothing was enqueued"));
  OutfeedQueue last(OutfeedMode::Last);
  last.define({{DType::F32, {}}});
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { last.dequeue(); }),
              HasSubstr("no last one"));
  EXPECT_THROW(queue.define({}), InvalidArgument);
  EXPECT_THROW(queue.define({{DType::F32, {}}}, 1, {"a", "b"}), InvalidArgument);
  queue.define({{DType::F32, {}}});
  queue.define({{DType::F32, {}}});
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] {
                queue.define({{DType::F32, {2}}});
              }),
              HasSubstr("something else"));
  EXPECT_THROW(OutfeedQueue(OutfeedMode::All, -1), InvalidArgument);
}

TEST(OutfeedQueue, ARunBeginsBehindTheWholeIterationsOfAFailedOne) {
  OutfeedQueue queue;
  queue.define({{DType::F32, {}}, {DType::F32, {}}});
  putAll(queue, 0, {1, 2});
  putAll(queue, 1, {10});
  queue.begin();
  putAll(queue, 0, {3});
  putAll(queue, 1, {30});
  const std::vector<HostTensor> results = queue.dequeue();
  EXPECT_EQ(results[0].toDoubles(), (Doubles{1, 3}));
  EXPECT_EQ(results[1].toDoubles(), (Doubles{10, 30}));
}

TEST(OutfeedQueue, LosesNothingUnderBackPressure) {
  constexpr int kCount = 2000;
  OutfeedQueue queue(OutfeedMode::All, 3);
  queue.define({{DType::F32, {}}});
  std::thread producer([&] {
    for (int i = 0; i < kCount; ++i) {
      const auto value = static_cast<float>(i);
      queue.put(0, 0, &value);
    }
    queue.close();
  });
  Doubles seen;
  while (queue.await()) {
    const Doubles some = queue.dequeue()[0].toDoubles();
    EXPECT_LE(some.size(), 3U);
    seen.insert(seen.end(), some.begin(), some.end());
  }
  producer.join();
  ASSERT_EQ(seen.size(), static_cast<std::size_t>(kCount));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i], static_cast<double>(i));
  }
}

TEST(OutfeedQueue, IsAwaitedForALimitedTime) {
  constexpr std::chrono::milliseconds kShort{1};
  constexpr std::chrono::hours kLong{1};  // the test would not end if it were waited for
  for (const OutfeedMode mode : {OutfeedMode::All, OutfeedMode::Last}) {
    OutfeedQueue queue(mode);
    queue.define({{DType::F32, {}}});
    EXPECT_FALSE(queue.awaitFor(kShort));
    putAll(queue, 0, {1});
    EXPECT_TRUE(queue.awaitFor(kLong));
    EXPECT_FALSE(queue.awaitFor(kShort, 2));
    EXPECT_FALSE(queue.isClosed());
    queue.close();
    EXPECT_TRUE(queue.isClosed());
    EXPECT_FALSE(queue.awaitFor(kLong, 2));
  }
}

TEST(OutfeedQueue, IsNotFullForWhatAnOpenIterationNeeds) {
  OutfeedQueue queue(OutfeedMode::All, 1);
  queue.define({{DType::F32, {}}, {DType::F32, {}}});
  putAll(queue, 0, {1, 2, 3});  // one thread puts all: waiting here would be for ever
  putAll(queue, 1, {10});
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), Doubles{1});
}

TEST(OutfeedQueue, ClosedWhileAModelWaitsIsAnErrorAndWhatIsInItStays) {
  OutfeedQueue queue(OutfeedMode::All, 1);
  queue.define({{DType::F32, {}}});
  putAll(queue, 0, {7});
  std::future<std::string> model = std::async(std::launch::async, [&] {
    return testing::messageOf<InvalidArgument>([&] { putAll(queue, 0, {8}); });
  });
  queue.close();
  EXPECT_THAT(model.get(), HasSubstr("closed"));
  EXPECT_FALSE(queue.await(2));
  EXPECT_EQ(queue.dequeue()[0].toDoubles(), Doubles{7});
}

}  // namespace
}  // namespace sluice::data
