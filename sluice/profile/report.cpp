#include "sluice/profile/report.h"

#include <algorithm>
#include <array>

#include "sluice/base/atomic_file.h"
#include "sluice/base/error.h"
#include "sluice/profile/page_assets.h"
#include "sluice/profile/report_data.h"

namespace sluice::profile {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// No text in the data can end the element that it is in.
std::string insideScript(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    c == '<' ? safe += "\\u003c" : safe += c;
  }
  return safe;
}

/// Appends `text` up to the mark and `value`, and returns what follows the mark.
std::string_view fill(std::string& page,
                      std::string_view text,
                      std::string_view mark,
                      std::string_view value) {
  const std::size_t at = text.find(mark);
  SLUICE_CHECK(at != std::string_view::npos, "the page has no place for {}", mark);
  page += text.substr(0, at);
  page += value;
  return text.substr(at + mark.size());
}

}  // namespace

std::string reportPage(std::span<const TracedRun> runs) {
  std::vector<TracedRun> shown;
  const bool predicted =
      std::ranges::any_of(runs, [](const auto& r) { return r.predicted.has_value(); });
  if (predicted) {
    for (const TracedRun& run : runs) {
      shown.push_back(run);
      if (run.predicted) {
        shown.push_back({run.title, *run.predicted});
      }
    }
  }
  const std::string data = insideScript(
      dump(pageData(factsOf(predicted ? std::span<const TracedRun>(shown) : runs)), -1));
  std::string page;
  std::string_view rest = kPageHtml;
  rest = fill(page, rest, "/*STYLE*/", kPageStyle);
  rest = fill(page, rest, "/*DATA*/", data);
  rest = fill(page, rest, "/*SCRIPT*/", kPageScript);
  return page.append(rest);
}

std::string reportJson(std::span<const TracedRun> runs) {
  return dump(reportFacts(factsOf(runs)), 2) + '\n';
}

void writeReport(const std::filesystem::path& path, std::span<const TracedRun> runs) {
  const std::string ending = path.extension().string();
  writeFileAtomically(path,
                      ending == ".md"     ? reportMarkdown(runs)
                      : ending == ".json" ? reportJson(runs)
                      : ending == ".txt"  ? reportText(runs)
                                          : reportPage(runs));
}

}  // namespace sluice::profile
