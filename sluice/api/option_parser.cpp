// The text of options files: calls, numbers, quoted text, words, lists. Python's spelling of True,
// False, None and text in single quotes is accepted too, so that files written for PopTorch read.
#include <cctype>
#include <charconv>

#include "sluice/api/option_value.h"
#include "sluice/base/error.h"

namespace sluice::detail {
namespace {

using Kind = OptionValue::Kind;

constexpr int kMaxNesting = 16;  // deeper is no option, and would only use up the stack

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  bool atEnd() {
    skipSpace();
    return at_ == text_.size() || text_[at_] == '#';
  }

  OptionValue call() {
    OptionValue value;
    value.kind = Kind::Call;
    value.text = path();
    value.items = list('(', ')');
    return value;
  }

  OptionValue value() {
    const char c = peek();
    if (c == '"' || c == '\'') {
      return quoted(c);
    }
    if (c == '[') {
      OptionValue result;
      result.items = list('[', ']');
      result.kind = Kind::List;
      return result;
    }
    if (startsWord(c)) {
      return named();
    }
    return number();
  }

  void expectEnd() {
    if (!atEnd()) {
      fail("the end of the line or a comment");
    }
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    raise<InvalidArgument>("expected {} at '{}'", expected, text_.substr(at_, 24));
  }

  void skipSpace() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }

  char peek() {
    skipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    const bool found = peek() == c;
    at_ += found ? 1 : 0;
    return found;
  }

  static bool startsWord(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  std::string word() {
    if (!startsWord(peek())) {
      fail("a name");
    }
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           (startsWord(text_[at_]) || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)) {
      ++at_;
    }
    return std::string(text_.substr(start, at_ - start));
  }

  /// "training.gradientAccumulation", "OutputMode.All"; C++'s "::" counts as a dot.
  std::string path() {
    std::string result = word();
    while (separator()) {
      result += "." + word();
    }
    return result;
  }

  bool separator() {
    if (peek() == ':' && at_ + 1 < text_.size() && text_[at_ + 1] == ':') {
      at_ += 2;
      return true;
    }
    return accept('.');
  }

  std::vector<OptionValue> list(char open, char close) {
    if (!accept(open)) {
      fail(open == '(' ? "'('" : "'['");
    }
    if (++depth_ > kMaxNesting) {
      fail("fewer nested brackets");
    }
    std::vector<OptionValue> items;
    while (!accept(close)) {
      if (!items.empty() && !accept(',')) {
        fail(close == ')' ? "',' or ')'" : "',' or ']'");
      }
      if (!items.empty() && accept(close)) {  // a comma at the end
        break;
      }
      items.push_back(value());
    }
    --depth_;
    return items;
  }

  OptionValue quoted(char quote) {
    OptionValue result;
    result.kind = Kind::Text;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      }
      result.text += text_[at_];
    }
    if (at_ == text_.size()) {
      fail("a closing quote");
    }
    ++at_;
    return result;
  }

  OptionValue named() {
    OptionValue result;
    result.text = path();
    if (result.text == "true" || result.text == "True" || result.text == "false" ||
        result.text == "False") {
      result.kind = Kind::Bool;
      result.boolean = result.text == "true" || result.text == "True";
    } else if (result.text == "none" || result.text == "None") {
      result.kind = Kind::None;
    } else if (peek() == '(') {
      result.kind = Kind::Call;
      result.items = list('(', ')');
      result.text = lastName(result.text);
      while (separator()) {
        result.then.push_back(chained());
      }
    } else {
      result.kind = Kind::Name;
    }
    return result;
  }

  /// Without the module: "poptorch.Stage" is Stage. A function of a class keeps its class.
  static std::string lastName(const std::string& path) {
    std::size_t dot = path.rfind('.');
    if (dot != std::string::npos && dot > 0 && path.substr(dot + 1) == "automatic") {
      dot = path.rfind('.', dot - 1);
    }
    return path.substr(dot + 1);
  }

  OptionValue chained() {
    OptionValue result;
    result.kind = Kind::Call;
    result.text = word();
    result.items = list('(', ')');
    return result;
  }

  OptionValue number() {
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    OptionValue result;
    double real = 0;
    const auto asReal = std::from_chars(begin, end, real);
    const auto asInteger = std::from_chars(begin, end, result.integer);
    if (asReal.ec != std::errc()) {
      fail("a value");
    }
    // "12" is a whole number, "12.5" is read further as a real one.
    const bool whole = asInteger.ec == std::errc() && asInteger.ptr == asReal.ptr;
    result.kind = whole ? Kind::Integer : Kind::Real;
    result.real = whole ? 0 : real;
    at_ += static_cast<std::size_t>(asReal.ptr - begin);
    return result;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

OptionValue parseValue(std::string_view text) {
  Parser parser(text);
  OptionValue value = parser.value();
  parser.expectEnd();
  return value;
}

std::optional<OptionValue> parseCall(std::string_view line) {
  Parser parser(line);
  if (parser.atEnd()) {
    return std::nullopt;
  }
  OptionValue call = parser.call();
  parser.expectEnd();
  return call;
}

}  // namespace sluice::detail
