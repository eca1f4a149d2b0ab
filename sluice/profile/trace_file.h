// Trace files, *.slt: a Trace as compact bytes, the same on every machine. A header has a magic
// text, the version of the format, the number of bytes that follow and their checksum. What follows
// are numbers of variable length; the begin of a task is counted from the end of the one before it
// in its lane, so that a task takes about five bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sluice/profile/trace.h"

namespace sluice {
class ByteWriter;
}

namespace sluice::profile {

std::string traceBytes(const Trace& trace);
/// What follows the header, behind a header that fits it.
std::string sealedTrace(std::string_view body);
/// Throws FileError, which names the file, for bytes that are not a whole, sound trace of this
/// version. What it returns can be read without further checks.
Trace parseTrace(std::string_view bytes, std::string_view file);

/// The times of a step, as they are in a file, counted from `origin`: for each replica and lane
/// their number, then for each task the number of tasks left out before it, its begin after the end
/// of the one before, and its length.
void writeTimes(ByteWriter& out,
                const Trace& trace,
                const Trace::Step& step,
                std::int64_t origin = 0);

/// Writes the file whole or not at all. Throws FileError.
void writeTrace(const std::filesystem::path& path, const Trace& trace);
Trace readTrace(const std::filesystem::path& path);

}  // namespace sluice::profile
