// Reports about traces, for people: a page for browsers, Markdown, a summary for terminals; and for
// programs: JSON. All of them say the same, from one Explanation of each trace. Several traces
// stand beside each other, to be compared.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

/// A change of the strategy, and what it gives in virtual time.
struct SuggestedChange {
  std::string change;  ///< "move block B3 to device 2"
  double seconds = 0;  ///< of a step with the change
  double faster = 0;   ///< the share of the step's time that it saves
};

/// A trace and what the report calls it.
struct TracedRun {
  std::string title;
  Trace trace;
  /// The same program in virtual time, to be shown beside it.
  std::optional<Trace> predicted = {};
  std::vector<SuggestedChange> suggestions = {};  ///< the best first
};

/// One HTML page with everything in it: it loads nothing. All functions throw InvalidArgument for a
/// run without steps and for a prediction that is not of the same program (prediction.h). On the
/// page a prediction also is a run of its own, below the measured one.
std::string reportPage(std::span<const TracedRun> runs);
std::string reportMarkdown(std::span<const TracedRun> runs);
/// At most `width` columns.
std::string reportText(std::span<const TracedRun> runs, std::size_t width = 100);
std::string reportJson(std::span<const TracedRun> runs);

/// Writes the page, or what a name that ends in .md, .json or .txt asks for. Throws FileError, too.
void writeReport(const std::filesystem::path& path, std::span<const TracedRun> runs);

}  // namespace sluice::profile
