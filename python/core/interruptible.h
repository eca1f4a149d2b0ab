// Work that Ctrl-C can end. Python handles signals in its main thread only, and not while that
// thread is in C++. So the main thread hands the work to another one, waits, and looks for signals
// meanwhile.
#pragma once

#include <functional>

namespace sluice::python {

/// Runs `work` without the interpreter's lock and rethrows what it throws. If a signal handler of
/// Python raises an exception meanwhile, calls `cancel`, waits for the end of the work and throws
/// that exception. In other threads than the main one it only runs the work.
void runInterruptibly(const std::function<void()>& work, const std::function<void()>& cancel);

}  // namespace sluice::python
