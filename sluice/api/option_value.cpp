#include "sluice/api/option_value.h"

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::detail {
namespace {

using Kind = OptionValue::Kind;

std::string listed(std::span<const OptionValue> values) {
  std::vector<std::string> parts;
  for (const OptionValue& value : values) {
    parts.push_back(value.str());
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

const OptionValue& requireCall(const OptionValue& value) {
  if (value.kind != Kind::Call) {
    raise<InvalidArgument>("expected a strategy such as PipelinedExecution(\"B1\", \"B2\"), got {}",
                           value.str());
  }
  return value;
}

Stage toStage(const OptionValue& value, std::string_view strategy) {
  if (value.kind == Kind::Text) {
    return Stage(value.text);
  }
  if (value.kind == Kind::Call && value.text == "ConcurrentStages" && value.then.empty()) {
    std::vector<Stage> branches;
    for (const OptionValue& item : value.items) {
      branches.push_back(toStage(item, value.text));
    }
    return ConcurrentStages(std::move(branches));
  }
  const bool isStage = value.kind == Kind::Call && value.text == "Stage";
  if (!isStage && value.kind != Kind::List) {
    raise<InvalidArgument>(
        "{} takes one AutoStage, or block ids, lists of ids and Stages; got {}{}",
        strategy,
        value.str(),
        value.text == "Phase" ? ": phases belong to the phased strategies" : "");
  }
  Stage stage(Arguments("Stage", value.items).texts());
  for (const OptionValue& call : value.then) {
    if (call.text != "device") {
      raise<InvalidArgument>("a Stage has no '{}'; expected .device(n)", call.text);
    }
    Arguments arguments("device", call.items);
    stage.device(arguments.integer());
    arguments.finish();
  }
  return stage;
}

/// Of a function `automatic`, which takes a number of devices or a list of their shares.
template <class Execution>
Execution automaticExecution(const OptionValue& value) {
  Arguments arguments(value.text, value.items);
  if (value.items.size() == 1 && value.items[0].kind == Kind::List) {
    Arguments shares(value.text, value.items[0].items);
    std::vector<double> all;
    while (shares.more()) {
      all.push_back(shares.number());
    }
    return Execution::automatic(std::move(all));
  }
  const std::int64_t devices = arguments.integer();
  arguments.finish();
  return Execution::automatic(devices);
}

template <class Execution>
Execution execution(const OptionValue& value) {
  if (value.text.ends_with(".automatic")) {
    return automaticExecution<Execution>(value);
  }
  if (value.items.empty()) {
    return Execution();
  }
  if (value.items.size() == 1 && value.items[0].kind == Kind::Name) {
    const std::string& rule = value.items[0].text;
    for (const AutoStage known : {AutoStage::SameAsDevice, AutoStage::AutoIncrement}) {
      if (rule == fmt::format("AutoStage.{}", parallel::name(known))) {
        return Execution(known);
      }
    }
  }
  std::vector<Stage> stages;
  for (const OptionValue& item : value.items) {
    stages.push_back(toStage(item, value.text));
  }
  return Execution(std::move(stages));
}

Phase toPhase(const OptionValue& value, std::string_view strategy) {
  if (value.kind == Kind::Text) {
    return Phase(value.text);
  }
  if (value.kind == Kind::Call && value.text == "Phase.automatic") {
    Arguments arguments("Phase.automatic", value.items);
    const std::int64_t count = arguments.integer();
    arguments.finish();
    return Phase::automatic(count);
  }
  if (value.kind != Kind::Call || value.text != "Phase") {
    raise<InvalidArgument>(
        "{} takes Phases and block ids; got {}: phases are explicit", strategy, value.str());
  }
  const bool ids = std::ranges::all_of(
      value.items, [](const OptionValue& item) { return item.kind == Kind::Text; });
  std::vector<Stage> stages;
  if (ids) {
    stages.emplace_back(Arguments("Phase", value.items).texts());
  }
  for (const OptionValue& item : value.items) {
    if (!ids) {
      stages.push_back(toStage(item, "Phase"));
    }
  }
  Phase phase(std::move(stages));
  for (const OptionValue& call : value.then) {
    if (call.text != "devices") {
      raise<InvalidArgument>("a Phase has no '{}'; expected .devices(n, ...)", call.text);
    }
    phase.devices(Arguments("devices", call.items).integers());
  }
  return phase;
}

template <class Execution>
Execution phasedExecution(const OptionValue& value) {
  std::vector<Phase> phases;
  for (const OptionValue& item : value.items) {
    phases.push_back(toPhase(item, value.text));
  }
  Execution execution(phases);
  for (const OptionValue& call : value.then) {
    Arguments arguments(call.text, call.items);
    if (call.text == "setTensorsLiveness") {
      execution.setTensorsLiveness(arguments.enumerator<Liveness>());
    } else if (call.text == "useSeparateBackwardPhase") {
      execution.useSeparateBackwardPhase(arguments.boolean());
    } else if (call.text == "order") {
      execution.order(arguments.enumerator<PhaseOrder>());
    } else if (call.text == "io") {
      execution.io(arguments.enumerator<IoSchedule>());
    } else if (call.text == "schedule") {
      execution.schedule(arguments.enumerator<PhaseSchedule>());
    } else {
      raise<InvalidArgument>(
          "{} has no '{}'; expected .setTensorsLiveness(...), .useSeparateBackwardPhase(...), "
          ".order(...), .io(...) or .schedule(...)",
          value.text,
          call.text);
    }
    arguments.finish();
  }
  return execution;
}

}  // namespace

std::string OptionValue::str() const {
  switch (kind) {
    case Kind::None:
      return "none";
    case Kind::Bool:
      return boolean ? "true" : "false";
    case Kind::Integer:
      return std::to_string(integer);
    case Kind::Real:
      return fmt::format("{}", real);
    case Kind::Text:
      return "\"" + text + "\"";
    case Kind::Name:
      return text;
    case Kind::List:
      return "[" + listed(items) + "]";
    case Kind::Call:
      break;
  }
  std::string written = fmt::format("{}({})", text, listed(items));
  for (const OptionValue& call : then) {
    written += "." + call.str();
  }
  return written;
}

Strategy toStrategy(const OptionValue& value) {
  if (value.kind == Kind::Text) {  // JSON has no calls
    return toStrategy(requireCall(parseValue(value.text)));
  }
  requireCall(value);
  const std::string_view kind = std::string_view(value.text).substr(0, value.text.find('.'));
  if (kind == "ShardedExecution" && value.then.empty()) {
    return execution<ShardedExecution>(value);
  }
  if (value.text == "SerialPhasedExecution") {
    return phasedExecution<SerialPhasedExecution>(value);
  }
  if (value.text == "ParallelPhasedExecution") {
    return phasedExecution<ParallelPhasedExecution>(value);
  }
  if (kind != "PipelinedExecution") {
    raise<InvalidArgument>(
        "expected PipelinedExecution(...), ShardedExecution(...), SerialPhasedExecution(...) or "
        "ParallelPhasedExecution(...), got {}",
        value.str());
  }
  auto pipeline = execution<PipelinedExecution>(value);
  for (const OptionValue& chained : value.then) {
    Arguments arguments(chained.text, chained.items);
    if (chained.text == "schedule") {
      pipeline.schedule(arguments.text());
    } else if (chained.text == "stagesPerDevice") {
      pipeline.stagesPerDevice(arguments.integer());
    } else {
      raise<InvalidArgument>(
          "PipelinedExecution has no '{}'; expected .schedule(\"name\") or .stagesPerDevice(n)",
          chained.text);
    }
    arguments.finish();
  }
  return pipeline;
}

const OptionValue& Arguments::take(std::string_view expected) {
  if (!more()) {
    raise<InvalidArgument>("{}: expected {}, got {} arguments", setter_, expected, values_.size());
  }
  return values_[next_++];
}

void Arguments::refuse(std::string_view expected, const OptionValue& found) const {
  raise<InvalidArgument>("{}: expected {}, got {}", setter_, expected, found.str());
}

std::vector<OptionValue> Arguments::remaining() {
  const std::span<const OptionValue> left = values_.subspan(next_);
  next_ = values_.size();
  return {left.begin(), left.end()};
}

bool Arguments::boolean() {
  const OptionValue& value = take("true or false");
  if (value.kind != Kind::Bool) {
    refuse("true or false", value);
  }
  return value.boolean;
}

std::int64_t Arguments::integer() {
  const OptionValue& value = take("a whole number");
  if (value.kind != Kind::Integer) {
    refuse("a whole number", value);
  }
  return value.integer;
}

double Arguments::number() {
  const OptionValue& value = take("a number");
  if (value.kind == Kind::Integer) {
    return static_cast<double>(value.integer);
  }
  if (value.kind != Kind::Real) {
    refuse("a number", value);
  }
  return value.real;
}

std::string Arguments::text() {
  const OptionValue& value = take("text in quotes");
  if (value.kind != Kind::Text) {
    refuse("text in quotes", value);
  }
  return value.text;
}

std::string Arguments::size() {
  const OptionValue& value = take("a number of bytes or text such as \"64KiB\"");
  if (value.kind == Kind::Integer) {
    return std::to_string(value.integer);
  }
  if (value.kind != Kind::Text) {
    refuse("a number of bytes or text such as \"64KiB\"", value);
  }
  return value.text;
}

template <class T>
std::vector<T> Arguments::rest(T (Arguments::*one)()) {
  std::vector<T> all;
  if (more() && values_[next_].kind == Kind::List) {
    Arguments items(setter_, values_[next_++].items);
    while (items.more()) {
      all.push_back((items.*one)());
    }
    return all;
  }
  while (more()) {
    all.push_back((this->*one)());
  }
  return all;
}

std::vector<std::string> Arguments::texts() {
  return rest(&Arguments::text);
}

std::vector<double> Arguments::numbers() {
  return rest(&Arguments::number);
}

std::vector<std::int64_t> Arguments::integers() {
  return rest(&Arguments::integer);
}

TensorLocationSettings Arguments::location() {
  const OptionValue& value = take("TensorLocationSettings()");
  const OptionValue call = value.kind == Kind::Text ? parseValue(value.text) : value;
  if (call.kind != Kind::Call || call.text != "TensorLocationSettings" || !call.items.empty()) {
    refuse("TensorLocationSettings().useOnChipStorage(false)", value);
  }
  TensorLocationSettings settings;
  for (const OptionValue& setter : call.then) {
    Arguments arguments(setter.text, setter.items);
    if (setter.text == "useOnChipStorage") {
      settings.useOnChipStorage(arguments.none() ? std::nullopt
                                                 : std::optional(arguments.boolean()));
    } else if (setter.text == "minElementsForOffChip") {
      settings.minElementsForOffChip(arguments.integer());
    } else if (setter.text == "useReplicatedTensorSharding") {
      settings.useReplicatedTensorSharding(arguments.boolean());
    } else if (setter.text == "minElementsForReplicatedTensorSharding") {
      settings.minElementsForReplicatedTensorSharding(arguments.integer());
    } else if (setter.text == "useIOTilesToLoad") {
      settings.useIOTilesToLoad(arguments.boolean());
    } else if (setter.text == "useIOTilesToStore") {
      settings.useIOTilesToStore(arguments.boolean());
    } else {
      raise<InvalidArgument>("TensorLocationSettings has no '{}'", setter.text);
    }
    arguments.finish();
  }
  return settings;
}

Policy Arguments::policy() {
  constexpr std::string_view kExpected = "Default or Policy([\"conv2d\"], [\"bmm\"], [], [])";
  const OptionValue& value = take(kExpected);
  if (value.text == "Default" || value.text.ends_with(".Default")) {
    return Policy::standard();
  }
  if (value.kind != Kind::Call || value.text != "Policy" || !value.then.empty()) {
    refuse(kExpected, value);
  }
  Policy policy;
  Arguments lists("Policy", value.items);
  for (std::vector<std::string>* list :
       {&policy.fp16, &policy.fp32, &policy.promote, &policy.demote}) {
    if (lists.more() && lists.values_[lists.next_].kind != Kind::List) {
      refuse(kExpected, value);
    }
    *list = lists.texts();
  }
  if (lists.more()) {
    const std::string half = lists.text();
    const std::optional<DType> dtype = parseDType(half);
    if (!dtype) {
      raise<InvalidArgument>("Policy: expected f16 or bf16, got {}", half);
    }
    policy.half = *dtype;
  }
  lists.finish();
  return policy;
}

Strategy Arguments::strategy() {
  return toStrategy(take("a strategy such as PipelinedExecution(\"B1\", \"B2\")"));
}

bool Arguments::none() {
  const bool found = more() && values_[next_].kind == Kind::None;
  next_ += found ? 1 : 0;
  return found;
}

std::size_t Arguments::nameIn(std::string_view type, std::span<const std::string_view> names) {
  const std::string expected = fmt::format("{}.{{{}}}", type, fmt::join(names, ", "));
  const OptionValue& value = take(expected);
  std::string_view text = value.text;
  if (const std::size_t dot = text.rfind('.'); dot != std::string_view::npos) {
    const std::string_view before = text.substr(0, dot);
    if (before != type && !before.ends_with("." + std::string(type))) {
      refuse(expected, value);
    }
    text.remove_prefix(dot + 1);
  }
  // `none` is a word of its own, and a value of some enumerations.
  const auto found =
      value.kind == Kind::None ? std::ranges::find(names, "None") : std::ranges::find(names, text);
  const bool named =
      value.kind == Kind::Name || value.kind == Kind::Text || value.kind == Kind::None;
  if (!named || found == names.end()) {
    refuse(expected, value);
  }
  return static_cast<std::size_t>(found - names.begin());
}

void Arguments::finish() const {
  if (more()) {
    raise<InvalidArgument>("{}: takes {} arguments, got {}", setter_, next_, values_.size());
  }
}

}  // namespace sluice::detail
