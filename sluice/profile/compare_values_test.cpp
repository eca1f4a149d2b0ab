#include "sluice/profile/compare_values.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/profile/trace_file.h"
#include "tests/support/message_of.h"
#include "tests/support/two_stage_program.h"

namespace sluice::profile {
namespace {

using runtime::WriteLog;
using runtime::WrittenValue;
using sluice::testing::messageOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

void put(WriteLog& log,
         const std::string& name,
         std::int64_t microBatch,
         const std::vector<float>& values,
         const std::string& op = "add") {
  log.add({.op = op,
           .name = name,
           .type = {DType::F32, Shape{static_cast<std::int64_t>(values.size())}},
           .microBatch = microBatch,
           .values = {}},
          device::Layout::plain(),
          std::as_bytes(std::span(values)));
}

Trace traced(WriteLog& log) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(0));
  trace.writes.push_back(log.take());
  return trace;
}

/// Two ops, two micro-batches; `fill` may change some of it.
Trace sample(bool values, const std::vector<float>& second = {4, 5, 6}, bool reversed = false) {
  WriteLog log(values);
  for (const std::int64_t m :
       reversed ? std::vector<std::int64_t>{1, 0} : std::vector<std::int64_t>{0, 1}) {
    put(log, "a", m, {1, 2, 3});
    put(log, "b", m, m == 1 ? second : std::vector<float>{4, 5, 6}, "mul");
  }
  return traced(log);
}

TEST(CompareValues, OfTheSameRunFindsNothing) {
  const ValueComparison found = compareValues(sample(false), sample(false));
  EXPECT_EQ(found.compared, 4);
  EXPECT_EQ(found.different, 0);
  EXPECT_FALSE(found.first);
  // Another order of the micro-batches changes nothing.
  EXPECT_EQ(compareValues(sample(false), sample(false, {4, 5, 6}, true)).different, 0);
}

/// Their bytes are no numbers, and devices may have other layouts of as many elements.
TEST(CompareValues, HasNoToleranceForTheBytesOfCopies) {
  const auto withCopy = [](float value, std::size_t padding) {
    WriteLog log(true);
    put(log, "a", 0, {1, value});
    std::vector<std::byte> bytes(sizeof(float) + padding);
    std::memcpy(bytes.data(), &value, sizeof(float));
    log.add({.op = "transfer",
             .name = "a",
             .type = {DType::U8, Shape{static_cast<std::int64_t>(bytes.size())}},
             .microBatch = 0,
             .values = {}},
            device::Layout::plain(),
            bytes);
    put(log, "b", 0, {value}, "mul");
    return traced(log);
  };
  const Trace first = withCopy(1, 0);
  const Trace near = withCopy(std::nextafter(1.0F, 0.0F), 0);
  EXPECT_EQ(compareValues(first, near).different, 3);
  const ValueComparison tolerant = compareValues(first, near, {.absolute = 1e-5});
  EXPECT_EQ(tolerant.compared, 2);
  EXPECT_EQ(tolerant.different, 0);
  const ValueComparison padded = compareValues(first, withCopy(1, 60));
  EXPECT_EQ(padded.compared, 2);
  EXPECT_EQ(padded.different, 0);
  EXPECT_EQ(padded.onlyFirst, 1);
  EXPECT_EQ(padded.onlySecond, 1);
}

TEST(CompareValues, NamesTheFirstValueThatDiffersInABit) {
  const float next = std::nextafter(5.0F, 6.0F);
  const ValueComparison found = compareValues(sample(false), sample(false, {4, next, 6}));
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.different, 1);
  EXPECT_EQ(found.first->op, "mul");
  EXPECT_EQ(found.first->name, "b");
  EXPECT_EQ(found.first->microBatch, 1);
  EXPECT_TRUE(found.first->worst.empty());
  EXPECT_THAT(comparisonText(found, "x", "y"),
              AllOf(HasSubstr("4 values compared, 1 differ"),
                    HasSubstr("mul 'b' of micro-batch 1 in step 0"),
                    HasSubstr("only hashes")));
}

