// CommonFolder: a folder for tests of several processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "sluice/runtime/process_world.h"
#include "tests/support/temp_folder.h"

namespace sluice::testing {

/// A folder that all processes name; it ends with that of the first one, when all are done with it.
class CommonFolder {
 public:
  CommonFolder() {
    path_ = folder_.path();
    for (std::int32_t r = 1; r < c_->size() && c_->rank() == 0; ++r) {
      const std::string text = path_.string();
      const auto bytes = std::as_bytes(std::span(text));
      c_->post(r, 1, {bytes.begin(), bytes.end()});
    }
    if (c_->rank() != 0) {
      const runtime::MessageBytes bytes = c_->take(0, 1);
      path_ = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  ~CommonFolder() { meet(2); }
  CommonFolder(const CommonFolder&) = delete;
  CommonFolder& operator=(const CommonFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// The first process waits until the others have come so far, and then they wait for it.
  void meet(std::int64_t number) {
    for (std::int32_t r = 1; r < c_->size(); ++r) {
      if (c_->rank() == 0) {
        c_->take(r, number);
        c_->post(r, number, {});
      } else if (c_->rank() == r) {
        c_->post(0, number, {});
        c_->take(0, number);
      }
    }
  }

 private:
  std::unique_ptr<runtime::Communicator> c_ = runtime::ProcessWorld::open()->makeCommunicator();
  TempFolder folder_;
  std::filesystem::path path_;
};

}  // namespace sluice::testing
