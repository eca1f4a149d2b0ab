// Text as options files write it. Private to the module.
#pragma once

#include <string>
#include <string_view>

namespace sluice::parallel {

/// As options files write text.
inline std::string quoted(std::string_view text) {
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
