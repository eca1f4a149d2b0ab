// A folder for the files of a test. It is empty at first, no other test or process has the same
// one, and at the end it is removed with everything in it.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace sluice::testing {

class TempFolder {
 public:
  /// Throws std::filesystem::filesystem_error if there is no room for it.
  TempFolder() : path_(made()) {}
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// A path in the folder; nothing is there until the test makes it.
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  static std::filesystem::path made() {
    std::string name = (std::filesystem::temp_directory_path() / "sluice-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::filesystem::filesystem_error(
          "cannot make a folder for a test", name, {errno, std::generic_category()});
    }
    return name;
  }

  std::filesystem::path path_;
};

}  // namespace sluice::testing
