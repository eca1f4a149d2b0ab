#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/idx.h"
#include "sluice/data/memory_loader.h"
#include "sluice/data/mnist.h"

namespace sluice::data {
namespace {

using namespace std::string_literals;

template <class E>
void expectError(const std::function<void()>& action, const std::string& word) {
  try {
    action();
    FAIL() << "nothing was thrown";
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST(Idx, ReadsBytesAndBigEndianNumbers) {
  const HostTensor bytes = parseIdx("\0\0\x08\x02\0\0\0\x02\0\0\0\x03\1\2\3\4\5\6"s, "t");
  EXPECT_EQ(bytes.type(), (TensorType{DType::U8, Shape{2, 3}}));
  EXPECT_EQ(bytes.toDoubles(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  const HostTensor ints = parseIdx("\0\0\x0c\x01\0\0\0\x02\0\0\1\0\xff\xff\xff\xff"s, "t");
  EXPECT_EQ(ints.toDoubles(), (std::vector<double>{256, -1}));
  const HostTensor scalar = parseIdx("\0\0\x0d\0\x3f\x80\0\0"s, "t");
  EXPECT_EQ(scalar.toDoubles(), std::vector<double>{1.0});
  EXPECT_EQ(parseIdx("\0\0\x08\x01\0\0\0\0"s, "t").shape(), Shape{0});
}

TEST(Idx, BrokenFilesAreFileErrorsThatSayWhy) {
  expectError<FileError>([] { parseIdx("", "t"); }, "not an IDX file");
  expectError<FileError>([] { parseIdx("PK\x08\x01"s, "t"); }, "not an IDX file");
  expectError<FileError>([] { parseIdx("\0\0\x07\x01\0\0\0\x01\1"s, "t"); }, "0x07");
  expectError<FileError>([] { parseIdx("\0\0\x08\x03\0\0\0\x01"s, "t"); }, "header");
  expectError<FileError>([] { parseIdx("\0\0\x08\x01\0\0\0\x05\1\2"s, "t"); }, "holds 2");
  expectError<FileError>([] { parseIdx("\0\0\x08\x01\0\0\0\x01\1\2"s, "t"); }, "holds 2");
  expectError<FileError>(
      [] { parseIdx("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, "t"); },
      "more elements");
  expectError<FileError>([] { readIdx("/nonexistent/file"); }, "cannot open");
}

TEST(Idx, EveryTruncationIsRefused) {
  const std::string whole = "\0\0\x0c\x02\0\0\0\x02\0\0\0\x02"s + std::string(16, '\1');
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW(parseIdx(whole.substr(0, n), "t"), FileError) << n;
  }
  EXPECT_NO_THROW(parseIdx(whole, "t"));
}

TEST(Mnist, ExplainsMissingFiles) {
  expectError<FileError>([] { mnistDataset("/nonexistent", Split::Test); }, "./dev data");
}

TEST(MemoryLoader, EveryEpochHasEverySampleOnceInAnOrderFixedByTheSeed) {
  HostTensor x(DType::F32, Shape{10, 2});
  HostTensor y(DType::I64, Shape{10});
  for (std::int64_t i = 0; i < 10; ++i) {
    x.set(2 * i, static_cast<double>(i));
    y.set(i, static_cast<double>(i));
  }
  const MemoryLoader loader({x, y}, 2, Shuffle::Yes, 3);
  EXPECT_EQ(loader.batches(), 5);
  std::vector<std::vector<double>> orders;
  for (const std::int64_t epoch : {0, 1, 0}) {
    std::vector<double> seen;
    for (std::int64_t i = 0; i < loader.batches(); ++i) {
      const std::vector<HostTensor> batch = loader.batch(epoch, i);
      EXPECT_EQ(batch[0].at(0), batch[1].at(0));
      seen.push_back(batch[1].at(0));
      seen.push_back(batch[1].at(1));
    }
    EXPECT_EQ(std::set<double>(seen.begin(), seen.end()).size(), 10U);
    orders.push_back(seen);
  }
  EXPECT_EQ(orders[0], orders[2]);
  EXPECT_NE(orders[0], orders[1]);
}

TEST(MemoryLoader, DropsTheRemainderAndRefusesWhatDoesNotFit) {
  const HostTensor x(DType::F32, Shape{7, 1});
  EXPECT_EQ(MemoryLoader({x}, 3).batches(), 2);
  EXPECT_EQ(MemoryLoader({x}, 8).batches(), 0);
  EXPECT_THROW(MemoryLoader({x}, 0), InvalidArgument);
  EXPECT_THROW(MemoryLoader({}, 1), InvalidArgument);
  EXPECT_THROW(MemoryLoader({x, HostTensor(DType::F32, Shape{6})}, 1), InvalidArgument);
  EXPECT_THROW(MemoryLoader({x}, 3).batch(0, 2), InvalidArgument);
}

}  // namespace
}  // namespace sluice::data
