#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/data/dataset.h"
#include "sluice/data/queues.h"
#include "tests/support/message_of.h"

namespace sluice::data {
namespace {

using ::testing::HasSubstr;

DatasetPtr rows(std::int64_t count) {
  return tensorDataset(
      {HostTensor(DType::F32, Shape{count, 5}), HostTensor(DType::I64, Shape{count})});
}

void expectTotals(const std::string& text, std::size_t epochs, std::int64_t elements) {
  const nlohmann::json report = nlohmann::json::parse(text);
  ASSERT_EQ(report["epochs"].size(), epochs);
  std::int64_t total = 0;
  for (const auto& epoch : report["epochs"]) {
    total += epoch["elements_processed"].get<std::int64_t>();
    EXPECT_EQ(epoch["total_bytes_processed"], elements * 28);
    const double seconds = epoch["time_elapsed"];
    EXPECT_GT(seconds, 0);
    EXPECT_DOUBLE_EQ(epoch["elements_per_second"], static_cast<double>(elements) / seconds);
    EXPECT_DOUBLE_EQ(epoch["bandwidth"], static_cast<double>(elements * 28) / seconds / 1e9);
  }
  EXPECT_EQ(total, static_cast<std::int64_t>(epochs) * elements);
}

TEST(DatasetBenchmark, CountsElementsAndBytesOfEveryEpoch) {
  for (const bool copies : {true, false}) {
    const IterablePtr dataset = iterate(rows(10));
    expectTotals(datasetBenchmark(*dataset, 3, 10, {false, copies}), 3, 10);
    InfeedQueue queue(repeat(iterate(rows(10))));
    expectTotals(infeedBenchmark(queue, 2, 25, {false, copies}), 2, 25);
  }
}

TEST(DatasetBenchmark, RefusesNothingToReadAndDatasetsThatEnd) {
  const IterablePtr dataset = iterate(rows(10));
  EXPECT_THROW(datasetBenchmark(*dataset, 0, 1), InvalidArgument);
  EXPECT_THROW(datasetBenchmark(*dataset, 1, 0), InvalidArgument);
  EXPECT_THAT(testing::messageOf([&] { datasetBenchmark(*dataset, 1, 11); }),
              HasSubstr("ends before element 11"));
}

}  // namespace
}  // namespace sluice::data
