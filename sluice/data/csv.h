// Reads tables of numbers from comma-separated text (RFC 4180: fields may be quoted, lines end in
// LF or CRLF). Errors name the file, the line and the column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::data {

struct CsvOptions {
  char delimiter = ',';
  bool header = true;  ///< the first line names the columns
  DType dtype = DType::F32;
};

struct CsvTable {
  std::vector<std::string> names;  ///< names of the columns; "0", "1", ... without a header
  HostTensor values;               ///< [rows, columns]

  /// These columns in this order, [rows, n]. Throws InvalidArgument for an unknown name.
  HostTensor columns(const std::vector<std::string>& wanted) const;
  /// One column, [rows], converted to another type, for labels for instance.
  HostTensor column(const std::string& name, DType dtype) const;
};

/// Throws FileError for a file that cannot be read, for a line with another number of fields than
/// the first, and for a field that is not a number of the type.
CsvTable readCsv(const std::string& path, const CsvOptions& options = {});
/// Parses the contents of a file; `name` is for messages.
CsvTable parseCsv(std::string_view text, const std::string& name, const CsvOptions& options = {});

}  // namespace sluice::data

#pragma GCC visibility pop
