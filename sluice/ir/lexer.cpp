#include "sluice/ir/lexer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ir/number_text.h"

namespace sluice::ir {
namespace {

// Own classification: the functions of <cctype> depend on the locale.
bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// How much of an offending token a message quotes.
constexpr std::size_t kQuoted = 40;

std::string describe(const Token& token) {
  if (token.kind == Token::Kind::End) {
    return "the end of the text";
  }
  std::string quoted;
  for (const char c : token.source.substr(0, kQuoted)) {
    quoted += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  const std::string_view more = token.source.size() > kQuoted ? "..." : "";
  return fmt::format("'{}{}{}'", token.kind == Token::Kind::Value ? "%" : "", quoted, more);
}

}  // namespace

Token Lexer::take() {
  Token token = std::move(token_);
  advance();
  return token;
}

void Lexer::failExpected(std::string_view wanted) const {
  fail(token_.offset, fmt::format("expected {}, found {}", wanted, describe(token_)));
}

void Lexer::fail(std::size_t offset, std::string message) const {
  InvalidArgument error(std::move(message));
  error.at(place(offset));
  throw InvalidArgument(std::move(error));
}

std::string Lexer::place(std::size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  const auto line = 1 + std::ranges::count(before, '\n');
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return fmt::format("line {}, column {}", line, column);
}

void Lexer::skipBlanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skipBlanks();
  const std::size_t start = at_;
  token_ = {.offset = start};
  if (at_ == text_.size()) {
    return;
  }
  const char first = text_[at_++];
  if (isLetter(first)) {
    token_.kind = Token::Kind::Word;
    while (isLetter(current()) || isDigit(current()) || current() == '.') {
      ++at_;
    }
  } else if (isDigit(first) || first == '-') {
    // Whatever hangs together; whoever takes the number says what is wrong with it.
    token_.kind = Token::Kind::Number;
    while (isLetter(current()) || isDigit(current()) || current() == '.' ||
           ((current() == '+' || current() == '-') &&
            (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))) {
      ++at_;
    }
  } else if (first == '%') {
    token_.kind = Token::Kind::Value;
    while (isDigit(current())) {
      ++at_;
    }
    token_.source = text_.substr(start + 1, at_ - start - 1);
    return;
  } else if (first == '"') {
    token_.kind = Token::Kind::Text;
    readText();
  } else if (std::string_view("{}()[]<>,:=@").find(first) != std::string_view::npos) {
    token_.kind = Token::Kind::Mark;
  } else {
    fail(start,
         fmt::format("unexpected character 0x{:02x}{}",
                     static_cast<unsigned char>(first),
                     first > ' ' && first < 0x7f ? fmt::format(" ('{}')", first) : ""));
  }
  token_.source = text_.substr(start, at_ - start);
}

void Lexer::readText() {
  const std::size_t start = at_ - 1;
  while (current() != '"') {
    if (at_ == text_.size() || current() == '\n') {
      fail(start, "expected '\"' at the end of this string");
    }
    const char c = text_[at_++];
    token_.text += c == '\\' ? readEscape(at_ - 1) : c;
  }
  ++at_;
}

char Lexer::readEscape(std::size_t start) {
  const char c = current();
  ++at_;
  switch (c) {
    case '"':
    case '\\':
      return c;
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'x':
      if (at_ + 2 <= text_.size()) {
        const std::string digits = "0x" + std::string(text_.substr(at_, 2));
        if (const auto byte = parseHex(digits)) {
          at_ += 2;
          return static_cast<char>(*byte);
        }
      }
      break;
    default:
      break;
  }
  fail(start, R"(unknown escape; expected \", \\, \n, \t, \r or \x and two hexadecimal digits)");
}

}  // namespace sluice::ir