TEST(CompareValues, ShowsTheElementsThatDifferMost) {
  const ValueComparison found =
      compareValues(sample(true), sample(true, {4.5F, 5, 9}), {.elements = 1});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->differing, 2);
  ASSERT_EQ(found.first->worst.size(), 1U);
  EXPECT_EQ(found.first->worst[0].index, 2);
  EXPECT_EQ(found.first->worst[0].first, 6);
  EXPECT_EQ(found.first->worst[0].second, 9);
  const auto json = nlohmann::json::parse(comparisonJson(found));
  EXPECT_EQ(json.at("first").at("name"), "b");
  EXPECT_EQ(json.at("first").at("worst")[0].at("index"), 2);
}

TEST(CompareValues, AcceptsWhatIsWithinTheTolerance) {
  const Trace a = sample(true);
  const Trace b = sample(true, {4.5F, 5, 6.25F});
  EXPECT_EQ(compareValues(a, b).different, 1);
  EXPECT_EQ(compareValues(a, b, {.absolute = 0.5}).different, 0);
  EXPECT_EQ(compareValues(a, b, {.absolute = 0.3}).first->differing, 1);
  EXPECT_EQ(compareValues(a, b, {.relative = 0.2}).different, 0);
  EXPECT_EQ(compareValues(a, b, {.relative = 0.05}).first->worst[0].index, 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compareValues(a, sample(true, {4, nan, 6}), {.absolute = 10}).first->differing, 1);
  EXPECT_EQ(compareValues(sample(true, {4, nan, 6}), sample(true, {4, -nan, 6}), {.absolute = 1})
                .different,
            0);
}

TEST(CompareValues, CountsWhatOnlyOneRunHas) {
  WriteLog log(false);
  put(log, "a", 0, {1, 2, 3});
  put(log, "c", 0, {1});
  const ValueComparison found = compareValues(sample(false), traced(log));
  EXPECT_EQ(found.compared, 1);
  EXPECT_EQ(found.onlyFirst, 3);
  EXPECT_EQ(found.onlySecond, 1);
}

/// Of one name, and none is equal: pairs in the order of the traces.
TEST(CompareValues, OfManyValuesUnderOneNameIsDoneAtOnce) {
  constexpr std::uint64_t kValues = 200'000;
  const auto many = [&](std::uint64_t hash) {
    Trace trace(twoStageProgram());
    std::vector<WrittenValue>& step = trace.writes.emplace_back(
        kValues,
        WrittenValue{.op = "add", .name = std::string(1 << 20, 'n'), .type = {}, .values = {}});
    for (WrittenValue& value : step) {
      value.hash = hash++;
    }
    return trace;
  };
  const ValueComparison found = compareValues(many(0), many(kValues - 1));
  EXPECT_EQ(found.compared, static_cast<std::int64_t>(kValues));
  EXPECT_EQ(found.different, static_cast<std::int64_t>(kValues) - 1);
}

/// Another cut writes other ones of the values of a name and makes other copies.
TEST(CompareValues, CallsNothingOfARepeatedNameDifferentThatOnlyOneRunHas) {
  const auto run = [](const std::vector<float>& written, const std::vector<float>& copied) {
    WriteLog log(true);
    for (const float value : written) {
      put(log, "relu", 0, {value}, "relu");
    }
    for (const float value : copied) {
      put(log, "relu", 0, {value}, "transfer");
    }
    return traced(log);
  };
  const ValueComparison found = compareValues(run({1, 2, 4}, {1, 2}), run({1, 2, 3, 4}, {1, 3}));
  EXPECT_EQ(found.compared, 4);
  EXPECT_EQ(found.different, 0);
  EXPECT_EQ(found.onlyFirst, 1);
  EXPECT_EQ(found.onlySecond, 2);
  // As many of both, one of them another: its bits differ, also if one run made it twice.
  EXPECT_EQ(compareValues(run({1, 2, 4}, {}), run({1, 2, 5}, {})).different, 1);
  EXPECT_EQ(compareValues(run({4}, {}), run({5, 5}, {})).different, 1);
  EXPECT_EQ(compareValues(run({4}, {4}), run({4}, {5})).different, 1);
}

