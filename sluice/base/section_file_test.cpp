#include "sluice/base/section_file.h"

#include <cstring>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"
#include "sluice/base/hash.h"
#include "sluice/base/input_file.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::string_view kTestMagic = "TESTfile";
constexpr std::uint32_t kText = 1;
constexpr std::uint32_t kData = 2;

SectionFile::Expected testFormat() {
  return {.magic = kTestMagic, .major = 3, .what = "executable", .hint = "make one"};
}

std::string longText() {
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += "line " + std::to_string(i) + "\n";
  }
  return text;
}

std::string smallFile() {
  SectionWriter writer(kTestMagic, {3, 1});
  writer.add(kText, longText());
  writer.add(kText, "short");
  writer.add(kData, "12345678abc", SectionForm::Mapped);
  return writer.bytes();
}

SectionFile parsed(std::string_view bytes) {
  return {bytes, "some.slx", testFormat()};
}

TEST(SectionFile, GivesBackWhatWasWritten) {
  const std::string bytes = smallFile();
  const SectionFile file = parsed(bytes);
  EXPECT_EQ(file.version(), (FormatVersion{3, 1}));
  ASSERT_EQ(file.all(kText).size(), 2U);
  EXPECT_TRUE(file.all(kText)[0]->packed);
  EXPECT_FALSE(file.all(kText)[1]->packed);
  EXPECT_EQ(file.unpacked(*file.all(kText)[0]), longText());
  EXPECT_EQ(file.unpacked(*file.all(kText)[1]), "short");
  const SectionFile::Entry& data = file.one(kData, "data");
  EXPECT_EQ(data.offset % kMappedAlignment, 0U);
  EXPECT_EQ(file.stored(data), "12345678abc");
}

TEST(SectionFile, OnDiskHasTheSameBytes) {
  const testing::TempFolder folder;
  SectionWriter writer(kTestMagic, {3, 1});
  writer.add(kText, longText());
  writer.addMapped(kData, {"12345678", "abcdefgh", "x"});
  writer.write(folder.path() / "a.slx");
  EXPECT_EQ(readFile(folder.path() / "a.slx"), writer.bytes());
  const SectionFile file(folder.path() / "a.slx", testFormat());
  EXPECT_EQ(file.stored(file.one(kData, "data")), "12345678abcdefghx");
  EXPECT_EQ(file.unpacked(file.one(kText, "text")), longText());
}

TEST(SectionFile, AnyTruncationIsFound) {
  const std::string bytes = smallFile();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_THAT(testing::messageOf<FileError>([&] { parsed(cut); }), HasSubstr("some.slx")) << size;
  }
  EXPECT_THAT(testing::messageOf<FileError>([&] { parsed(bytes + '\0'); }), HasSubstr("it has"));
}

TEST(SectionFile, AnyChangedBitIsFound) {
  std::string bytes = smallFile();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1U << bit));
      EXPECT_THAT(testing::messageOf<FileError>([&] { parsed(bytes); }), HasSubstr("some.slx"))
          << at;
      bytes[at] = static_cast<char>(bytes[at] ^ (1U << bit));
    }
  }
}

constexpr std::uint32_t kSums = 9;

std::string fileWithSums() {
  SectionWriter writer(kTestMagic, {3, 1});
  writer.add(kText, longText());
  writer.addMapped(kData, {"12345678", "abcdefgh", "x"});
  writer.add(kData, "another one", SectionForm::Mapped);
  writer.addSums(kSums);
  return writer.bytes();
}

/// The bytes with one of them changed and every checksum of the table as the change wants it.
std::string resealed(std::string bytes, std::size_t section, std::size_t at) {
  const auto number = [&](std::size_t from) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + from, 8);
    return value;
  };
  const auto put = [&](std::size_t to, std::uint64_t value) {
    std::memcpy(bytes.data() + to, &value, 8);
  };
  const std::size_t entry = 32 + 40 * section;
  const std::size_t offset = number(entry + 8);
  bytes[offset + at] = static_cast<char>(bytes[offset + at] ^ 1);
  put(entry + 32, Hasher().add(bytes.substr(offset, number(entry + 16))).digest());
  std::uint32_t sections = 0;
  std::memcpy(&sections, bytes.data() + 12, 4);
  put(24,
      Hasher().add(bytes.substr(0, 24) + bytes.substr(32, std::size_t{40} * sections)).digest());
  return bytes;
}

/// A reader that knows the quick checksums believes them, and no others, for mapped sections; every
/// other reader believes the table. Both find every changed bit.
TEST(SectionFile, IsCheckedByItsQuickSums) {
  SectionFile::Expected quick = testFormat();
  quick.sums = kSums;
  const std::string whole = fileWithSums();
  for (const SectionFile::Expected& format : {testFormat(), quick}) {
    const SectionFile file(whole, "some.slx", format);
    EXPECT_EQ(file.stored(*file.all(kData)[0]), "12345678abcdefghx");
    std::string bytes = whole;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      bytes[at] = static_cast<char>(bytes[at] ^ 16);
      EXPECT_THAT(testing::messageOf<FileError>([&] { SectionFile(bytes, "some.slx", format); }),
                  HasSubstr("some.slx"))
          << at;
      bytes[at] = static_cast<char>(bytes[at] ^ 16);
    }
  }
  for (const std::size_t section : {1, 2}) {
    const std::string changed = resealed(whole, section, 3);
    EXPECT_NO_THROW(SectionFile(changed, "some.slx", testFormat()));
    EXPECT_THAT(testing::messageOf<FileError>([&] { SectionFile(changed, "some.slx", quick); }),
                HasSubstr(fmt::format("checksum of section {}", section)));
  }
  const std::string packed = resealed(whole, 0, 3);
  EXPECT_NO_THROW(SectionFile(packed, "some.slx", quick));
}

TEST(SectionFile, OfAnotherKindOrVersionIsRefused) {
  EXPECT_THAT(testing::messageOf<FileError>([] { parsed("PK anything"); }),
              AllOf(HasSubstr("TESTfile"), HasSubstr("make one")));
  const std::string other = SectionWriter(kTestMagic, {4, 2}).bytes();
  EXPECT_THAT(testing::messageOf<FileError>([&] { parsed(other); }),
              AllOf(HasSubstr("version 4.2"), HasSubstr("reads version 3")));
  const std::string newer = SectionWriter(kTestMagic, {3, 9}).bytes();
  EXPECT_EQ(parsed(newer).version().minor, 9);
}

TEST(SectionFile, NeverUnpacksMoreThanItsSizeExplains) {
  SectionWriter writer(kTestMagic, {3, 0});
  writer.add(kText, std::string(1 << 20, 'a'));  // would shrink to a few bytes
  const std::string bytes = writer.bytes();
  EXPECT_GT(bytes.size(), (1U << 20) / kMostRatio);
  EXPECT_EQ(parsed(bytes).unpacked(parsed(bytes).one(kText, "text")).size(), 1U << 20);
}

TEST(SectionFile, MissesASection) {
  const std::string bytes = smallFile();
  EXPECT_THAT(testing::messageOf<FileError>([&] { parsed(bytes).one(7, "a plan"); }),
              HasSubstr("0 sections with a plan"));
}

}  // namespace
}  // namespace sluice
