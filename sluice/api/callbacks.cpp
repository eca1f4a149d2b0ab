// The callbacks that come with fit.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/fit.h"
#include "sluice/api/progress_line.h"
#include "sluice/base/error.h"

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

class CsvLog : public Callback {
 public:
  explicit CsvLog(std::string path) : path_(std::move(path)), partial_(path_ + ".part") {
    file_.open(partial_, std::ios::trunc);
    if (!file_) {
      raise<FileError>("cannot write the log '{}': {}", partial_, std::strerror(errno));
    }
  }
  ~CsvLog() override {
    file_.close();
    if (!named_) {
      static_cast<void>(std::rename(partial_.c_str(), path_.c_str()));
    }
  }
  CsvLog(const CsvLog&) = delete;
  CsvLog& operator=(const CsvLog&) = delete;

  void onStep(const Progress& p) override {
    if (!headed_) {
      file_ << "epoch,step,updates,seconds";
      for (const auto& metric : p.metrics) {
        file_ << ',' << metric.first;
      }
      file_ << '\n';
      headed_ = true;
    }
    file_ << fmt::format("{},{},{},{:.6f}", p.epoch + 1, p.step, p.updates, p.seconds);
    for (const auto& metric : p.metrics) {
      file_ << fmt::format(",{:.9g}", metric.second);
    }
    file_ << '\n';
    file_.flush();
    if (!file_) {
      raise<FileError>("cannot write the log '{}': {}", partial_, std::strerror(errno));
    }
  }

  /// A further fit goes on in the same file under its final name.
  void onFitEnd(const Progress&) override {
    if (!named_ && std::rename(partial_.c_str(), path_.c_str()) != 0) {
      raise<FileError>("cannot name the log '{}': {}", path_, std::strerror(errno));
    }
    named_ = true;
  }

 private:
  std::string path_;
  std::string partial_;
  std::ofstream file_;
  bool headed_ = false;
  bool named_ = false;  // the file has its final name
};

}  // namespace

std::unique_ptr<Callback> progressBar() {
  return std::make_unique<ProgressBar>();
}

std::unique_ptr<Callback> csvLog(std::string path) {
  return std::make_unique<CsvLog>(std::move(path));
}

}  // namespace sluice