TEST(CompareValues, ReportsATypeThatChanged) {
  const ValueComparison found = compareValues(sample(true), sample(true, {4, 5}));
  ASSERT_TRUE(found.first);
  EXPECT_THAT(comparisonText(found, "x", "y"),
              AllOf(HasSubstr("f32[3]"), HasSubstr("y has f32[2]")));
}

TEST(CompareValues, RefusesTracesWithoutValues) {
  const Trace none(twoStageProgram());
  EXPECT_THAT(messageOf([&] { compareValues(none, sample(false)); }), HasSubstr("traceValues"));
  EXPECT_THAT(messageOf([&] { compareValues(sample(true), sample(false), {.absolute = 1}); }),
              HasSubstr("TraceValues::All"));
  WriteLog log(false);
  put(log, "other", 0, {1});
  EXPECT_THAT(messageOf([&] { compareValues(traced(log), sample(false)); }),
              HasSubstr("no value in common"));
}

TEST(WriteLog, HashesElementsAndNotTheirStorage) {
  const TensorType type{DType::F32, Shape{1, 2, 3}};
  const std::vector<float> plain = {1, 2, 3, 4, 5, 6};
  const std::vector<float> last = {1, 4, 2, 5, 3, 6};  // axis 1 innermost
  WriteLog log(true);
  log.add({.type = type, .values = {}}, device::Layout::plain(), std::as_bytes(std::span(plain)));
  log.add(
      {.type = type, .values = {}}, device::Layout::channelsLast(), std::as_bytes(std::span(last)));
  const std::vector<WrittenValue> entries = log.take();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].hash, entries[1].hash);
  EXPECT_EQ(entries[0].values, entries[1].values);
  EXPECT_TRUE(log.take().empty());
}

TEST(TraceFile, HasTheNameOfManyValuesOnce) {
  Trace trace(twoStageProgram());
  trace.addStep(twoStageTimes(0));
  const WrittenValue value{
      .op = "add", .name = std::string(1 << 20, 'n'), .type = {DType::F32, Shape{1}}, .values = {}};
  trace.writes.emplace_back(20, value);
  const std::string bytes = traceBytes(trace);
  EXPECT_LT(bytes.size(), std::size_t{2} << 20U);
  const Trace back = parseTrace(bytes, "t");
  ASSERT_EQ(back.writes[0].size(), 20U);
  for (const WrittenValue& each : back.writes[0]) {
    EXPECT_EQ(&each.op.str(), &back.writes[0][0].op.str());
    EXPECT_EQ(&each.name.str(), &back.writes[0][0].name.str());
    EXPECT_EQ(&each.tensor.str(), &back.writes[0][0].tensor.str());
  }
}

TEST(TraceFile, KeepsWrittenValues) {
  for (const bool values : {false, true}) {
    const Trace trace = sample(values, {7, 8, 9});
    const std::string bytes = traceBytes(trace);
    const Trace back = parseTrace(bytes, "t");
    ASSERT_EQ(back.writes.size(), 1U);
    EXPECT_EQ(compareValues(trace, back).different, 0);
    EXPECT_EQ(compareValues(trace, back).compared, 4);
    EXPECT_EQ(back.writes[0][3].values, trace.writes[0][3].values);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_THROW(parseTrace(bytes.substr(0, length), "t"), FileError) << length;
    }
    // A checksum that fits whatever follows the header: every change is read or refused.
    const std::string body = bytes.substr(28);
    for (std::size_t i = 0; i < body.size(); ++i) {
      for (const char flip : {'\1', '\x80', '\x7f'}) {
        std::string wrong = body;
        wrong[i] = static_cast<char>(wrong[i] ^ flip);
        try {  // what is accepted is written as it was read
          EXPECT_EQ(traceBytes(parseTrace(sealedTrace(wrong), "t")), sealedTrace(wrong)) << i;
        } catch (const FileError&) {  // anything else ends the test
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice::profile
