#include "sluice/profile/compare_values.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/base/error.h"
#include "sluice/tensor/shape.h"

namespace sluice::profile {
namespace {

using runtime::SharedText;
using runtime::WrittenValue;

/// Numbers of op, name and tensor; output, micro-batch, and the round and replica of a value that
/// is written once per round. What is recomputed is written twice under the same key.
using ValueKey = std::tuple<std::size_t,
                            std::size_t,
                            std::size_t,
                            std::int32_t,
                            std::int64_t,
                            std::int32_t,
                            std::int32_t>;

/// Equal texts have one number. A text that many values share is compared with others only once.
class TextNumbers {
 public:
  std::size_t of(const SharedText& text) {
    const auto [known, isNew] = byPlace_.try_emplace(&text.str());
    if (isNew) {
      known->second = byText_.try_emplace(text.str(), byText_.size()).first->second;
    }
    return known->second;
  }

 private:
  std::map<const std::string*, std::size_t> byPlace_;
  std::map<std::string_view, std::size_t> byText_;
};

/// The values under one key of the second trace that have no partner yet.
class Partners {
 public:
  void add(const WrittenValue& value) {
    byContent_[contentOf(value)].push_back(values_.size());
    values_.push_back(&value);
    ++left_;
  }
  /// Of the first trace, of which as much is under the key.
  void count(const WrittenValue& value) { others_.insert(contentOf(value)); }
  /// Whether values that differ belong together. Ops of one name are told apart by their order,
  /// which says nothing if a run did not write all of them. What is recomputed counts once. Copies
  /// of one name are other ones in every cut.
  bool arePaired(bool copies) const {
    return others_.size() == byContent_.size() && (!copies || others_.size() == 1);
  }
  /// Takes the first one with the same type and elements.
  bool takeEqual(const WrittenValue& value) {
    const auto equal = byContent_.find(contentOf(value));
    if (equal == byContent_.end() || equal->second.empty()) {
      return false;
    }
    values_[equal->second.front()] = nullptr;
    equal->second.pop_front();
    --left_;
    return true;
  }
  /// The first one; nullptr if there is none.
  const WrittenValue* first() {
    while (first_ < values_.size() && values_[first_] == nullptr) {
      ++first_;
    }
    return first_ < values_.size() ? values_[first_] : nullptr;
  }
  void takeFirst() {
    values_[first_] = nullptr;
    --left_;
  }
  std::int64_t left() const { return left_; }

 private:
  using Content = std::pair<std::uint64_t, std::string>;
  static Content contentOf(const WrittenValue& value) { return {value.hash, value.type.str()}; }

