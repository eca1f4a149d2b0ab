// Scopes of C++ as context managers: the object makes its scope in __enter__ and ends it in
// __exit__.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "python/core/bindings.h"
#include "sluice/base/error.h"

namespace sluice::python {

template <class T>
class Scope {
 public:
  using Make = std::function<std::unique_ptr<T>()>;

  explicit Scope(Make make) : make_(std::move(make)) {}

  void enter() {
    if (scope_) {
      raise<InvalidArgument>("this scope is open already");
    }
    scope_ = make_();
  }
  void exit() { scope_.reset(); }

 private:
  Make make_;
  std::unique_ptr<T> scope_;
};

/// Binds Scope<T> under this name; the constructor comes from `factory`.
template <class T, class Factory, class... Args>
void bindScope(py::module_& m, const char* name, const char* doc, Factory factory, Args... args) {
  py::class_<Scope<T>>(m, name, doc)
      .def(py::init(factory), args...)
      .def(
          "__enter__",
          [](Scope<T>& self) -> Scope<T>& {
            self.enter();
            return self;
          },
          py::return_value_policy::reference)
      .def("__exit__", [](Scope<T>& self, const py::args& /*error*/) { self.exit(); });
}

}  // namespace sluice::python
