// Where options come from besides setters: files and SLUICE_DEFAULT_OPTIONS. A source is applied to
// a copy and taken over as a whole.
#include <cstdlib>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sluice/api/options_table.h"
#include "sluice/base/error.h"
#include "sluice/base/input_file.h"

namespace sluice {
namespace {

using detail::OptionValue;
using Json = nlohmann::ordered_json;

constexpr const char* kVariable = "SLUICE_DEFAULT_OPTIONS";

std::string readOptionsFile(const std::string& path) {
  try {
    return readFile(path, kTextFileLimit);
  } catch (const Error& error) {
    raise<ConfigFileError>("cannot read the options file '{}': {}", path, error.message());
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Integers of more than 63 bits become reals, which no count takes.
OptionValue fromJson(const Json& json, const std::string& key) {
  OptionValue value;
  if (json.is_null()) {
    return value;
  }
  if (json.is_boolean()) {
    value.kind = OptionValue::Kind::Bool;
    value.boolean = json.get<bool>();
  } else if (json.is_number_integer() &&
             (!json.is_number_unsigned() || json.get<std::uint64_t>() <= INT64_MAX)) {
    value.kind = OptionValue::Kind::Integer;
    value.integer = json.get<std::int64_t>();
  } else if (json.is_number()) {
    value.kind = OptionValue::Kind::Real;
    value.real = json.get<double>();
  } else if (json.is_string()) {
    value.kind = OptionValue::Kind::Text;
    value.text = json.get<std::string>();
  } else if (json.is_array()) {
    value.kind = OptionValue::Kind::List;
    for (const Json& item : json) {
      value.items.push_back(fromJson(item, key));
    }
  } else {
    raise<InvalidArgument>("{}: a JSON object is no argument of an option", key);
  }
  return value;
}

std::vector<OptionValue> argumentsOf(const Json& json, const std::string& key) {
  OptionValue value = fromJson(json, key);
  if (value.kind == OptionValue::Kind::List) {
    return std::move(value.items);
  }
  return {std::move(value)};
}

/// Parses with the library's exceptions off: text of any kind is data here.
Json parsedObject(std::string_view text, std::string_view source) {
  // Deeper or more than any options need; refused before the values are copied and compared.
  constexpr int kMostValues = 1 << 14;
  int values = 0;
  const auto shallow = [&](int depth, Json::parse_event_t /*event*/, Json& /*parsed*/) {
    if (depth > 16) {
      raise<InvalidArgument>("nested too deeply");
    }
    if (++values > kMostValues) {
      raise<InvalidArgument>("more than {} keys, values and brackets", kMostValues);
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, shallow, false);
  } catch (const InvalidArgument& error) {
    raise<ConfigFileError>("{}: {}", source, error.message());
  }
  if (!json.is_object()) {
    raise<ConfigFileError>(
        "{}: expected a JSON object such as {{\"deviceIterations\": 10}}, got '{}'", source, text);
  }
  return json;
}

std::string lineOf(const Options& options, const detail::Setting& setting) {
  return fmt::format("{}: {}", setting.name, setting.print(options));
}

}  // namespace

Options& Options::set(std::string_view setter, std::string_view arguments) {
  requireUnfrozen();
  const auto call = detail::parseCall(fmt::format("{}({})", setter, arguments));
  if (!call) {
    raise<InvalidArgument>("set: expected the name of a setter, got '{}'", setter);
  }
  Options changed = *this;
  detail::apply(changed, call->text, call->items);
  return *this = std::move(changed);
}

Options::Options() {
  distributed.setEnvVarNames(distributed.processesName(), distributed.idName());
  const char* text = std::getenv(kVariable);
  if (text == nullptr || *text == '\0') {
    return;
  }
  const Options before = *this;
  loadFromJson(text, kVariable);
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print != nullptr && lineOf(*this, setting) != lineOf(before, setting)) {
      environment_.push_back(lineOf(*this, setting));
    }
  }
}

std::vector<std::string> Options::fromEnvironment() const {
  std::vector<std::string> lines;
  for (const detail::Setting& setting : detail::settings()) {
    if (setting.print == nullptr) {
      continue;
    }
    const std::string line = lineOf(*this, setting);
    if (std::ranges::find(environment_, line) != environment_.end()) {
      lines.push_back(line);
    }
  }
  return lines;
}

Options& Options::loadFromFile(const std::string& path) {
  requireUnfrozen();
  const std::string text = readOptionsFile(path);
  Options changed = *this;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    try {
      if (const std::optional<OptionValue> call = detail::parseCall(line)) {
        detail::apply(changed, call->text, call->items);
      }
    } catch (const InvalidArgument& error) {
      raise<ConfigFileError>("{}, line {}: '{}': {}", path, number, trimmed(line), error.message());
    }
  }
  *this = changed;
  return *this;
}

Options& Options::loadFromJson(std::string_view text, std::string_view source) {
  requireUnfrozen();
  const Json json = parsedObject(text, source);
  Options changed = *this;
  for (const auto& [key, value] : json.items()) {
    try {
      detail::apply(changed, key, argumentsOf(value, key));
    } catch (const InvalidArgument& error) {
      raise<ConfigFileError>("{}: \"{}\": {}", source, key, error.message());
    }
  }
  *this = changed;
  return *this;
}

}  // namespace sluice
