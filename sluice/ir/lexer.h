// Tokens of the text form, each with its place for error messages. Private to the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::ir {

struct Token {
  enum class Kind : std::uint8_t { End, Word, Text, Number, Value, Mark };
  Kind kind = Kind::End;
  std::string_view source = {};  ///< as written; a Value is without the '%'
  std::string text = {};         ///< only for Text: without quotes and escapes
  std::size_t offset = 0;

  bool isWord(std::string_view word) const { return kind == Kind::Word && source == word; }
  bool isMark(char mark) const { return kind == Kind::Mark && source[0] == mark; }
};

/// Splits a text into tokens with one token of look-ahead; the text must outlive the lexer. Blanks
/// and comments ("//" to the end of the line) separate tokens and have no other meaning.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  const Token& peek() const { return token_; }
  /// Returns the current token and reads the next one.
  Token take();

  /// Throws InvalidArgument at the current token: "expected ..., found ...".
  [[noreturn]] void failExpected(std::string_view wanted) const;
  /// Throws InvalidArgument with the line and column of `offset`.
  [[noreturn]] void fail(std::size_t offset, std::string message) const;
  /// "line 3, column 14".
  std::string place(std::size_t offset) const;

 private:
  void advance();
  void skipBlanks();
  void readText();
  char readEscape(std::size_t start);
  char current() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  std::string_view text_;
  std::size_t at_ = 0;
  Token token_;
};

}  // namespace sluice::ir
