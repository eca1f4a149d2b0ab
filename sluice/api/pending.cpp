#include <chrono>

#include "sluice/api/inputs.h"
#include "sluice/api/step.h"
#include "sluice/base/error.h"

namespace sluice {

Pending::Pending(std::exception_ptr failure) {
  std::promise<void> promise;
  promise.set_exception(std::move(failure));
  ended_ = promise.get_future().share();
}

Pending::~Pending() {
  if (ended_.valid()) {
    ended_.wait();
  }
}

bool Pending::isReady() const {
  return !ended_.valid() || (result_ != nullptr && result_->ended.load()) ||
         ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::vector<HostTensor> Pending::get() {
  if (!ended_.valid()) {
    raise<InvalidArgument>("the results of this step have been taken already");
  }
  const std::shared_future<void> ended = std::move(ended_);
  ended_ = {};
  ended.get();
  return std::move(result_->outputs);
}

}  // namespace sluice
