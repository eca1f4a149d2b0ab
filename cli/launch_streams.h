// Children of the launcher and of its ranks: how they are started, watched and read.
#pragma once

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "cli/launch_lines.h"

namespace sluice::cli {

/// A pipe whose ends do not stay open in the child.
struct Pipe {
  Pipe();
  int read = -1;
  int write = -1;
};

/// What exec wants; null follows the last one.
std::vector<char*> pointersTo(std::vector<std::string>& arguments);
/// Writes at once.
void print(std::FILE* to, const std::string& text);
/// Waits for a child; its exit code, or 128 and the signal that ended it.
int awaitExit(pid_t process);

/// Gives the lines of a pipe to `put` until the last writer has closed it, or until `writer` has
/// ended and nothing more is there: what it has started may hold the pipe for ever. Calls `idle`
/// now and then.
void forEachLine(int from,
                 pid_t writer,
                 LineFilter filter,
                 const std::function<void(std::string)>& put,
                 const std::function<void()>& idle);
/// The same, to a file.
void copyLines(int from, pid_t writer, std::FILE* to, LineFilter filter);

}  // namespace sluice::cli
