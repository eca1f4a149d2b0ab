// Pending: the results of a step that runs in a thread of its own (Model::runAsync).
#pragma once

#include <exception>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice {

class Step;

class Pending {
 public:
  Pending(std::shared_future<void> ended, std::shared_ptr<Step> step)
      : ended_(std::move(ended)), step_(std::move(step)) {}
  /// A step that failed before it began.
  explicit Pending(std::exception_ptr failure);
  Pending(Pending&&) = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  Pending& operator=(Pending&&) = delete;
  /// Waits for the end of the step.
  ~Pending();

  /// Whether get() would return at once.
  bool isReady() const;
  /// Waits, then returns what Model::run would have returned or throws what it would have thrown.
  /// Throws InvalidArgument if it is called a second time.
  std::vector<HostTensor> get();

 private:
  std::shared_future<void> ended_;  // not valid once the results were taken
  std::shared_ptr<Step> step_;
};

}  // namespace sluice

#pragma GCC visibility pop
