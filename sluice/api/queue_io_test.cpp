#include "sluice/api/queue_io.h"

#include <atomic>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/sluice.h"
#include "tests/support/message_of.h"

namespace sluice {
namespace {

using data::InfeedQueue;
using data::OutfeedMode;
using data::OutfeedQueue;
using ::testing::HasSubstr;

struct SumAndDifference : nn::Module {
  std::pair<nn::Tensor, nn::Tensor> forward(nn::Tensor x, nn::Tensor y) { return {x + y, x - y}; }
};

data::IterablePtr ones(std::int64_t count) {
  const HostTensor one = HostTensor::full({DType::F32, {count, 800}}, 1);
  return data::iterate(data::tensorDataset({one, one}));
}

/// Element i is {x[4, 1], y[4, 1]}.
data::IterablePtr queuedPoints(std::int64_t count) {
  HostTensor x(DType::F32, Shape{4 * count, 1});
  HostTensor y(DType::F32, Shape{4 * count, 1});
  for (std::int64_t i = 0; i < 4 * count; ++i) {
    x.set(i, std::sin(static_cast<double>(i)));
    y.set(i, 3 * x.at(i) + 1);
  }
  return data::iterate(data::batch(data::tensorDataset({x, y}), 4));
}

struct Line : nn::Module {
  nn::Linear linear{*this, "linear", 1, 1};
  nn::Tensor forward(nn::Tensor x, nn::Tensor y) { return nn::mseLoss(linear(x), y); }
};

TEST(Queues, AddAndSubtractTenVectorsOfOnes) {
  SumAndDifference net;
  auto model = inferenceModel(net, Options().deviceIterations(10));
  InfeedQueue infeed(ones(20));
  OutfeedQueue all;
  model.run(infeed, all);
  const std::vector<HostTensor> results = all.dequeue();
  EXPECT_TRUE(results[0].sameBits(HostTensor::full({DType::F32, {10, 800}}, 2)));
  EXPECT_TRUE(results[1].sameBits(HostTensor::full({DType::F32, {10, 800}}, 0)));
  OutfeedQueue last(OutfeedMode::Last);
  model.run(infeed, last);
  EXPECT_EQ(last.dequeue()[0].shape(), Shape{800});
  EXPECT_EQ(last.dequeueNamed().at("output1").at(799), 0);
}

TEST(Queues, GiveEveryReplicaItsElementsAndResults) {
  SumAndDifference net;
  auto model = inferenceModel(net, Options().deviceIterations(3).replicationFactor(2));
  HostTensor x(DType::F32, Shape{6, 2});
  for (std::int64_t i = 0; i < 12; ++i) {
    x.set(i, static_cast<double>(i / 2));
  }
  InfeedQueue infeed(data::iterate(data::tensorDataset({x, x})));
  OutfeedQueue outfeed;
  model.run(infeed, outfeed);
  const HostTensor sums = outfeed.dequeue()[0];
  EXPECT_EQ(sums.shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(sums.toDoubles(), (std::vector<double>{0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10}));
}

TEST(Queues, LossesAreDequeuedInOrderWhileTheModelTrains) {
  Line net;
  auto model = trainingModel(net, Options().deviceIterations(100), optim::SGD(0.05));
  InfeedQueue infeed(queuedPoints(100), 3);
  OutfeedQueue outfeed(OutfeedMode::All, 4);  // without a reader the model would not get far
  Pending pending = model.runAsync(infeed, outfeed);
  std::vector<double> losses;
  while (losses.size() < 100 && outfeed.await()) {
    const std::vector<double> some = outfeed.dequeue()[0].toDoubles();
    losses.insert(losses.end(), some.begin(), some.end());
  }
  pending.get();
  Line same;
  Options options;
  options.deviceIterations(100).outputMode(OutputMode::All);
  auto reference = trainingModel(same, options, optim::SGD(0.05));
  const data::IterablePtr stream = data::batch(queuedPoints(100), 100);
  const data::Sample stacked = *stream->next();
  const std::vector<HostTensor> expected =
      reference.run({stacked[0].reshaped({400, 1}), stacked[1].reshaped({400, 1})});
  EXPECT_EQ(losses, expected[0].toDoubles());
}

TEST(Queues, ErrorsReachTheCallerOfTheStep) {
  SumAndDifference net;
  auto model = inferenceModel(net, Options().deviceIterations(10));
  InfeedQueue small(ones(4));
  OutfeedQueue outfeed;
  EXPECT_THAT(testing::messageOf([&] { model.run(small, outfeed); }), HasSubstr("has 4 elements"));
  EXPECT_LE(outfeed.size(), 4);  // what was whole by then
  InfeedQueue broken(data::map(ones(10), [](data::Sample s) -> data::Sample {
    static std::atomic<int> count = 0;
    if (count++ == 3) {
      throw std::runtime_error("torn tape");
    }
    return s;
  }));
  EXPECT_THAT(testing::messageOf<Error>([&] { model.run(broken, outfeed); }),
              HasSubstr("element 3 of the infeed: torn tape"));
  InfeedQueue good(ones(10));
  outfeed.close();
  EXPECT_THAT(testing::messageOf([&] { model.run(good, outfeed); }), HasSubstr("closed"));
}

TEST(Queues, DoNotGoWithAnchorsOrSyntheticData) {
  SumAndDifference net;
  auto model = inferenceModel(net, Options().enableSyntheticData(true));
  InfeedQueue infeed(ones(4));
  OutfeedQueue outfeed;
  EXPECT_THAT(testing::messageOf([&] { model.run(infeed, outfeed); }), HasSubstr("synthetic"));
}

}  // namespace
}  // namespace sluice
