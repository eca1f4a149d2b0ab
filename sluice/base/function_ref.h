// A non-owning reference to a callable, for parameters that are called before the function returns.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
           std::is_invocable_r_v<R, F&, Args...>)
      // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload): a view
      FunctionRef(F&& callable)
      : object_(std::addressof(callable)), call_([](const void* object, Args... args) -> R {
          // The callable's own constness is in F.
          auto* target = static_cast<std::remove_reference_t<F>*>(
              const_cast<void*>(object));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          return (*target)(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  const void* object_;
  R (*call_)(const void*, Args...);
};

}  // namespace sluice
