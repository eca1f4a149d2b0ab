#include "sluice/base/atomic_file.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/base/error.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

/// An empty folder for one test.
fs::path emptyFolder(const std::string& name) {
  fs::path folder = fs::path(::testing::TempDir()) / ("sluice_atomic_file_" + name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AtomicFile, ReplacesAFileAndLeavesNothingElse) {
  const fs::path folder = emptyFolder("replaces");
  const std::string longText(200'000, 'x');
  writeFileAtomically(folder / "a.txt", longText);
  EXPECT_EQ(contentOf(folder / "a.txt"), longText);
  writeFileAtomically(folder / "a.txt", "short\n");
  EXPECT_EQ(contentOf(folder / "a.txt"), "short\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST(AtomicFile, IsWrittenOfSeveralParts) {
  const fs::path folder = emptyFolder("parts");
  const std::vector<std::string_view> parts = {"one, ", "", "two"};
  writeFileAtomically(folder / "a.txt", parts);
  EXPECT_EQ(contentOf(folder / "a.txt"), "one, two");
}

TEST(AtomicFile, SaysWhichFileCannotBeWritten) {
  const fs::path folder = emptyFolder("refuses");
  fs::create_directories(folder / "taken");
  for (const char* name : {"missing/a.txt", "taken"}) {
    try {
      writeFileAtomically(folder / name, "text");
      ADD_FAILURE() << name << " was written";
    } catch (const FileError& error) {
      EXPECT_THAT(error.message(), ::testing::HasSubstr((folder / name).string()));
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace sluice
