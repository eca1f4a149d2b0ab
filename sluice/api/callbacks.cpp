// The callbacks that come with fit.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/fit.h"
#include "sluice/base/error.h"

namespace sluice {
namespace {

std::string metricsText(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) {
    const bool percentage = name.find("ccuracy") != std::string::npos;
    text += fmt::format("{}{}:{}",
                        text.empty() ? "" : " | ",
                        name,
                        percentage ? fmt::format("{:.2f}%", value) : fmt::format("{:.4f}", value));
  }
  return text;
}

class ProgressBar : public Callback {
 public:
  void onEpochBegin(const Progress& p) override {
    fmt::print("Epoch {}/{}\n", p.epoch + 1, p.epochs);
    std::fflush(stdout);
  }
  void onStep(const Progress& p) override {
    if (terminal_) {
      draw(p, '\r');
    }
  }
  void onEpochEnd(const Progress& p) override {
    if (terminal_) {
      fmt::print("\r\033[K");
    }
    draw(p, '\n');
  }

 private:
  static void draw(const Progress& p, char end) {
    constexpr std::int64_t kWidth = 30;
    const std::int64_t done = p.steps == 0 ? kWidth : kWidth * p.step / p.steps;
    const std::string of = p.steps == 0 ? "" : fmt::format("/{}", p.steps);
    fmt::print("[{}{}] {}{} {:.1f}s  {}{}",
               std::string(static_cast<std::size_t>(done), '#'),
               std::string(static_cast<std::size_t>(kWidth - done), '.'),
               p.step,
               of,
               p.seconds,
               metricsText(p.metrics),
               end);
    std::fflush(stdout);
  }

  bool terminal_ = isatty(STDOUT_FILENO) != 0;
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
