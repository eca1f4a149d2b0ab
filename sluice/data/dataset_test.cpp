#include "sluice/data/dataset.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "tests/support/message_of.h"

namespace sluice::data {
namespace {

using ::testing::HasSubstr;
using Doubles = std::vector<double>;

/// Samples {x[2] = (i, 10 i), label[] = i}.
DatasetPtr numbers(std::int64_t count) {
  HostTensor x(DType::F32, Shape{count, 2});
  HostTensor y(DType::I64, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) {
    x.set(2 * i, static_cast<double>(i));
    x.set(2 * i + 1, static_cast<double>(10 * i));
    y.set(i, static_cast<double>(i));
  }
  return tensorDataset({x, y});
}

/// The labels of all samples.
Doubles labels(const DatasetPtr& dataset) {
  Doubles all;
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    const Doubles label = dataset->get(i).back().toDoubles();
    all.insert(all.end(), label.begin(), label.end());
  }
  return all;
}

Doubles labels(const IterablePtr& dataset) {
  Doubles all;
  while (const std::optional<Sample> sample = dataset->next()) {
    const Doubles label = sample->back().toDoubles();
    all.insert(all.end(), label.begin(), label.end());
  }
  return all;
}

TEST(TensorDataset, GivesRowsAndReadsThemBehindEachOther) {
  const DatasetPtr dataset = numbers(5);
  EXPECT_EQ(dataset->types(), (Types{{DType::F32, {2}}, {DType::I64, {}}}));
  EXPECT_EQ(dataset->get(3)[0].toDoubles(), (Doubles{3, 30}));
  std::vector<HostTensor> rows = makeBatch(dataset->types(), 2);
  const std::vector<std::int64_t> indices = {4, 1};
  dataset->read(indices, rows);
  EXPECT_EQ(rows[0].toDoubles(), (Doubles{4, 40, 1, 10}));
  EXPECT_EQ(rows[1].toDoubles(), (Doubles{4, 1}));
  EXPECT_THROW(dataset->get(5), InvalidArgument);
  EXPECT_THROW(tensorDataset({}), InvalidArgument);
  EXPECT_THROW(tensorDataset({HostTensor(DType::F32, Shape{2}), HostTensor(DType::F32, Shape{3})}),
               InvalidArgument);
}

TEST(Transforms, RenumberSamples) {
  EXPECT_EQ(labels(take(numbers(5), 2)), (Doubles{0, 1}));
  EXPECT_EQ(labels(take(numbers(2), 9)), (Doubles{0, 1}));
  EXPECT_EQ(labels(repeat(numbers(2), 2)), (Doubles{0, 1, 0, 1}));
  const Doubles shuffled = labels(shuffle(numbers(20), 3));
  EXPECT_EQ(std::set<double>(shuffled.begin(), shuffled.end()).size(), 20U);
  EXPECT_EQ(shuffled, labels(shuffle(numbers(20), 3)));
  EXPECT_NE(shuffled, labels(shuffle(numbers(20), 4)));
  EXPECT_THROW(repeat(numbers(2), -1), InvalidArgument);
  EXPECT_THROW(take(numbers(2), -1), InvalidArgument);
}

TEST(Transforms, BatchAndDropOrKeepTheRemainder) {
  const DatasetPtr dropped = batch(numbers(7), 3);
  EXPECT_EQ(dropped->size(), 2);
  EXPECT_EQ(dropped->get(1)[0].toDoubles(), (Doubles{3, 30, 4, 40, 5, 50}));
  const DatasetPtr kept = batch(numbers(7), 3, Remainder::Keep);
  EXPECT_EQ(kept->size(), 3);
  EXPECT_EQ(kept->get(2)[1].shape(), Shape{1});
  EXPECT_EQ(labels(kept), (Doubles{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_THROW(batch(numbers(7), 0), InvalidArgument);
}

TEST(Transforms, ZipAndMapSamples) {
  const DatasetPtr both =
      zip({numbers(3),
           map(numbers(3), [](Sample s) { return Sample{HostTensor::scalar(s[1].at(0) * 2)}; })});
  EXPECT_EQ(both->types().size(), 3U);
  EXPECT_EQ(labels(both), (Doubles{0, 2, 4}));
  EXPECT_THROW(zip({numbers(3), numbers(4)}), InvalidArgument);
}

TEST(Transforms, ErrorsNameTheSample) {
  const DatasetPtr broken = map(numbers(5), [](Sample s) {
    if (s[1].at(0) == 3) {
      throw std::runtime_error("no such picture");
    }
    return s;
  });
  std::vector<HostTensor> rows = makeBatch(broken->types(), 2);
  const std::vector<std::int64_t> indices = {2, 3};
  EXPECT_THAT(testing::messageOf<Error>([&] { broken->read(indices, rows); }),
              HasSubstr("sample 3: no such picture"));
  const DatasetPtr ragged =
      map(numbers(5), [](Sample s) { return s[1].at(0) == 3 ? Sample{s[0]} : s; });
  EXPECT_THAT(testing::messageOf<InvalidArgument>([&] { ragged->read(indices, rows); }),
              HasSubstr("sample 3"));
  EXPECT_THROW(map(numbers(0), [](Sample s) { return s; })->types(), InvalidArgument);
}

TEST(ToTensor, ScalesBytesAndPutsChannelsFirst) {
  const HostTensor gray = HostTensor::of<std::uint8_t>({1, 1, 2}, {0, 255});
  const Sample image = toTensor(tensorDataset({gray}))->get(0);
  EXPECT_EQ(image[0].type(), (TensorType{DType::F32, {1, 1, 2}}));
  EXPECT_EQ(image[0].toDoubles(), (Doubles{0, 1}));
  const HostTensor color = HostTensor::of<std::uint8_t>({1, 1, 2, 3}, {0, 51, 102, 255, 204, 153});
  const Sample planes = toTensor(tensorDataset({color}))->get(0);
  EXPECT_EQ(planes[0].shape(), (Shape{3, 1, 2}));
  const Doubles expected = {0, 1, 0.2F, 0.8F, 0.4F, 0.6F};
  EXPECT_EQ(planes[0].toDoubles(), expected);
  EXPECT_THROW(toTensor(numbers(2)), InvalidArgument);
  EXPECT_THROW(toTensor(tensorDataset({gray}), 1), InvalidArgument);
}

TEST(Normalize, IsOneRoundingBehindToTensorAndWorksByChannel) {
  HostTensor bytes(DType::U8, Shape{100, 28, 28});
  for (std::int64_t i = 0; i < bytes.shape().elements(); ++i) {
    bytes.set(i, static_cast<double>(i * 7 % 256));
  }
  const DatasetPtr images = normalize(toTensor(tensorDataset({bytes})), {0.1307}, {0.3081});
  std::vector<HostTensor> rows = makeBatch(images->types(), 100);
  std::vector<std::int64_t> indices(100);
  std::iota(indices.rbegin(), indices.rend(), 0);
  images->read(indices, rows);
  for (std::int64_t i = 0; i < 100; ++i) {  // in blocks that do not divide 100
    const std::int64_t at = (99 - i) * 784 + 5;
    const double byte = bytes.at(i * 784 + 5);
    EXPECT_EQ(rows[0].data<float>()[static_cast<std::size_t>(at)],
              static_cast<float>((byte / 255.0 - 0.1307) / 0.3081));
  }
  const DatasetPtr floats = tensorDataset({HostTensor::of<float>({1, 2, 2}, {1, 2, 3, 4})});
  EXPECT_EQ(normalize(floats, {1, 3}, {2, 1})->get(0)[0].toDoubles(), (Doubles{0, 0.5, 0, 1}));
  std::vector<HostTensor> one = makeBatch(floats->types(), 1);
  normalize(floats, {1}, {1})->read(std::vector<std::int64_t>{0}, one);
  EXPECT_EQ(one[0].toDoubles(), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(floats->get(0)[0].toDoubles(), (Doubles{1, 2, 3, 4}));  // not written to
  EXPECT_THROW(normalize(floats, {1, 2, 3}, {1}), InvalidArgument);
  EXPECT_THROW(normalize(floats, {1}, {0}), InvalidArgument);
  EXPECT_THROW(normalize(numbers(2), {1}, {1}, 1), InvalidArgument);
}

TEST(IterableTransforms, DoTheSameOneSampleAfterTheOther) {
  EXPECT_EQ(labels(iterate(numbers(3))), (Doubles{0, 1, 2}));
  EXPECT_EQ(labels(repeat(iterate(numbers(2)), 2)), (Doubles{0, 1, 0, 1}));
  EXPECT_EQ(labels(take(repeat(iterate(numbers(2))), 5)), (Doubles{0, 1, 0, 1, 0}));
  EXPECT_EQ(labels(repeat(iterate(numbers(0)))), Doubles());
  EXPECT_EQ(labels(batch(iterate(numbers(5)), 2)), (Doubles{0, 1, 2, 3}));
  EXPECT_EQ(labels(batch(iterate(numbers(5)), 2, Remainder::Keep)), (Doubles{0, 1, 2, 3, 4}));
  EXPECT_EQ(labels(zip({iterate(numbers(2)), iterate(numbers(9))})), (Doubles{0, 1}));
  EXPECT_EQ(labels(map(iterate(numbers(2)), [](Sample s) { return Sample{s[0]}; })),
            (Doubles{0, 0, 1, 10}));
  EXPECT_THROW(batch(iterate(numbers(1)), 0), InvalidArgument);
  EXPECT_THROW(take(iterate(numbers(1)), -1), InvalidArgument);
}

TEST(IterableTransforms, ShuffleByABufferWithANewOrderAtEachRestart) {
  const IterablePtr stream = shuffle(iterate(numbers(50)), 10, 7);
  const Doubles first = labels(stream);
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), 50U);
  stream->restart();
  const Doubles second = labels(stream);
  EXPECT_EQ(std::set<double>(second.begin(), second.end()).size(), 50U);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, labels(shuffle(iterate(numbers(50)), 10, 7)));
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_LT(first[i], static_cast<double>(i) + 10);  // none comes before it was read
  }
  EXPECT_THROW(shuffle(stream, 0, 1), InvalidArgument);
}

}  // namespace
}  // namespace sluice::data
