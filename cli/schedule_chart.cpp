#include "cli/schedule_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace sluice::cli {
namespace {

using schedule::PipelineSchedule;
using schedule::Work;
using schedule::WorkKind;

/// Longer charts show their beginning and their end: the middle of a pipeline repeats itself.
constexpr std::size_t kMostPanels = 8;
/// Beyond these, small pieces have to do without their labels.
constexpr double kMostColumns = 200'000;
constexpr double kWidestMean = 25;

class Chart {
 public:
  Chart(const ScheduleRequest& request, const PipelineSchedule& schedule, std::size_t width)
      : request_(request), schedule_(schedule), width_(width) {
    nameChunks();
    chooseScale();
  }

  std::string draw() const {
    const auto columns =
        static_cast<std::size_t>(std::max<std::int64_t>(1, column(schedule_.makespan)));
    const std::string ticks = drawTicks(columns);
    std::vector<std::string> rows;
    for (const auto& device : schedule_.devices) {
      rows.push_back(drawDevice(device, columns));
    }
    const std::size_t width = panelWidth(columns);
    const std::size_t panels = (columns + width - 1) / width;
    std::string text;
    for (std::size_t panel = 0; panel < panels; ++panel) {
      text += panel == 0 ? "" : "\n";
      if (panels > kMostPanels && panel == kMostPanels / 2) {
        panel = panels - kMostPanels / 2;
        text += "...\n\n";
      }
      const std::size_t begin = panel * width;
      text += fmt::format("{:<7}{}", "time", trimmed(ticks.substr(begin, width)));
      for (std::size_t d = 0; d < rows.size(); ++d) {
        text += fmt::format("dev{:<4}{}", d, trimmed(rows[d].substr(begin, width)));
      }
    }
    return text;
  }

 private:
  /// Panels of equal width; where a unit of time is a whole number of columns, it is not cut.
  std::size_t panelWidth(std::size_t columns) const {
    const std::size_t panels = (columns + width_ - 1) / width_;
    const std::size_t even = (columns + panels - 1) / panels;
    const auto cell = static_cast<std::size_t>(std::llround(scale_));
    const bool whole = cell > 0 && std::abs(scale_ - static_cast<double>(cell)) < 1e-9;
    const std::size_t rounded = whole ? (even + cell - 1) / cell * cell : even;
    return rounded <= width_ ? rounded : even;
  }

  static std::string trimmed(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  /// Stages of a device that has several are told apart by a, b, c...
  void nameChunks() {
    std::vector<std::int32_t> count(schedule_.devices.size(), 0);
    for (const std::int32_t d : request_.problem.deviceOfStage) {
      chunk_.push_back(count[static_cast<std::size_t>(d)]++);
    }
    for (const std::int32_t d : request_.problem.deviceOfStage) {
      named_.push_back(count[static_cast<std::size_t>(d)] > 1);
    }
  }

  std::string label(const Work& work) const {
    const auto stage = static_cast<std::size_t>(work.stage);
    std::string text = fmt::format("{}{}", letter(work.kind), work.microBatch);
    if (named_[stage]) {
      const std::int32_t chunk = chunk_[stage];
      text +=
          chunk < 26 ? std::string(1, static_cast<char>('a' + chunk)) : fmt::format(".{}", chunk);
    }
    return text;
  }

  /// Wide enough for the labels of all pieces, unless a few small ones would stretch all others.
  void chooseScale() {
    double needed = 0;
    double pieces = 1;
    for (const auto& device : schedule_.devices) {
      pieces += static_cast<double>(device.size());
      for (const Work& work : device) {
        if (work.end > work.start) {
          const auto columns = static_cast<double>(label(work).size() + 1);
          needed = std::max(needed, columns / static_cast<double>(work.end - work.start));
        }
      }
    }
    std::int64_t busy = 1;
    for (const std::int64_t time : schedule_.busy) {
      busy += time;
    }
    const auto makespan = static_cast<double>(std::max<std::int64_t>(1, schedule_.makespan));
    scale_ = std::min(
        {needed, kWidestMean * pieces / static_cast<double>(busy), kMostColumns / makespan});
  }

  std::int64_t column(std::int64_t time) const {
    return std::llround(static_cast<double>(time) * scale_);
  }

  std::string drawDevice(const std::vector<Work>& device, std::size_t columns) const {
    std::string row(columns, '.');
    for (const Work& work : device) {
      const auto begin = static_cast<std::size_t>(column(work.start));
      const auto end = static_cast<std::size_t>(column(work.end));
      if (begin >= end || begin >= columns) {
        continue;
      }
      const std::string text = label(work);
      std::string cell = text + std::string(end - begin, '=');
      cell.resize(end - begin);
      if (cell.size() > text.size()) {
        cell.back() = ' ';
      } else if (cell.size() < text.size()) {
        std::fill(cell.begin() + 1, cell.end(), '=');
      }
      row.replace(begin, cell.size(), cell);
    }
    return row;
  }

  /// Times every 1, 2 or 5 times a power of ten units, at least ten columns apart.
  std::string drawTicks(std::size_t columns) const {
    const double perUnit = scale_ * static_cast<double>(request_.timeUnit);
    const double wanted = 10 / perUnit;
    const double power = std::pow(10, std::floor(std::log10(wanted)));
    const double rest = wanted / power;
    const double step = power * (rest <= 1 ? 1 : rest <= 2 ? 2 : rest <= 5 ? 5 : 10);
    std::string row(columns, ' ');
    for (int i = 0;; ++i) {
      const auto at = static_cast<std::size_t>(std::llround(i * step * perUnit));
      const std::string text = fmt::format("{:.6g}", i * step);
      if (at + text.size() > columns) {
        return row;
      }
      row.replace(at, text.size(), text);
    }
  }

  const ScheduleRequest& request_;
  const PipelineSchedule& schedule_;
  std::size_t width_;
  double scale_ = 1;
  std::vector<std::int32_t> chunk_;
  std::vector<bool> named_;
};

}  // namespace

std::string inUnit(std::int64_t value, std::int64_t unit, int digits) {
  if (value % unit == 0) {
    return std::to_string(value / unit);
  }
  return fmt::format("{:.{}g}", static_cast<double>(value) / static_cast<double>(unit), digits);
}

std::string drawChart(const ScheduleRequest& request,
                      const PipelineSchedule& schedule,
                      std::int32_t width) {
  return Chart(request, schedule, static_cast<std::size_t>(width)).draw();
}

}  // namespace sluice::cli
