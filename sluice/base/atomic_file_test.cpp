#include "sluice/base/atomic_file.h"

#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using testing::TempFolder;

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AtomicFile, ReplacesAFileAndLeavesNothingElse) {
  const TempFolder folder;
  const std::string longText(200'000, 'x');
  writeFileAtomically(folder / "a.txt", longText);
  EXPECT_EQ(contentOf(folder / "a.txt"), longText);
  writeFileAtomically(folder / "a.txt", "short\n");
  EXPECT_EQ(contentOf(folder / "a.txt"), "short\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(AtomicFile, IsWrittenOfSeveralParts) {
  const TempFolder folder;
  const std::vector<std::string_view> parts = {"one, ", "", "two"};
  writeFileAtomically(folder / "a.txt", parts);
  EXPECT_EQ(contentOf(folder / "a.txt"), "one, two");
}

TEST(AtomicFile, SaysWhichFileCannotBeWritten) {
  const TempFolder folder;
  fs::create_directories(folder / "taken");
  for (const char* name : {"missing/a.txt", "taken"}) {
    try {
      writeFileAtomically(folder / name, "text");
      ADD_FAILURE() << name << " was written";
    } catch (const FileError& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr((folder / name).string()));
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

std::string refusal(const fs::path& path) {
  try {
    writeFileAtomically(path, "text");
  } catch (const FileError& error) {
    return error.message();
  }
  return "nothing was thrown";
}

std::set<std::string> namesIn(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(AtomicFile, SaysBeforeTheWorkWhatCannotBeWritten) {
  const TempFolder folder;
  writeFileAtomically(folder / "file", "text");
  fs::create_directories(folder / "closed");
  fs::permissions(folder / "closed", fs::perms(0555));
  fs::create_symlink("missing/b.txt", folder / "link");
  fs::permissions(folder.path(), fs::perms(0777));
  constexpr uid_t kNobody = 65534;
  const uid_t self = ::geteuid();
  if (self == 0 && ::seteuid(kNobody) != 0) {
    GTEST_SKIP() << "the superuser may write anywhere, and cannot be another user here";
  }
  std::vector<std::string> refused;
  for (const char* name :
       {"missing/a.txt", "file/a.txt", "closed/a.txt", "closed", "link", "a.txt"}) {
    try {
      requireWritable(folder / name);
    } catch (const FileError& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr((folder / name).string()));
      refused.emplace_back(name);
    }
  }
  ASSERT_EQ(self == 0 ? ::seteuid(self) : 0, 0);
  EXPECT_THAT(
      refused,
      ::testing::ElementsAre("missing/a.txt", "file/a.txt", "closed/a.txt", "closed", "link"));
  EXPECT_FALSE(fs::exists(folder / "a.txt"));
}

TEST(AtomicFile, LeavesWhatIsNoRegularFileAlone) {
  const TempFolder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(refusal(fifo), ::testing::HasSubstr("it is a FIFO"));
  EXPECT_TRUE(fs::is_fifo(fifo));
  fs::create_symlink("fifo", folder / "link");
  EXPECT_THAT(refusal(folder / "link"), ::testing::HasSubstr("it is a FIFO"));
  EXPECT_TRUE(fs::is_fifo(fifo));
  EXPECT_TRUE(fs::is_symlink(folder / "link"));

  const fs::path socket = folder / "socket";
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(descriptor, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(socket.string().size(), sizeof(address.sun_path));
  socket.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(refusal(socket), ::testing::HasSubstr("it is a socket"));
  EXPECT_TRUE(fs::is_socket(socket));
  ::close(descriptor);

  EXPECT_THAT(refusal(folder.path()), ::testing::HasSubstr("it is a folder"));
  EXPECT_THAT(refusal("/dev/null"), ::testing::HasSubstr("it is a character device"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(refusal(folder / std::string("a\0b", 3)), ::testing::HasSubstr("NUL"));
  EXPECT_EQ(namesIn(folder.path()), (std::set<std::string>{"fifo", "link", "socket"}));
}

TEST(AtomicFile, LeavesADeviceNodeAlone) {
  const TempFolder folder;
  const fs::path node = folder / "node";
  if (::mknod(node.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "device nodes cannot be made here";
  }
  EXPECT_THAT(refusal(node), ::testing::HasSubstr("it is a character device"));
  EXPECT_TRUE(fs::is_character_file(node));
}

TEST(AtomicFile, WritesThroughLinks) {
  const TempFolder folder;
  fs::create_directories(folder / "there");
  writeFileAtomically(folder / "there" / "real", "old");
  fs::create_symlink("there/second", folder / "first");
  fs::create_symlink("real", folder / "there" / "second");
  writeFileAtomically(folder / "first", "new");
  EXPECT_EQ(contentOf(folder / "there" / "real"), "new");
  EXPECT_TRUE(fs::is_symlink(folder / "first"));
  EXPECT_TRUE(fs::is_symlink(folder / "there" / "second"));
  EXPECT_EQ(namesIn(folder / "there"), (std::set<std::string>{"real", "second"}));

  fs::create_symlink(folder / "there" / "made", folder / "dangling");
  writeFileAtomically(folder / "dangling", "fresh");
  EXPECT_EQ(contentOf(folder / "there" / "made"), "fresh");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));

  fs::create_symlink("round", folder / "about");
  fs::create_symlink("about", folder / "round");
  EXPECT_THAT(refusal(folder / "about"), ::testing::HasSubstr("about"));
  EXPECT_TRUE(fs::is_symlink(folder / "about"));
}

TEST(AtomicFile, KeepsTheModeOfTheFileItReplaces) {
  const TempFolder folder;
  const fs::path path = folder / "a";
  writeFileAtomically(path, "old");
  constexpr auto kMode = fs::perms::owner_read | fs::perms::owner_write | fs::perms::others_read;
  fs::permissions(path, kMode);
  writeFileAtomically(path, "new");
  EXPECT_EQ(fs::status(path).permissions(), kMode);
  EXPECT_EQ(contentOf(path), "new");
}

/// Every writer writes many bytes of one letter; a file of two letters is of two writers.
void writeLetters(const fs::path& path, char letter) {
  const std::string text(100'000, letter);
  for (int i = 0; i < 20; ++i) {
    const std::vector<std::string_view> halves = {text, text};
    writeFileAtomically(path, halves);
  }
}

void expectOneLetter(const fs::path& path) {
  const std::string content = contentOf(path);
  ASSERT_EQ(content.size(), 200'000U);
  EXPECT_EQ(content, std::string(200'000, content[0]));
}

TEST(AtomicFile, ThreadsThatWriteOneFileDoNotMeet) {
  const TempFolder folder;
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&folder, letter] { writeLetters(folder / "a", letter); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  expectOneLetter(folder / "a");
  EXPECT_EQ(namesIn(folder.path()), (std::set<std::string>{"a"}));
}

TEST(AtomicFile, ProcessesThatWriteOneFileDoNotMeet) {
  const TempFolder folder;
  std::vector<pid_t> children;
  for (const char letter : {'a', 'b'}) {
    children.push_back(::fork());
    if (children.back() == 0) {
      writeLetters(folder / "a", letter);
      ::_exit(0);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  expectOneLetter(folder / "a");
  EXPECT_EQ(namesIn(folder.path()), (std::set<std::string>{"a"}));
}

TEST(AtomicFile, RemovesWhatKilledWritersLeftAndNothingElse) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const PartialFile half(folder / "a");
    ::_exit(0);  // no destructor runs
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(namesIn(folder.path()).size(), 1U);
  std::ofstream(folder / "a.mine.part") << "mine";
  std::ofstream(folder / "b.sluice-1-2.part") << "of another file";
  {
    PartialFile slow(folder / "a");
    slow.write("slow");
    writeFileAtomically(folder / "a", "quick");  // its writer lives: the slow one stays
    EXPECT_EQ(contentOf(folder / "a"), "quick");
    slow.commit();
  }
  EXPECT_EQ(contentOf(folder / "a"), "slow");
  EXPECT_EQ(namesIn(folder.path()),
            (std::set<std::string>{"a", "a.mine.part", "b.sluice-1-2.part"}));
}

TEST(AtomicFile, WithTheLongestNameCanBeWritten) {
  const TempFolder folder;
  const std::string name(255, 'n');
  writeFileAtomically(folder / name, "text");
  EXPECT_EQ(contentOf(folder / name), "text");
}

TEST(PartialFile, ThatIsWatchedHasOneWriter) {
  const TempFolder folder;
  const auto open = [&] { PartialFile(folder / "log", PartialFile::Name::Watched); };
  {
    PartialFile log(folder / "log", PartialFile::Name::Watched);
    log.write("1\n");
    EXPECT_EQ(contentOf(folder / "log.part"), "1\n");
    EXPECT_THROW(open(), FileError);
    log.commit();
    log.write("2\n");
    log.commit();
  }
  EXPECT_EQ(contentOf(folder / "log"), "1\n2\n");
  EXPECT_EQ(namesIn(folder.path()), (std::set<std::string>{"log"}));
  ASSERT_EQ(::mkfifo((folder / "log.part").c_str(), 0600), 0);
  EXPECT_THROW(open(), FileError);
}

}  // namespace
}  // namespace sluice