  std::vector<const WrittenValue*> values_;               // nullptr: taken
  std::map<Content, std::deque<std::size_t>> byContent_;  // those before takeFirst
  std::set<Content> others_;
  std::size_t first_ = 0;
  std::int64_t left_ = 0;
};

/// Copies between devices are noted as bytes in the layout of the device, which tell no elements.
bool isCopy(const WrittenValue& value) {
  return value.op.str() == program::name(program::TaskKind::Transfer);
}

std::vector<double> elementsOf(const WrittenValue& value) {
  std::vector<double> elements;
  dispatch(value.type.dtype, [&]<class T>(T) {
    const auto* data = reinterpret_cast<const T*>(value.values.data());
    for (std::int64_t i = 0; i < value.type.shape.elements(); ++i) {
      if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
        elements.push_back(static_cast<float>(data[i]));
      } else {
        elements.push_back(static_cast<double>(data[i]));
      }
    }
  });
  return elements;
}

double distance(const ElementDifference& element) {
  const double apart = std::abs(element.first - element.second);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

/// Elements that differ by more than the tolerance, the largest distance first.
std::vector<ElementDifference> differences(const WrittenValue& a,
                                           const WrittenValue& b,
                                           const CompareOptions& options) {
  const std::vector<double> first = elementsOf(a);
  const std::vector<double> second = elementsOf(b);
  const std::size_t size = byteSize(a.type.dtype);
  std::vector<ElementDifference> found;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto from = static_cast<std::ptrdiff_t>(i * size);
    const bool same = std::equal(a.values.begin() + from,
                                 a.values.begin() + from + static_cast<std::ptrdiff_t>(size),
                                 b.values.begin() + from);
    const bool near =
        (std::isnan(first[i]) && std::isnan(second[i])) || first[i] == second[i] ||
        std::abs(first[i] - second[i]) <= options.absolute + options.relative * std::abs(second[i]);
    if (!same && !(near && !options.exact())) {
      found.push_back({static_cast<std::int64_t>(i), first[i], second[i]});
    }
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, distance);
  return found;
}

void requireValues(const Trace& trace, bool needsElements) {
  bool any = false;
  bool elements = true;
  for (const auto& step : trace.writes) {
    any = any || !step.empty();
    elements = elements && std::ranges::all_of(step, [](const WrittenValue& value) {
                 return !value.values.empty() || value.type.bytes() == 0;
               });
  }
  if (!any) {
    raise<InvalidArgument>(
        "the trace '{}' has no values: record it with Options::traceValues(TraceValues::Hashes)",
        trace.name);
  }
  if (needsElements && !elements) {
    raise<InvalidArgument>(
        "the trace '{}' has hashes only, so a tolerance cannot be applied: record it with "
        "Options::traceValues(TraceValues::All)",
        trace.name);
  }
}

class Comparing {
 public:
  Comparing(const Trace& first, const Trace& second, const CompareOptions& options)
      : a_(first), b_(second), options_(options) {}

  ValueComparison run() {
    const std::size_t steps = std::min(a_.writes.size(), b_.writes.size());
    for (std::size_t s = 0; s < steps; ++s) {
      addStep(static_cast<std::int32_t>(s));
    }
    if (result_.compared == 0) {
      raise<InvalidArgument>(
          "the traces '{}' and '{}' have no value in common: are they of the same model?",
          a_.name,
          b_.name);
    }
    return std::move(result_);
  }

 private:
  ValueKey keyOf(const WrittenValue& value) {
    const bool once = value.microBatch < 0;
    return {texts_.of(value.op),
            texts_.of(value.name),
            texts_.of(value.tensor),
            value.output,
            value.microBatch,
            once ? value.round : 0,
            once ? value.replica : 0};
  }

  /// Under one key equal values are a pair, whatever their order; the rest are pairs in order, if
  /// the runs wrote as many.
  void addStep(std::int32_t step) {
    const auto number = static_cast<std::size_t>(step);
    std::map<ValueKey, Partners> others;
    const auto counts = [&](const WrittenValue& value) {
      return options_.exact() || !isCopy(value);
    };
    for (const WrittenValue& value : b_.writes[number]) {
      if (counts(value)) {
        others[keyOf(value)].add(value);
      }
    }
    std::vector<const WrittenValue*> left;
    for (const WrittenValue& value : a_.writes[number]) {
      if (!counts(value)) {
        continue;
      }
      const auto group = others.find(keyOf(value));
      if (group == others.end()) {
        ++result_.onlyFirst;
        continue;
      }
      group->second.count(value);
      if (group->second.takeEqual(value)) {
        ++result_.compared;
      } else {
        left.push_back(&value);
      }
    }
    for (const WrittenValue* value : left) {
      Partners& group = others.find(keyOf(*value))->second;
      const WrittenValue* other = group.first();
      if (other == nullptr || !group.arePaired(isCopy(*value)) ||
          (isCopy(*value) && value->type != other->type)) {
        ++result_.onlyFirst;  // or its layout is another
        continue;
      }
      ++result_.compared;
      compare(*value, *other, step);
      group.takeFirst();
    }
    for (const auto& [key, group] : others) {
      result_.onlySecond += group.left();
    }
  }

