// The callbacks that come with fit.
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "sluice/api/fit.h"
#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

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

std::unique_ptr<Callback> progressBar() {
  return std::make_unique<ProgressBar>();
}

std::unique_ptr<Callback> csvLog(const std::string& path) {
  return std::make_unique<CsvLog>(path);
}

}  // namespace sluice
