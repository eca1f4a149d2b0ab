#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/data/files.h"

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
  std::string whole = "\0\0\x0c\x02\0\0\0\x02\0\0\0\x02"s;
  whole.append(16, '\1');
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_THROW(parseIdx(whole.substr(0, n), "t"), FileError) << n;
  }
  EXPECT_NO_THROW(parseIdx(whole, "t"));
}

TEST(Mnist, ExplainsMissingFiles) {
  expectError<FileError>([] { mnistDataset("/nonexistent", Split::Test); }, "IDX format");
}

}  // namespace
}  // namespace sluice::data
