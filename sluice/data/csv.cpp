#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/base/host_limits.h"
#include "sluice/base/input_file.h"
#include "sluice/data/files.h"

namespace sluice::data {
namespace {

/// Cuts text into lines of fields.
class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name, char delimiter)
      : text_(text), name_(name), delimiter_(delimiter) {}

  /// Number of the line that was read last, from 1.
  std::int64_t line() const { return line_; }

  /// False at the end. Empty lines are skipped.
  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (at_ < text_.size() && fields.empty()) {
      line_ = following_;
      readLine(fields);
      if (fields.size() == 1 && fields[0].empty()) {
        fields.clear();
      }
    }
    return !fields.empty();
  }

 private:
  void readLine(std::vector<std::string>& fields) {
    for (;;) {
      fields.push_back(readField());
      if (at_ < text_.size() && text_[at_] == delimiter_) {
        ++at_;
        continue;
      }
      at_ += text_.substr(at_).starts_with("\r\n") ? 2 : at_ < text_.size() ? 1 : 0;
      ++following_;
      return;
    }
  }
  bool atEndOfField() const {
    return at_ >= text_.size() || text_[at_] == delimiter_ || text_[at_] == '\n' ||
           text_.substr(at_).starts_with("\r\n");
  }
  std::string readField() {
    if (at_ < text_.size() && text_[at_] == '"') {
      return readQuoted();
    }
    const std::size_t begin = at_;
    while (!atEndOfField()) {
      if (text_[at_] == '\r') {
        raise<FileError>(
            "'{}', line {}: a carriage return without a line feed: lines must end in \\n or "
            "\\r\\n, "
            "convert the file",
            name_,
            line_);
      }
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string readQuoted() {
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      following_ += text_[at_] == '\n' ? 1 : 0;
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (text_.substr(at_ + 1).starts_with('"')) {
        field += text_[at_++];
      } else {
        ++at_;
        if (!atEndOfField()) {
          raise<FileError>("'{}', line {}: text follows the end of a quoted field", name_, line_);
        }
        return field;
      }
    }
    raise<FileError>("'{}', line {}: a quoted field has no end", name_, line_);
  }

  std::string_view text_;
  const std::string& name_;
  char delimiter_;
  std::size_t at_ = 0;
  std::int64_t line_ = 0;
  std::int64_t following_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// Integers are read as such: not every one of 64 bits is a double.
template <class T>
bool parseNumber(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    value = text == "1" || text == "true" || text == "True";
    return value || text == "0" || text == "false" || text == "False";
  } else if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  } else {
    text.remove_prefix(text.starts_with('+') ? 1 : 0);
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    value = T(static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(number));
    return error == std::errc() && end == text.data() + text.size();
  }
}

template <class T>
HostTensor parseRows(CsvReader& reader,
                     std::vector<std::string> fields,
                     std::size_t columns,
                     const std::string& name) {
  // A vector of bool has no storage that could be copied.
  using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;
  std::vector<Stored> values;
  for (bool more = !fields.empty() || reader.next(fields); more; more = reader.next(fields)) {
    if (fields.size() != columns) {
      raise<FileError>(
          "'{}', line {}: expected {} fields, got {}", name, reader.line(), columns, fields.size());
    }
    for (std::size_t c = 0; c < columns; ++c) {
      T value{};
      if (!parseNumber(trimmed(fields[c]), value)) {
        raise<FileError>("'{}', line {}, column {}: '{}' is no {} number",
                         name,
                         reader.line(),
                         c + 1,
                         fields[c].substr(0, 40),
                         sluice::name(kDTypeOf<T>));
      }
      values.push_back(static_cast<Stored>(value));
    }
  }
  const auto rows = static_cast<std::int64_t>(values.size() / std::max<std::size_t>(columns, 1));
  HostTensor table(kDTypeOf<T>, Shape{rows, static_cast<std::int64_t>(columns)});
  if (!values.empty()) {
    std::memcpy(table.bytes(), values.data(), table.byteCount());
  }
  return table;
}

}  // namespace

CsvTable parseCsv(std::string_view text, const std::string& name, const CsvOptions& options) {
  CsvReader reader(text, name, options.delimiter);
  std::vector<std::string> fields;
  if (!reader.next(fields)) {
    raise<FileError>("'{}' has no line", name);
  }
  CsvTable table;
  const std::size_t columns = fields.size();
  std::unordered_set<std::string> seen;
  for (std::size_t c = 0; c < columns; ++c) {
    table.names.push_back(options.header ? std::string(trimmed(fields[c])) : std::to_string(c));
    if (!seen.insert(table.names.back()).second) {
      raise<FileError>(
          "'{}', line {}: two columns are called '{}'; rename one, or read the file "
          "with CsvOptions::header = false",
          name,
          reader.line(),
          table.names.back());
    }
  }
  if (options.header) {
    fields.clear();
  }
  table.values = dispatch(options.dtype, [&]<class T>(T) {
    return parseRows<T>(reader, std::move(fields), columns, name);
  });
  return table;
}

CsvTable readCsv(const std::string& path, const CsvOptions& options) {
  return orOutOfMemory(fmt::format("the table of '{}'", path),
                       [&] { return parseCsv(readFile(path), path, options); });
}

HostTensor CsvTable::columns(const std::vector<std::string>& wanted) const {
  const std::int64_t rows = values.shape()[0];
  const std::size_t size = byteSize(values.dtype());
  HostTensor part(values.dtype(), Shape{rows, static_cast<std::int64_t>(wanted.size())});
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const auto found = std::ranges::find(names, wanted[w]);
    if (found == names.end()) {
      raise<InvalidArgument>("the table has no column '{}'", wanted[w]);
    }
    const auto column = static_cast<std::size_t>(found - names.begin());
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      std::memcpy(part.bytes() + (r * wanted.size() + w) * size,
                  values.bytes() + (r * names.size() + column) * size,
                  size);
    }
  }
  return part;
}

HostTensor CsvTable::column(const std::string& name, DType dtype) const {
  return cast(columns({name}).reshaped(Shape{values.shape()[0]}), dtype);
}

}  // namespace sluice::data
