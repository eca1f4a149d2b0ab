// Freezable: what all groups of Options have in common.
#pragma once

#pragma GCC visibility push(default)

namespace sluice {

/// Settings that can be frozen. A copy is not frozen; assigning to a frozen object throws.
class Freezable {
 public:
  bool isFrozen() const { return frozen_; }

 protected:
  Freezable() = default;
  ~Freezable() = default;
  Freezable(const Freezable& /*other*/) {}
  Freezable& operator=(const Freezable& other);
  void requireUnfrozen() const;
  void setFrozen() const { frozen_ = true; }

 private:
  // Code that reads options freezes them first, so that a later change cannot go unnoticed.
  mutable bool frozen_ = false;
};

}  // namespace sluice

#pragma GCC visibility pop
