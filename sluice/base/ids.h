// Typed integer ids: an OpId cannot be passed where a BufferId is meant. An id is an index into the
// table of its owner; -1 means none.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)

namespace sluice {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr explicit Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}

  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  constexpr auto operator<=>(const Id&) const = default;
};

/// The ids 0 to count - 1. Not std::views: clang 14 cannot read those of its own standard library.
template <class Id>
class IdRange {
 public:
  class Iterator {
   public:
    explicit Iterator(std::size_t at) : at_(at) {}
    Id operator*() const { return Id(at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    std::size_t at_;
  };

  explicit IdRange(std::size_t count) : count_(count) {}
  Iterator begin() const { return Iterator(0); }
  Iterator end() const { return Iterator(count_); }

 private:
  std::size_t count_;
};

/// A table with one T for each id of an owner that has `count` ids. If most ids are used, it takes
/// much less memory than a hash map and needs no search.
template <class Id, class T>
class ById {
 public:
  ById() = default;
  explicit ById(std::size_t count, const T& value = T()) : items_(count, value) {}

  decltype(auto) operator[](Id id) { return items_[id.index()]; }
  decltype(auto) operator[](Id id) const { return items_[id.index()]; }

  std::size_t size() const { return items_.size(); }
  void assign(std::size_t count, const T& value) { items_.assign(count, value); }
  /// The id of what was added.
  Id add(T item) {
    items_.push_back(std::move(item));
    return Id(items_.size() - 1);
  }
  /// The ids from 0 on, for a loop over all of them.
  IdRange<Id> ids() const { return IdRange<Id>(items_.size()); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<T> items_;
};

}  // namespace sluice

template <class Tag>
struct std::hash<sluice::Id<Tag>> {
  std::size_t operator()(sluice::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};

#pragma GCC visibility pop
