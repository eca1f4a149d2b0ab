// The callbacks that come with fit.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/fit.h"
#include "sluice/api/progress_bar.h"
#include "sluice/api/progress_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/input_file.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

class ProgressBar : public Callback {
 public:
  ProgressBar() = default;
  ~ProgressBar() override {
    if (open_) {  // training ended by an exception: what is printed next begins a line
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void onEpochBegin(const Progress& p) override {
    fmt::print("Epoch {}/{}\n", p.epoch + 1, p.epochs);
    std::fflush(stdout);
  }
  void onStep(const Progress& p) override {
    if (const auto columns = terminalWidth(STDOUT_FILENO)) {
      fmt::print("\r\033[K{}", progressLine(p, columns));
      std::fflush(stdout);
      open_ = true;
    }
  }
  void onEpochEnd(const Progress& p) override { finish(p, ""); }
  void onEpochCut(const Progress& p) override {
    finish(p, "Stopped in the middle of the epoch.\n");
  }

 private:
  void finish(const Progress& p, std::string_view remark) {
    const auto columns = terminalWidth(STDOUT_FILENO);
    fmt::print("{}{}\n{}", columns ? "\r\033[K" : "", progressLine(p, columns), remark);
    std::fflush(stdout);
    open_ = false;
  }

  bool open_ = false;  // a line is drawn and not ended
};

/// What an earlier run has logged, under its final name or, if it was killed, its temporary one.
std::string earlierLog(const std::string& path) {
  for (const std::string& name : {path + ".part", path}) {
    try {
      if (std::filesystem::is_regular_file(name)) {
        std::string log = readFile(name);
        if (log.find('\n') != std::string::npos) {  // else it was killed before its first step
          return log;
        }
      }
    } catch (const std::exception& problem) {
      log::warn("fit", "'{}' is not read: {}", name, problem.what());
    }
  }
  return "";
}

/// The updates of a row, which stand in its third column; nullopt if it is none.
std::optional<std::int64_t> updatesIn(std::string_view row) {
  std::int64_t updates = 0;
  for (int column = 0; column < 2; ++column) {
    row.remove_prefix(std::min(row.find(',') + 1, row.size()));
  }
  const auto [end, error] = std::from_chars(row.data(), row.data() + row.size(), updates);
  return error == std::errc() && end != row.data() + row.size() && *end == ','
             ? std::optional(updates)
             : std::nullopt;
}

class CsvLog : public Callback {
 public:
  explicit CsvLog(const std::string& path)
      : earlier_(earlierLog(path)), file_(path, PartialFile::Name::Watched) {}
  ~CsvLog() override {
    try {
      finish();
    } catch (const Error& error) {
      log::warn("fit", "{}", error.message());
    }
  }
  CsvLog(const CsvLog&) = delete;
  CsvLog& operator=(const CsvLog&) = delete;

  void onStep(const Progress& p) override {
    std::string text;
    if (!headed_) {
      std::string header = "epoch,step,updates,seconds";
      for (const auto& metric : p.metrics) {
        header += ',' + metric.first;
      }
      header += '\n';
      text = header + (p.epoch == 0 && p.step == 1 ? "" : rowsBefore(p.updates, header));
      headed_ = true;
    }
    text += fmt::format("{},{},{},{:.6f}", p.epoch + 1, p.step, p.updates, p.seconds);
    for (const auto& metric : p.metrics) {
      text += fmt::format(",{:.9g}", metric.second);
    }
    file_.write(text + '\n');
  }

  /// A further fit goes on in the same file under its final name.
  void onFitEnd(const Progress&) override { finish(); }

 private:
  /// Rows of the run that is continued; what it did after its checkpoint is done again.
  std::string rowsBefore(std::int64_t updates, const std::string& header) const {
    std::string rows;
    if (!earlier_.starts_with(header)) {
      return rows;
    }
    std::size_t begin = header.size();
    for (std::size_t end = 0; (end = earlier_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string_view row = std::string_view(earlier_).substr(begin, end + 1 - begin);
      if (updatesIn(row).value_or(updates) < updates) {
        rows += row;
      }
    }
    return rows;
  }

  void finish() {
    if (!headed_) {  // there was no step: the log stays what it was
      file_.write(std::exchange(earlier_, ""));
    }
    file_.commit();
  }

  std::string earlier_;
  PartialFile file_;
  bool headed_ = false;
};

}  // namespace

bool isProgressBar(const std::shared_ptr<Callback>& callback) {
  return dynamic_cast<const ProgressBar*>(callback.get()) != nullptr;
}

std::unique_ptr<Callback> progressBar() {
  return std::make_unique<ProgressBar>();
}

std::unique_ptr<Callback> csvLog(const std::string& path) {
  return std::make_unique<CsvLog>(path);
}

}  // namespace sluice
