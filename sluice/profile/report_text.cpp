// Reports as Markdown and for terminals.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "sluice/profile/report.h"
#include "sluice/profile/run_facts.h"
#include "sluice/program/memory_plan.h"

namespace sluice::profile {
namespace {

constexpr std::size_t kShownSubjects = 12;
constexpr std::size_t kShownTensors = 8;

std::string bytes(std::int64_t count) {
  return program::formatBytes(static_cast<std::size_t>(count));
}

/// The bytes of a character after its first one.
bool continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

std::size_t charactersOf(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues));
}

/// The end of a name that is too long, which tells it from others.
std::string endOf(const std::string& text, std::size_t width) {
  constexpr std::string_view kLeftOut = "..";
  std::size_t left = charactersOf(text);
  if (left <= width) {
    return text;
  }
  std::size_t from = 0;
  while (from < text.size() && (left > width - kLeftOut.size() || continues(text[from]))) {
    left -= continues(text[from]) ? 0 : 1;
    ++from;
  }
  return std::string(kLeftOut) + text.substr(from);
}

/// In lines that end at spaces.
std::string wrapped(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    const std::size_t length = charactersOf(word);
    if (column > 0) {
      const bool fits = column + 1 + length <= width;
      lines += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    lines += word;
    column += length;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Columns of texts; all but the first are right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string markdown() const {
    std::string text = line(rows_[0]) + "|";
    for (std::size_t c = 0; c < rows_[0].size(); ++c) {
      text += c == 0 ? "---|" : "---:|";
    }
    text += '\n';
    for (std::size_t r = 1; r < rows_.size(); ++r) {
      text += line(rows_[r]);
    }
    return text;
  }

  std::string plain(std::size_t width) const {
    std::vector<std::size_t> widths(rows_[0].size(), 0);
    for (const auto& row : rows_) {
      for (std::size_t c = 0; c < row.size(); ++c) {
        widths[c] = std::max(widths[c], charactersOf(row[c]));
      }
    }
    narrow(widths, width);
    std::string text;
    for (std::size_t from = 1; from < widths.size();) {  // what is too wide goes on below
      std::size_t all = 2 + widths[0] + 2 + widths[from];
      std::size_t to = from + 1;
      while (to < widths.size() && all + 2 + widths[to] <= width) {
        all += 2 + widths[to++];
      }
      for (const auto& row : rows_) {
        text += fmt::format("  {:<{}}", endOf(row[0], widths[0]), widths[0]);
        for (std::size_t c = from; c < to; ++c) {
          text += fmt::format("  {:>{}}", endOf(row[c], widths[c]), widths[c]);
        }
        text += '\n';
      }
      from = to;
    }
    return text;
  }

 private:
  /// The widest columns, which have names, give way to the others.
  static void narrow(std::vector<std::size_t>& widths, std::size_t width) {
    constexpr std::size_t kLeast = 12;
    std::size_t all = 2 * widths.size();
    for (const std::size_t column : widths) {
      all += column;
    }
    for (auto widest = std::ranges::max_element(widths); all > width && *widest > kLeast;
         widest = std::ranges::max_element(widths)) {
      --*widest;
      --all;
    }
  }

  static std::string line(const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) {
      text += ' ';
      for (const char c : cell) {
        text += c == '|' ? std::string_view("\\|") : std::string_view(&c, 1);
      }
      text += " |";
    }
    return text + '\n';
  }

  std::vector<std::vector<std::string>> rows_;
};

struct Section {
  std::string title;
  Table table;
};

Section idleOf(const RunFacts& facts) {
  std::vector<std::string> head = {"device", "busy", "idle"};
  const std::vector<Cause> causes = facts.causes();
  for (const Cause cause : causes) {
    head.emplace_back(name(cause));
  }
  Section section{"Idle time by cause, per step", Table(head)};
  for (std::size_t d = 0; d < facts.why.devices.size(); ++d) {
    const DeviceIdle& device = facts.why.devices[d];
    std::vector<std::string> row = {facts.trace->deviceName(d),
                                    percent(device.busy, device.span),
                                    milliseconds(facts.perStep(device.idle()))};
    for (const Cause cause : causes) {
      row.push_back(milliseconds(facts.perStep(device.causes[static_cast<std::size_t>(cause)])));
    }
    section.table.add(std::move(row));
  }
  return section;
}

Section stagesOf(const RunFacts& facts) {
  Section section{"Stages, kernels of a micro-batch",
                  Table({"stage", "device", "forward", "backward", "together", "share"})};
  std::int64_t sum = 0;
  for (const StageTime& stage : facts.why.stages) {
    sum += stage.time();
  }
  for (const StageTime& stage : facts.why.stages) {
    section.table.add({fmt::format("{}", stage.stage),
                       fmt::format("{}", stage.device),
                       milliseconds(stage.forward),
                       milliseconds(stage.backward),
                       milliseconds(stage.time()),
                       percent(stage.time(), sum)});
  }
  return section;
}

