// Quotes text as in options files. Private to the module.
#pragma once

#include <string>
#include <string_view>

namespace sluice::parallel {

/// The text in the form of options files. Not `quoted`, which std has for strings, too.
inline std::string inQuotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result + "\"";
}

}  // namespace sluice::parallel
