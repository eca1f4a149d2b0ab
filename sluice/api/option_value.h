// OptionValue: an argument of a setter as it stands in an options file or in JSON, before its type
// is checked. Arguments checks the types of one call's values and hands them to the setter.
//   threads(2)   outputMode(OutputMode.EveryN, 4)   setExecutionStrategy(ShardedExecution("A"))
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/api/option_groups.h"
#include "sluice/api/option_types.h"

namespace sluice::detail {

struct OptionValue {
  enum class Kind : std::uint8_t { None, Bool, Integer, Real, Text, Name, List, Call };

  Kind kind = Kind::None;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;                ///< for Text, Name ("OutputMode.All") and Call
  std::vector<OptionValue> items;  ///< the items of List, the arguments of Call
  std::vector<OptionValue> then;   ///< calls chained to a Call: Stage("A").device(1)

  /// The value as a file would have it, for messages.
  std::string str() const;
};

/// Parses one call, "threads(2)", optionally followed by a comment; nullopt for a line without a
/// call. Throws InvalidArgument, whose message says what was expected.
std::optional<OptionValue> parseCall(std::string_view line);
/// Parses one value: true, 4, "text", OutputMode.All, ["A", "B"], Stage("A").device(1). Throws
/// InvalidArgument.
OptionValue parseValue(std::string_view text);
/// Converts PipelinedExecution(...), SerialPhasedExecution(...) and so on. Throws InvalidArgument.
Strategy toStrategy(const OptionValue& value);

/// The arguments of one setter, taken in order. Each function throws InvalidArgument if the next
/// argument is missing or has another type.
class Arguments {
 public:
  Arguments(std::string_view setter, std::span<const OptionValue> values)
      : setter_(setter), values_(values) {}

  bool more() const { return next_ < values_.size(); }
  /// Takes all remaining arguments, whatever their types.
  std::vector<OptionValue> remaining();
  bool boolean();
  std::int64_t integer();
  double number();
  std::string text();
  /// A size: a number of bytes, or text such as "64KiB".
  std::string size();
  /// All remaining arguments, or the items of one list.
  std::vector<std::string> texts();
  std::vector<double> numbers();
  std::vector<std::int64_t> integers();
  Strategy strategy();
  TensorLocationSettings location();
  /// Default, or Policy(fp16, fp32, promote, demote, half): up to four lists of names, and a type.
  Policy policy();
  /// If the next argument is `none`, takes it and returns true.
  bool none();
  template <class E>
  E enumerator() {
    const auto index = nameIn(EnumText<E>::kType, EnumText<E>::kNames);
    return static_cast<E>(index);
  }
  /// Throws InvalidArgument if arguments remain.
  void finish() const;

 private:
  template <class T>
  std::vector<T> rest(T (Arguments::*one)());
  const OptionValue& take(std::string_view expected);
  [[noreturn]] void refuse(std::string_view expected, const OptionValue& found) const;
  std::size_t nameIn(std::string_view type, std::span<const std::string_view> names);

  std::string_view setter_;
  std::span<const OptionValue> values_;
  std::size_t next_ = 0;
};

}  // namespace sluice::detail
