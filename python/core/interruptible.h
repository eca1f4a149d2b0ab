// Work that Ctrl-C can end. Python handles signals in its main thread only, and not while that
// thread is in C++. So that thread looks for them whenever it waits for the library.
#pragma once

#include "sluice/base/function_ref.h"

namespace sluice::python {

/// Runs `work` without the interpreter's lock. If a signal handler of Python raises an exception
/// meanwhile, calls `cancel` until the work has ended, and throws that exception. In other threads
/// than the main one it only runs the work.
void runInterruptibly(FunctionRef<void()> work, FunctionRef<void()> cancel);

}  // namespace sluice::python
