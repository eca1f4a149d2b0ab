#include "sluice/base/file_cache.h"

#include <chrono>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

constexpr std::uint64_t kRoom = 1 << 20;

/// The result with this key, or "none".
std::string found(const FileCache& cache, const std::string& key) {
  std::string result = "none";
  const bool hit =
      cache.find(key, CacheContent::Code, [&](const std::string& bytes) { result = bytes; });
  EXPECT_EQ(hit, result != "none");
  return result;
}

TEST(FileCache, GivesBackWhatWasStoredUnderTheSameKeyOnly) {
  const TempFolder folder;
  const FileCache cache(folder / "made", kRoom);
  EXPECT_EQ(found(cache, "a"), "none");
  cache.store("a", CacheContent::Code, "first");
  cache.store("b", CacheContent::Code, "second");
  EXPECT_EQ(found(cache, "a"), "first");
  EXPECT_EQ(found(cache, "b"), "second");
  EXPECT_EQ(found(cache, "c"), "none");
  cache.store("a", CacheContent::Code, "third");
  EXPECT_EQ(found(cache, "a"), "third");
  EXPECT_EQ(cache.files().size(), 2U);
  // Under the name of another key: it is whole, but no hit.
  std::filesystem::copy(cache.pathOf("a"), cache.pathOf("c"));
  EXPECT_EQ(found(cache, "c"), "none");
}

/// A process without the right to change the folder, also where tests run as root.
TEST(FileCache, SaysWhatItCannotRemove) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("sound", CacheContent::Code, "result");
  cache.store("damaged", CacheContent::Code, "result");
  std::filesystem::resize_file(cache.pathOf("damaged"), 20);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  ASSERT_EQ(self == 0 ? ::seteuid(kNobody) : 0, 0);
  EXPECT_EQ(found(cache, "damaged"), "none");
  EXPECT_EQ(found(cache, "sound"), "result");
  const auto none = [](const std::string&) {};
  std::vector<FileCache::File> damaged = cache.verify(none);
  std::string message;
  try {
    cache.clear();
  } catch (const FileError& error) {
    message = error.message();
  }
  ASSERT_EQ(self == 0 ? ::seteuid(self) : 0, 0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].path, cache.pathOf("damaged"));
  EXPECT_THAT(damaged[0].kept, HasSubstr("ermission denied"));
  EXPECT_THAT(message, HasSubstr("2 of 2 files"));
  EXPECT_EQ(cache.files().size(), 2U);
  damaged = cache.verify(none);
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_EQ(damaged[0].kept, "");
  EXPECT_EQ(cache.clear(), 1U);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they open files themselves
/// Files of this process are closed to it while this lives: opening one fails with EMFILE, also
/// where tests run as root.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoMoreFiles(const NoMoreFiles&) = delete;
  NoMoreFiles& operator=(const NoMoreFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(FileCache, KeepsWhatTheSystemCannotOpenNow) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("key", CacheContent::Code, "result");
  ::testing::internal::CaptureStderr();
  {
    const NoMoreFiles closed;
    EXPECT_EQ(found(cache, "key"), "none");
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("not used now"), HasSubstr("Too many open files")));
  EXPECT_EQ(found(cache, "key"), "result");
}
#endif

TEST(FileCache, VerifyingLeavesWhatCouldNotBeChecked) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("large", CacheContent::Program, "large");
  cache.store("custom", CacheContent::Program, "custom");
  cache.store("wrong", CacheContent::Program, "wrong");
  const std::vector<FileCache::File> left = cache.verify([](const std::string& bytes) {
    if (bytes == "large") {
      raise<OutOfMemory>("no memory");
    }
    bytes == "custom" ? raise<UnreadableFile>("no op") : raise<FileError>("no program");
  });
  std::map<std::filesystem::path, std::string> reasons;
  for (const FileCache::File& file : left) {
    reasons[file.path] = file.unread;
  }
  EXPECT_THAT(reasons,
              ::testing::UnorderedElementsAre(::testing::Pair(cache.pathOf("large"), "no memory"),
                                              ::testing::Pair(cache.pathOf("custom"), "no op"),
                                              ::testing::Pair(cache.pathOf("wrong"), "")));
  EXPECT_TRUE(std::filesystem::exists(cache.pathOf("large")));
  EXPECT_TRUE(std::filesystem::exists(cache.pathOf("custom")));
  EXPECT_FALSE(std::filesystem::exists(cache.pathOf("wrong")));
}