Section tasksOf(const RunFacts& facts) {
  Section section{"Tasks that took longest",
                  Table({"task", "runs", "together", "mean", "longest", "of a step"})};
  for (std::size_t i = 0; i < std::min(facts.why.subjects.size(), kShownSubjects); ++i) {
    const SubjectTime& time = facts.why.subjects[i];
    section.table.add({facts.trace->subjects[static_cast<std::size_t>(time.subject)].name,
                       fmt::format("{}", time.count),
                       milliseconds(time.total),
                       milliseconds(time.total / time.count),
                       milliseconds(time.longest),
                       percent(time.total, facts.why.measured)});
  }
  return section;
}

Section kernelsOf(const RunFacts& facts) {
  Section section{"Kernels that took longest, one by one",
                  Table({"kernel", "task", "runs", "together", "Gflop/s", "GB/s", "of limit"})};
  for (std::size_t i = 0; i < std::min(facts.kernels.size(), kShownSubjects); ++i) {
    const KernelUse& use = facts.kernels[i];
    section.table.add(
        {use.kernel,
         use.task,
         fmt::format("{}", use.count),
         milliseconds(use.total),
         fmt::format("{:.1f}", use.gigaflopsPerSecond()),
         fmt::format("{:.1f}", use.gigabytesPerSecond()),
         use.limitShare() > 0 ? fmt::format("{:.0f} %", 100 * use.limitShare()) : ""});
  }
  return section;
}

Section pathOf(const RunFacts& facts) {
  Section section{"Critical path", Table({"what", "time", "of all"})};
  for (std::size_t i = 0; i < std::min(facts.why.criticalPath.size(), kShownSubjects); ++i) {
    const PathPart& part = facts.why.criticalPath[i];
    const std::string& subject = facts.trace->subjects[static_cast<std::size_t>(part.subject)].name;
    section.table.add(
        {part.waiting ? fmt::format("{} is ready, waits ({})", subject, name(part.cause)) : subject,
         milliseconds(part.time),
         percent(part.time, facts.why.measured)});
  }
  return section;
}

Section memoryOf(const RunFacts& facts) {
  Section section{"Memory",
                  Table({"device", "variables", "peak", "planned", "largest at the peak"})};
  for (std::size_t d = 0; d < facts.peaks.size(); ++d) {
    const MemoryUse& use = facts.peaks[d];
    std::vector<std::string> largest;
    for (std::size_t i = 0; i < std::min(use.atPeak.size(), kShownTensors) && i < 2; ++i) {
      largest.push_back(fmt::format("{} {}", use.atPeak[i].name, bytes(use.atPeak[i].bytes)));
    }
    section.table.add({facts.trace->deviceName(d),
                       bytes(use.stateBytes),
                       bytes(use.peak),
                       bytes(use.planned),
                       fmt::format("{}", fmt::join(largest, ", "))});
  }
  return section;
}

Section remoteOf(const RunFacts& facts) {
  Section section{"Remote memory, per step",
                  Table({"device", "fetched", "flushed", "copying", "waited for", "hidden"})};
  for (std::size_t d = 0; d < facts.remote.size(); ++d) {
    const RemoteUse& use = facts.remote[d];
    section.table.add({facts.trace->deviceName(d),
                       bytes(facts.perStep(use.fetched)),
                       bytes(facts.perStep(use.flushed)),
                       milliseconds(facts.perStep(use.copying)),
                       milliseconds(facts.perStep(use.waited)),
                       percent(use.hidden(), use.copying)});
  }
  return section;
}

Section predictedOf(const Prediction& prediction) {
  Section section{fmt::format("Predicted by the simulator (target {}) and measured, per step",
                              prediction.target),
                  Table({"what", "measured", "predicted", "difference"})};
  const auto add = [&](const PredictedPart& part) {
    section.table.add({part.what,
                       milliseconds(part.measured),
                       milliseconds(part.predicted),
                       part.measured == 0 ? "" : fmt::format("{:+.1f} %", 100 * part.error())});
  };
  add(prediction.step);
  std::ranges::for_each(prediction.devices, add);
  const std::size_t shown = std::min(prediction.tasks.size(), kShownSubjects);
  std::ranges::for_each(std::span(prediction.tasks).first(shown), add);
  return section;
}

Section suggestionsOf(const std::vector<SuggestedChange>& changes) {
  Section section{"What one change would give, by the simulator",
                  Table({"change", "a step", "faster"})};
  for (const SuggestedChange& each : changes) {
    section.table.add({each.change,
                       milliseconds(std::llround(each.seconds * 1e9)),
                       fmt::format("{:.1f} %", 100 * each.faster)});
  }
  return section;
}