  void compare(const WrittenValue& a, const WrittenValue& b, std::int32_t step) {
    std::vector<ElementDifference> found;
    if (a.type == b.type && !a.values.empty() && !b.values.empty()) {
      found = differences(a, b, options_);
      if (found.empty()) {
        return;  // near enough
      }
    }
    ++result_.different;
    if (result_.first) {
      return;
    }
    ValueDifference& first = result_.first.emplace();
    first.op = a.op.str();
    first.name = a.name.str();
    first.tensor = a.tensor.str();
    first.output = a.output;
    first.firstType = a.type.str();
    first.secondType = b.type.str();
    first.step = step;
    first.microBatch = a.microBatch;
    first.round = a.round;
    first.replica = a.replica;
    first.differing = std::ssize(found);
    found.resize(std::min(found.size(), options_.elements));
    first.worst = std::move(found);
  }

  const Trace& a_;
  const Trace& b_;
  const CompareOptions& options_;
  TextNumbers texts_;
  ValueComparison result_;
};

}  // namespace

std::string ValueDifference::str() const {
  std::string text = fmt::format("{} '{}'", op, name);
  text += tensor.empty() || tensor == name ? "" : fmt::format(" into '{}'", tensor);
  text += output > 0 ? fmt::format(", output {},", output) : "";
  text += microBatch >= 0 ? fmt::format(" of micro-batch {}", microBatch)
                          : fmt::format(" of round {}, replica {},", round, replica);
  return text + fmt::format(" in step {}", step);
}

ValueComparison compareValues(const Trace& first,
                              const Trace& second,
                              const CompareOptions& options) {
  requireValues(first, !options.exact());
  requireValues(second, !options.exact());
  return Comparing(first, second, options).run();
}

std::string comparisonText(const ValueComparison& comparison,
                           const std::string& first,
                           const std::string& second) {
  std::string text =
      fmt::format("{} values compared, {} differ", comparison.compared, comparison.different);
  if (comparison.onlyFirst + comparison.onlySecond > 0) {
    text += fmt::format("; {} are only in {}, {} only in {}",
                        comparison.onlyFirst,
                        first,
                        comparison.onlySecond,
                        second);
  }
  text += '\n';
  if (!comparison.first) {
    return text;
  }
  const ValueDifference& found = *comparison.first;
  text += fmt::format("first difference: {}, {}\n", found.str(), found.firstType);
  if (found.firstType != found.secondType) {
    return text + fmt::format("  {} has {}\n", second, found.secondType);
  }
  if (found.worst.empty()) {
    return text + "  (only hashes were kept; TraceValues::All also shows which elements differ)\n";
  }
  text += fmt::format("  {} elements differ; those that differ most:\n", found.differing);
  for (const ElementDifference& element : found.worst) {
    text += fmt::format("  [{}]  {:.9g}  {:.9g}  apart by {:.3g}\n",
                        element.index,
                        element.first,
                        element.second,
                        distance(element));
  }
  return text;
}

std::string comparisonJson(const ValueComparison& comparison) {
  using Json = nlohmann::ordered_json;
  Json json = {{"compared", comparison.compared},
               {"different", comparison.different},
               {"onlyFirst", comparison.onlyFirst},
               {"onlySecond", comparison.onlySecond},
               {"first", nullptr}};
  if (comparison.first) {
    const ValueDifference& found = *comparison.first;
    Json worst = Json::array();
    for (const ElementDifference& element : found.worst) {
      worst.push_back(
          {{"index", element.index}, {"first", element.first}, {"second", element.second}});
    }
    json["first"] = {{"op", found.op},
                     {"name", found.name},
                     {"tensor", found.tensor},
                     {"output", found.output},
                     {"firstType", found.firstType},
                     {"secondType", found.secondType},
                     {"step", found.step},
                     {"microBatch", found.microBatch},
                     {"round", found.round},
                     {"replica", found.replica},
                     {"differing", found.differing},
                     {"worst", worst}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace sluice::profile
