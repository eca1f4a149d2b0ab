// Autocast: while it is on, functions get their operands in the types that the options' policy
// prescribes. It is off by default. A scope in the code, a wrapped function, a layer
// (Module::autocast) or the model can set it; the innermost setting counts.
//
//   net.autocast();                                  // all of it ...
//   net.conv2.autocast(false);                       // ... but for this layer
//   { const nn::Autocast off(false); x = relu(x); }  // ... and for these lines
#pragma once

#include <utility>

#pragma GCC visibility push(default)

namespace sluice::nn {

class Tracer;

/// Switches autocast on or off for the ops that are traced during its lifetime.
class [[nodiscard]] Autocast {
 public:
  /// Throws InvalidArgument outside a trace.
  [[nodiscard]] explicit Autocast(bool enabled = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  Tracer& tracer_;
  bool outer_;
};

/// A callable that runs with autocast on or off: `auto f = autocasted([](Tensor x) { ... });`.
template <class F>
[[nodiscard]] auto autocasted(F f, bool enabled = true) {
  return [f = std::move(f), enabled]<class... Args>(Args&&... args) mutable -> decltype(auto) {
    const Autocast scope(enabled);
    return f(std::forward<Args>(args)...);
  };
}

}  // namespace sluice::nn

#pragma GCC visibility pop