Section latenciesOf(const RunFacts& facts) {
  Section section{"Latencies of a micro-batch", Table({"", "least", "mean", "most"})};
  const auto add = [&](const char* what, const Latency& latency) {
    const auto text = [](double seconds) { return milliseconds(std::llround(seconds * 1e9)); };
    section.table.add({what, text(latency.min), text(latency.avg), text(latency.max)});
  };
  add("host to device", facts.latencies.hostDevice);
  add("through the devices", facts.latencies.compute);
  add("device to host", facts.latencies.deviceHost);
  add("together", facts.latencies.roundTrip);
  return section;
}

std::vector<Section> sectionsOf(const RunFacts& facts) {
  std::vector<Section> sections = {idleOf(facts)};
  if (facts.prediction) {
    sections.push_back(predictedOf(*facts.prediction));
  }
  if (!facts.run->suggestions.empty()) {
    sections.push_back(suggestionsOf(facts.run->suggestions));
  }
  if (!facts.why.stages.empty()) {
    sections.push_back(stagesOf(facts));
  }
  sections.push_back(pathOf(facts));
  sections.push_back(tasksOf(facts));
  if (!facts.kernels.empty()) {
    sections.push_back(kernelsOf(facts));
  }
  sections.push_back(memoryOf(facts));
  if (!facts.remote.empty()) {
    sections.push_back(remoteOf(facts));
  }
  sections.push_back(latenciesOf(facts));
  return sections;
}

std::string headline(const RunFacts& facts) {
  const Trace& trace = *facts.trace;
  return fmt::format(
      "{}: {} step{} of {} on {} device{}; {} with these kernels alone, {} if all stages were "
      "equal, "
      "too; devices busy {:.1f} % of the time",
      trace.labelled(trace.name),
      trace.numSteps(),
      trace.numSteps() == 1 ? "" : "s",
      milliseconds(facts.perStep(facts.why.measured)),
      trace.numDevices(),
      trace.numDevices() == 1 ? "" : "s",
      milliseconds(facts.perStep(facts.why.ideal)),
      milliseconds(facts.perStep(facts.why.even)),
      100 * facts.busyShare());
}

/// Runs in columns.
Table comparison(const std::vector<RunFacts>& all) {
  std::vector<std::string> head = {"per step"};
  for (const RunFacts& facts : all) {
    head.push_back(facts.title());
  }
  Table table(head);
  const auto add = [&](std::string what, const auto& of) {
    std::vector<std::string> row = {std::move(what)};
    for (const RunFacts& facts : all) {
      row.push_back(of(facts));
    }
    table.add(std::move(row));
  };
  add("time", [](const RunFacts& f) { return milliseconds(f.perStep(f.why.measured)); });
  add("kernels alone", [](const RunFacts& f) { return milliseconds(f.perStep(f.why.ideal)); });
  add("busy", [](const RunFacts& f) { return fmt::format("{:.1f} %", 100 * f.busyShare()); });
  for (std::size_t c = 0; c < kCauses; ++c) {
    const auto cause = static_cast<Cause>(c);
    add(fmt::format("idle of all devices, {}", name(cause)),
        [&](const RunFacts& f) { return milliseconds(f.perStep(f.idle(cause))); });
  }
  return table;
}

}  // namespace

std::string reportMarkdown(std::span<const TracedRun> runs) {
  const std::vector<RunFacts> all = factsOf(runs);
  std::string text;
  if (all.size() > 1) {
    text += fmt::format("# Comparison\n\n{}\n", comparison(all).markdown());
  }
  for (const RunFacts& facts : all) {
    text += fmt::format("# {}\n\n{}.\n\n{}\n", facts.title(), headline(facts), advice(facts));
    for (const Section& section : sectionsOf(facts)) {
      text += fmt::format("\n## {}\n\n{}", section.title, section.table.markdown());
    }
    text += &facts == &all.back() ? "" : "\n";
  }
  return text;
}

std::string reportText(std::span<const TracedRun> runs, std::size_t width) {
  const std::vector<RunFacts> all = factsOf(runs);
  std::string text;
  if (all.size() > 1) {
    text += fmt::format("Comparison\n{}\n", comparison(all).plain(width));
  }
  for (const RunFacts& facts : all) {
    text += fmt::format("{}\n{}\n", wrapped(headline(facts), width), wrapped(advice(facts), width));
    for (const Section& section : sectionsOf(facts)) {
      text += fmt::format("\n{}\n{}", wrapped(section.title, width), section.table.plain(width));
    }
    text += &facts == &all.back() ? "" : "\n";
  }
  return text;
}

}  // namespace sluice::profile
