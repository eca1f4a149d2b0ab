// Choices as text, one line each: implementation, scratch bytes, config, inputs, outputs; strings
// as hexadecimal digits after an x, a layout as kind:bytes:blob.
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/devices/cpu/kernels/body_plan.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;

std::string hexOf(std::string_view bytes) {
  std::string text = "x";
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(c));
  }
  return text;
}

[[noreturn]] void refuse(std::string_view text) {
  raise<Unsupported>("the choices of a body's kernels cannot be read at '{}': compile again",
                     text.substr(0, 20));
}

/// Takes words off the front of a text.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  bool atEnd() const { return text_.empty(); }

  std::string_view word(char end) {
    const std::size_t at = text_.find(end);
    if (at == std::string_view::npos) {
      refuse(text_);
    }
    const std::string_view found = text_.substr(0, at);
    text_.remove_prefix(at + 1);
    return found;
  }

  std::size_t number(char end) { return parsed(word(end), 10); }

  std::string bytes(char end) {
    std::string_view hex = word(end);
    if (!hex.starts_with('x') || hex.size() % 2 == 0) {
      refuse(hex);
    }
    std::string result;
    for (hex.remove_prefix(1); !hex.empty(); hex.remove_prefix(2)) {
      result += static_cast<char>(parsed(hex.substr(0, 2), 16));
    }
    return result;
  }

  std::vector<Layout> layouts() {
    std::vector<Layout> list;
    for (std::size_t left = number(' '); left > 0; --left) {
      const std::size_t kind = number(':');
      const std::size_t bytes = number(':');
      if (kind > static_cast<std::size_t>(Layout::Kind::Opaque)) {
        refuse(text_);
      }
      list.push_back({static_cast<Layout::Kind>(kind), this->bytes(' '), bytes});
    }
    return list;
  }

 private:
  static std::size_t parsed(std::string_view digits, int base) {
    std::size_t value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      refuse(digits);
    }
    return value;
  }

  std::string_view text_;
};

void write(std::string& text, const std::vector<Layout>& layouts) {
  text += fmt::format("{} ", layouts.size());
  for (const Layout& layout : layouts) {
    text += fmt::format(
        "{}:{}:{} ", static_cast<int>(layout.kind), layout.opaqueBytes, hexOf(layout.blob));
  }
}

}  // namespace

std::string choicesText(std::span<const Choice> choices) {
  std::string text;
  for (const Choice& choice : choices) {
    text +=
        fmt::format("{} {} {} ", choice.implementation, choice.scratchBytes, hexOf(choice.config));
    write(text, choice.inputs);
    write(text, choice.outputs);
    text += ';';
  }
  return text;
}

std::vector<Choice> parseChoices(std::string_view text) {
  std::vector<Choice> choices;
  Words words(text);
  while (!words.atEnd()) {
    Choice choice{.implementation = std::string(words.word(' '))};
    choice.scratchBytes = words.number(' ');
    choice.config = words.bytes(' ');
    choice.inputs = words.layouts();
    choice.outputs = words.layouts();
    if (!words.word(';').empty()) {
      refuse(text);
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace sluice::devices::cpu
