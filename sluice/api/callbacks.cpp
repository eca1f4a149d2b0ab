// The callbacks that come with fit.
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/fit.h"
#include "sluice/api/progress_bar.h"
#include "sluice/api/progress_line.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
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

class CsvLog : public Callback {
 public:
  explicit CsvLog(const std::string& path) : file_(path, PartialFile::Name::Watched) {}
  ~CsvLog() override {
    try {
      file_.commit();
    } catch (const Error& error) {
      log::warn("fit", "{}", error.message());
    }
  }
  CsvLog(const CsvLog&) = delete;
  CsvLog& operator=(const CsvLog&) = delete;

  void onStep(const Progress& p) override {
    std::string text;
    if (!headed_) {
      text = "epoch,step,updates,seconds";
      for (const auto& metric : p.metrics) {
        text += ',' + metric.first;
      }
      text += '\n';
      headed_ = true;
    }
    text += fmt::format("{},{},{},{:.6f}", p.epoch + 1, p.step, p.updates, p.seconds);
    for (const auto& metric : p.metrics) {
      text += fmt::format(",{:.9g}", metric.second);
    }
    file_.write(text + '\n');
  }

  /// A further fit goes on in the same file under its final name.
  void onFitEnd(const Progress&) override { file_.commit(); }

 private:
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