/// A process without the right to read the entry, also where tests run as root.
TEST(FileCache, VerifyingTellsUnreadFilesFromDamagedOnes) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("closed", CacheContent::Code, "result");
  cache.store("damaged", CacheContent::Code, "result");
  std::filesystem::resize_file(cache.pathOf("damaged"), 20);
  std::filesystem::permissions(cache.pathOf("closed"), std::filesystem::perms(0));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  ASSERT_EQ(self == 0 ? ::seteuid(kNobody) : 0, 0);
  EXPECT_EQ(found(cache, "closed"), "none");
  const std::vector<FileCache::File> wrong = cache.verify([](const std::string&) {});
  ASSERT_EQ(self == 0 ? ::seteuid(self) : 0, 0);
  ASSERT_EQ(wrong.size(), 2U);
  for (const FileCache::File& file : wrong) {
    const bool closed = file.path == cache.pathOf("closed");
    EXPECT_EQ(std::filesystem::exists(file.path), closed);
    EXPECT_EQ(file.unread.empty(), !closed) << file.unread;
  }
  EXPECT_EQ(cache.files().size(), 1U);
}

TEST(FileCache, RemovesWhatIsDamagedOrOfNoUse) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("key", CacheContent::Code, "result");
  const std::string whole = readFile(cache.pathOf("key"));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(cache.pathOf("key"), std::ios::binary) << damaged;
    EXPECT_EQ(found(cache, "key"), "none") << at;
    EXPECT_FALSE(std::filesystem::exists(cache.pathOf("key"))) << at;
  }
  cache.store("key", CacheContent::Code, "result");
  EXPECT_FALSE(cache.find("key", CacheContent::Code, [](const std::string&) {
    raise<InvalidArgument>("it is for another machine");
  }));
  EXPECT_EQ(cache.files().size(), 0U);
}

TEST(FileCache, KeepsWhatWasUsedLastWithinItsBytes) {
  const TempFolder folder;
  const std::string noise(1000, 'x');
  const std::uint64_t one = [&] {
    const FileCache probe(folder / "probe", kRoom);
    probe.store("0", CacheContent::Code, noise);
    return probe.bytes();
  }();
  const FileCache cache(folder / "cache", 3 * one);
  const auto now = std::filesystem::file_time_type::clock::now();
  for (const int i : {0, 1, 2}) {
    cache.store(std::to_string(i), CacheContent::Code, noise);
    std::filesystem::last_write_time(cache.pathOf(std::to_string(i)),
                                     now - std::chrono::hours(10 - i));
  }
  EXPECT_EQ(found(cache, "0"), noise);  // the oldest is used again
  cache.store("3", CacheContent::Code, noise);
  EXPECT_EQ(found(cache, "1"), "none");
  for (const char* kept : {"0", "2", "3"}) {
    EXPECT_EQ(found(cache, kept), noise) << kept;
  }
  EXPECT_EQ(cache.bytes(), 3 * one);
  std::string large(10 * one, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) {
    large[i] = static_cast<char>(i * i * 2654435761U >> 7U);  // cannot be compressed
  }
  cache.store("4", CacheContent::Code, large);
  EXPECT_EQ(found(cache, "4"), "none");
  EXPECT_EQ(cache.files().size(), 3U);
}

TEST(FileCache, VerifiesProgramsByTheirReaderAndCodeByItsChecksums) {
  const TempFolder folder;
  const FileCache cache(folder.path(), kRoom);
  cache.store("code", CacheContent::Code, "abc");
  cache.store("bad", CacheContent::Code, "abc");
  cache.store("program", CacheContent::Program, "p");
  cache.store("old", CacheContent::Program, "q");
  std::filesystem::resize_file(cache.pathOf("bad"), 30);
  const auto check = [](const std::string& program) {
    if (program != "p") {
      raise<FileError>("no program");
    }
  };
  EXPECT_EQ(cache.verify(check).size(), 2U);
  EXPECT_EQ(cache.verify(check).size(), 0U);
  EXPECT_EQ(found(cache, "code"), "abc");
  EXPECT_EQ(cache.clear(), 2U);
}

TEST(FileCache, ThatCannotBeWrittenIsLoggedAndNothingElse) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const FileCache cache(folder / "file", kRoom);
  ::testing::internal::CaptureStderr();
  cache.store("key", CacheContent::Code, "result");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("is not kept"));
  EXPECT_EQ(found(cache, "key"), "none");
}

}  // namespace
}  // namespace sluice
