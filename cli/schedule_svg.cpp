#include "cli/schedule_svg.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "cli/schedule_chart.h"

namespace sluice::cli {
namespace {

using schedule::PipelineSchedule;
using schedule::Work;
using schedule::WorkKind;

constexpr double kWidth = 1000;
constexpr double kLeft = 76;
constexpr double kRight = 16;
constexpr double kTop = 44;
constexpr double kRow = 30;
constexpr double kGap = 6;
constexpr double kLabelWidth = 7.5;  // of a digit

std::string_view colourOf(WorkKind kind) {
  return kind == WorkKind::Forward          ? "#3b82f6"
         : kind == WorkKind::BackwardWeight ? "#d9673f"
                                            : "#f59e0b";
}

std::string text(double x, double y, std::string_view attributes, std::string_view content) {
  return fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" {}>{}</text>\n", x, y, attributes, content);
}

class Picture {
 public:
  explicit Picture(const Drawing& drawing) : d_(drawing) {}

  std::string draw() const {
    const double bottom = kTop + static_cast<double>(d_.devices.size()) * (kRow + kGap);
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
        "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" rx=\"10\" fill=\"#ffffff\"/>\n",
        kWidth,
        bottom + 34);
    out += text(kLeft, 26, "font-weight=\"600\" fill=\"#17202e\"", d_.title);
    for (std::size_t d = 0; d < d_.devices.size(); ++d) {
      out += row(d, kTop + static_cast<double>(d) * (kRow + kGap));
    }
    return out + axis(bottom) + "</svg>\n";
  }

 private:
  double xOf(std::int64_t time) const {
    const double whole = static_cast<double>(std::max<std::int64_t>(d_.makespan, 1));
    return kLeft + (kWidth - kLeft - kRight) * static_cast<double>(time) / whole;
  }

  std::string row(std::size_t device, double y) const {
    std::set<std::int32_t> stages;
    for (const Work& work : d_.devices[device]) {
      stages.insert(work.stage);
    }
    std::string out =
        text(12, y + kRow / 2 + 4, "fill=\"#5d6b7e\"", fmt::format("device {}", device));
    out += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"#f1f3f6\"/>\n",
        kLeft,
        y,
        kWidth - kLeft - kRight,
        kRow);
    for (const Work& work : d_.devices[device]) {
      // Later stages of the same device are paler.
      const auto place =
          static_cast<double>(std::distance(stages.begin(), stages.find(work.stage)));
      const double opacity = 1 - 0.45 * place / static_cast<double>(stages.size());
      out += block(work, y, opacity);
    }
    return out;
  }

  std::string block(const Work& work, double y, double opacity) const {
    const double x = xOf(work.start);
    const double width = xOf(work.end) - x;
    if (width <= 0) {
      return "";
    }
    std::string out = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.0f}\" rx=\"3\" fill=\"{}\" "
        "fill-opacity=\"{:.2f}\"><title>{}{} stage {}</title></rect>\n",
        x,
        y,
        std::max(width - 1, width * 0.8),
        kRow,
        colourOf(work.kind),
        opacity,
        schedule::letter(work.kind),
        work.microBatch,
        work.stage);
    const std::string label = fmt::format("{}", work.microBatch);
    if (width > kLabelWidth * static_cast<double>(label.size()) + 4) {
      out += text(x + width / 2,
                  y + kRow / 2 + 4.5,
                  "text-anchor=\"middle\" fill=\"#ffffff\" font-weight=\"600\"",
                  label);
    }
    return out;
  }

  std::string axis(double bottom) const {
    std::string out = text(kLeft, bottom + 18, "fill=\"#5d6b7e\"", "0");
    out += text(kWidth - kRight, bottom + 18, "text-anchor=\"end\" fill=\"#5d6b7e\"", d_.end);
    std::set<WorkKind> kinds;
    for (const auto& device : d_.devices) {
      for (const Work& work : device) {
        kinds.insert(work.kind);
      }
    }
    double x = kWidth / 2 - 130;
    for (const WorkKind kind : kinds) {
      const std::string_view name = kind == WorkKind::Forward          ? "forward"
                                    : kind == WorkKind::BackwardWeight ? "weight gradient"
                                    : kind == WorkKind::BackwardInput  ? "input gradient"
                                                                       : "backward";
      out += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{:.2f}\" width=\"12\" height=\"12\" rx=\"3\" fill=\"{}\"/>\n",
          x,
          bottom + 8,
          colourOf(kind));
      out += text(x + 18, bottom + 18.5, "fill=\"#5d6b7e\"", name);
      x += 130;
    }
    return out;
  }

  const Drawing& d_;
};

}  // namespace

std::string drawSvg(const Drawing& drawing) {
  return Picture(drawing).draw();
}

std::string drawSvg(const ScheduleRequest& request, const PipelineSchedule& schedule) {
  const std::string title = fmt::format("{}: {} micro-batches in {}, bound {}, {:.1f}% idle",
                                        schedule::name(schedule.kind),
                                        request.problem.microBatches,
                                        inUnit(schedule.makespan, request.timeUnit, 6),
                                        inUnit(schedule.bound, request.timeUnit, 6),
                                        100 * schedule.rampShare);
  return drawSvg({.title = title,
                  .end = inUnit(schedule.makespan, request.timeUnit, 6),
                  .devices = schedule.devices,
                  .makespan = schedule.makespan});
}

}  // namespace sluice::cli
