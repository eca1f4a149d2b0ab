// A report of trace files, as `sluice report` makes it.
#pragma once

#include <string>
#include <vector>

namespace sluice::cli {

/// Throws FileError if one cannot be read.
std::string reportOfFiles(const std::vector<std::string>& files, const std::string& format);

}  // namespace sluice::cli
