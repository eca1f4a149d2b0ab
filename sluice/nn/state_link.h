// StateLink: what a tree of modules, or a Builder, shares with the models made from it: where its
// state lives, and whether it is still there itself. Models keep the link, so they may outlive the
// tree. Any thread may use it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace sluice::nn {

class StateStore;

class StateLink {
 public:
  using StorePtr = std::shared_ptr<StateStore>;

  /// Null: no model holds the state.
  StorePtr store() const {
    const std::scoped_lock lock(mutex_);
    return store_;
  }
  void setStore(StorePtr store) {
    const std::scoped_lock lock(mutex_);
    store_.swap(store);  // what was there goes after the lock
  }
  /// The store, or, where there is none, what `make` returns, which then is the store.
  StorePtr storeOr(const std::function<StorePtr()>& make) {
    const std::scoped_lock lock(mutex_);
    if (store_ == nullptr) {
      store_ = make();
    }
    return store_;
  }

  /// Whether the tree or Builder lives.
  bool isAlive() const {
    const std::scoped_lock lock(mutex_);
    return alive_;
  }
  /// It does no longer; its models go on with the store.
  void end() {
    const std::scoped_lock lock(mutex_);
    alive_ = false;
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  StorePtr store_;
  bool alive_ = true;
};

}  // namespace sluice::nn
