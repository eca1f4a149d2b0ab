// StateLink: what a tree of modules, or a Builder, shares with the models made from it: where its
// state is kept, and whether the tree or Builder itself still exists. Models keep the link, so they
// may outlive the tree. Any thread may use it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#pragma GCC visibility push(default)

namespace sluice::nn {

class StateStore;

class StateLink {
 public:
  using StorePtr = std::shared_ptr<StateStore>;

  /// The store; null if no model holds the state.
  StorePtr store() const {
    const std::scoped_lock lock(mutex_);
    return store_;
  }
  void setStore(StorePtr store) {
    const std::scoped_lock lock(mutex_);
    store_.swap(store);  // the old store is destroyed after the lock is released
  }
  /// The store. If there is none, `make` makes it first.
  StorePtr storeOr(const std::function<StorePtr()>& make) {
    const std::scoped_lock lock(mutex_);
    if (store_ == nullptr) {
      store_ = make();
    }
    return store_;
  }

  /// Whether the tree or Builder still exists.
  bool isAlive() const {
    const std::scoped_lock lock(mutex_);
    return alive_;
  }
  /// Called when the tree or Builder is destroyed. Its models continue to use the store.
  void end() {
    const std::scoped_lock lock(mutex_);
    alive_ = false;
  }

 private:
  mutable std::mutex mutex_;  // guards the members below
  StorePtr store_;
  bool alive_ = true;
};

}  // namespace sluice::nn

#pragma GCC visibility pop
