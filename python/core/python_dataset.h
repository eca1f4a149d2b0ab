// The elements of a Python iterator as a dataset, read by threads of the library.
#pragma once

#include <functional>

#include "python/core/bindings.h"
#include "sluice/data/dataset.h"

namespace sluice::python {

class PythonDataset : public data::IterableDataset {
 public:
  /// `open` returns a new iterator, whose elements are lists of HostTensors.
  explicit PythonDataset(const py::function& open) : open_(keep(open)) {}

  /// Throws PythonError for an exception of the iterator. It may not be called while the thread
  /// holds the interpreter's lock.
  std::optional<data::Sample> next() override;
  void restart() override;

 private:
  std::shared_ptr<PyObject> open_;
  std::shared_ptr<PyObject> iterator_;  // null: not begun
  std::int64_t count_ = 0;
};

/// Ends an object whose end may wait for threads that read datasets, without the interpreter's
/// lock. The garbage collector may run in such a thread, which cannot wait for itself: there
/// another thread does it.
void endOutsideOfReaders(std::function<void()> end);

}  // namespace sluice::python
