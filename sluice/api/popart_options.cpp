#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "sluice/api/option_groups.h"
#include "sluice/api/options_table.h"
#include "sluice/base/error.h"
#include "sluice/base/near_names.h"

namespace sluice {
namespace detail {
namespace {

/// An enumerator: its name in PopART and its name here.
struct Word {
  std::string_view popart;
  std::string_view ours;
};

constexpr Word kReductions[] = {{"Sum", "Sum"}, {"Mean", "Mean"}};
constexpr Word kMeans[] = {
    {"Running", "Running"}, {"Post", "Post"}, {"PostAndLoss", "PostAndLoss"}};
constexpr Word kRecomputations[] = {{"None", "None"},
                                    {"Standard", "Standard"},
                                    {"NormOnly", "NormOnly"},
                                    {"Pipeline", "Pipeline"},
                                    {"RecomputeAll", "All"}};
constexpr Word kSynthetic[] = {{"Off", "Off"},
                               {"Zeros", "Zeros"},
                               {"RandomNormal", "RandomNormal"},
                               {"RandomUniform", "RandomUniform"}};
constexpr Word kGraphModes[] = {
    {"Off", "Off"}, {"Manual", "Manual"}, {"Auto", "Auto"}, {"ExecutionPhases", "ExecutionPhases"}};
constexpr Word kPartials[] = {{"half", "f16"}, {"float", "f32"}};

/// An option with another name in PopART, or with values that have other names or numbers there.
struct PopartName {
  std::string_view name;
  std::string_view setter;
  std::span<const Word> words = {};  ///< in the order of PopART's numbers, if numbered
  bool numbered = true;
};

constexpr PopartName kPopartNames[] = {
    {"accumulationFactor", "training.gradientAccumulation"},
    {"accumulationAndReplicationReductionType",
     "training.accumulationAndReplicationReductionType",
     kReductions},
    {"meanAccumulationAndReplicationReductionStrategy",
     "training.setMeanAccumulationAndReplicationReductionStrategy",
     kMeans},
    {"automaticLossScalingSettings.enabled", "training.setAutomaticLossScaling"},
    {"autoRecomputation", "recomputation", kRecomputations},
    {"enableFloatingPointChecks", "precision.enableFloatingPointExceptions"},
    {"enableStochasticRounding", "precision.enableStochasticRounding"},
    {"instrumentWithHardwareCycleCounter", "logCycleCount"},
    {"numIOTiles", "tensorLocations.numIOTiles"},
    {"partialsTypeMatMuls", "precision.setPartialsType", kPartials, false},
    {"replicatedGraphCount", "replicationFactor"},
    {"syntheticDataMode", "syntheticDataMode", kSynthetic},
    {"virtualGraphMode", "virtualGraphMode", kGraphModes},
};

const PopartName* findName(std::string_view name) {
  const auto* found = std::ranges::find(kPopartNames, name, &PopartName::name);
  return found == std::end(kPopartNames) ? nullptr : found;
}

[[noreturn]] void refuseName(std::string_view name) {
  std::vector<std::string_view> popart;
  for (const PopartName& known : kPopartNames) {
    popart.push_back(known.name);
  }
  std::vector<std::string_view> all = popart;
  for (const Setting& setting : settings()) {
    if (findName(setting.name) == nullptr) {
      all.push_back(setting.name);
    }
  }
  raise<InvalidArgument>(
      "popart.set: unknown option '{}'{}; it takes PopART's names {}, and those of all setters of "
      "Options",
      name,
      didYouMean(name, all),
      fmt::join(popart, ", "));
}

/// Translates PopART's value of an enumeration into ours, and leaves any other value unchanged.
OptionValue translated(const PopartName& known, OptionValue value) {
  using ValueKind = OptionValue::Kind;
  if (value.kind == ValueKind::Integer && known.numbered && !known.words.empty()) {
    if (value.integer < 0 || value.integer >= std::ssize(known.words)) {
      raise<InvalidArgument>("popart.set: {} has the values 0 to {}, got {}",
                             known.name,
                             std::ssize(known.words) - 1,
                             value.integer);
    }
    value.kind = ValueKind::Text;
    value.text = known.words[static_cast<std::size_t>(value.integer)].ours;
  } else if (value.kind == ValueKind::Text || value.kind == ValueKind::Name) {
    const std::string_view word = std::string_view(value.text).substr(value.text.rfind('.') + 1);
    const auto found = std::ranges::find(known.words, word, &Word::popart);
    if (found != known.words.end()) {
      value.kind = ValueKind::Text;
      value.text = found->ours;
    }
  }
  return value;
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> popartNames() {
  std::vector<std::pair<std::string_view, std::string_view>> names;
  for (const PopartName& known : kPopartNames) {
    names.emplace_back(known.name, known.setter);
  }
  return names;
}

void applyPopart(Options& options, Arguments& arguments) {
  const std::string name = arguments.text();
  std::vector<OptionValue> values = arguments.remaining();
  std::string_view setter = name;
  if (const PopartName* known = findName(name)) {
    setter = known->setter;
    for (OptionValue& value : values) {
      value = translated(*known, std::move(value));
    }
  }
  const auto rows = settings();
  if (setter == kPopartSet || std::ranges::find(rows, setter, &Setting::name) == rows.end()) {
    refuseName(name);
  }
  try {
    apply(options, setter, values);
  } catch (InvalidArgument& error) {
    error.at(fmt::format("{}(\"{}\")", kPopartSet, name));  // the setter has another name
    throw;
  }
}

std::string quotedText(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + "\"";
}

std::string realText(double number) {
  return fmt::format("{}", number);
}

}  // namespace detail

PopartOptions& PopartOptions::setText(std::string_view name, const std::string& value) {
  options_->set(detail::kPopartSet, fmt::format("{}, {}", detail::quotedText(name), value));
  return *this;
}

}  // namespace sluice
