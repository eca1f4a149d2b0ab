#include "sluice/base/input_file.h"

#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sluice/base/error.h"
#include "tests/support/temp_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TempFolder;

template <class E = FileError>
std::string refusedRead(const fs::path& path) {
  try {
    readFile(path);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(InputFile, ReadsARegularFileAlsoThroughLinks) {
  const TempFolder folder;
  const std::string text("a\0b", 3);
  std::ofstream(folder / "a", std::ios::binary) << text;
  fs::create_symlink("a", folder / "link");
  fs::create_symlink("link", folder / "second");
  EXPECT_EQ(readFile(folder / "a"), text);
  EXPECT_EQ(readFile(folder / "second"), text);
  std::ofstream(folder / "empty") << "";
  EXPECT_EQ(readFile(folder / "empty"), "");
  const InputFile file(folder / "a");
  std::array<std::byte, 2> part = {};
  file.read(1, part);
  EXPECT_EQ(part, (std::array{std::byte{0}, std::byte{'b'}}));
}

TEST(InputFile, RefusesWhatIsNoRegularFileAndSaysWhatItIs) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
  fs::create_symlink("fifo", folder / "link");
  EXPECT_THAT(refusedRead(folder / "fifo"), HasSubstr("it is a FIFO"));
  EXPECT_THAT(refusedRead(folder / "link"), HasSubstr("it is a FIFO"));
  EXPECT_THAT(refusedRead(folder.path()), HasSubstr("it is a folder"));
  EXPECT_THAT(refusedRead("/dev/zero"), HasSubstr("it is a character device"));
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(descriptor, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string socket = (folder / "socket").string();
  ASSERT_LT(socket.size(), sizeof(address.sun_path));
  socket.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_THAT(refusedRead(socket), HasSubstr("it is a socket"));
  ::close(descriptor);
}

TEST(InputFile, RefusesPathsThatLeadNowhere) {
  const TempFolder folder;
  fs::create_symlink("round", folder / "about");
  fs::create_symlink("about", folder / "round");
  fs::create_symlink("gone", folder / "dangling");
  for (const char* name : {"missing", "about", "dangling", "missing/more"}) {
    EXPECT_THAT(refusedRead(folder / name), HasSubstr((folder / name).string()));
  }
  EXPECT_THAT(refusedRead(std::string("a\0b", 3)),
              HasSubstr("'a\\x00b': a path cannot have a NUL"));
}

TEST(InputFile, RefusesFilesThatAreLargerThanTheyMayBe) {
  const TempFolder folder;
  std::ofstream(folder / "a") << "123";
  EXPECT_EQ(readFile(folder / "a", 3), "123");
  EXPECT_THROW(readFile(folder / "a", 2), FileError);
  std::ofstream(folder / "sparse") << "";
  std::error_code failed;
  fs::resize_file(folder / "sparse", std::uintmax_t{1} << 43U, failed);  // 8 TiB of nothing
  if (!failed) {
    EXPECT_THAT(refusedRead<OutOfMemory>(folder / "sparse"), HasSubstr("8796093022208 bytes"));
  }
}

TEST(InputFile, RefusesContentWithoutASize) {
  EXPECT_THAT(refusedRead("/proc/self/status"), HasSubstr("its size is 0 but it has content"));
}

TEST(InputFile, IsWhatItWasWhenItWasOpened) {
  const TempFolder folder;
  const fs::path path = folder / "a";
  std::ofstream(path) << "123456";
  const InputFile file(path);
  std::ofstream(path, std::ios::app) << "more";
  EXPECT_EQ(file.content(), "123456");
  fs::resize_file(path, 3);
  EXPECT_THROW(static_cast<void>(file.content()), FileError);
}

TEST(Errors, ShowBytesThatCannotBePrinted) {
  const std::string name("w\0\x1b[2J\r\x7f", 8);
  FileError error("tensor '" + name + "'\n\tis broken");
  EXPECT_STREQ(error.what(), "FileError: tensor 'w\\x00\\x1b[2J\\x0d\\x7f'\n\tis broken");
  error.at(name);
  EXPECT_THAT(error.what(), ::testing::EndsWith("(in w\\x00\\x1b[2J\\x0d\\x7f)"));
}

}  // namespace
}  // namespace sluice
