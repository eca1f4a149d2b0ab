// Table: a vector whose places are numbered as the rest of the project numbers things, with signed
// integers in which -1 means none. Private.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

template <class T>
class Table : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  Table() = default;
  Table(std::vector<T> items) : std::vector<T>(std::move(items)) {}  // NOLINT: the same things

  template <std::integral Number>
  decltype(auto) operator[](Number number) {
    return std::vector<T>::operator[](static_cast<std::size_t>(number));
  }
  template <std::integral Number>
  decltype(auto) operator[](Number number) const {
    return std::vector<T>::operator[](static_cast<std::size_t>(number));
  }

  /// How many there are, which is also the number of the next one.
  std::int32_t count() const { return static_cast<std::int32_t>(this->size()); }
  bool has(std::int32_t number) const { return number >= 0 && number < count(); }
};

}  // namespace sluice
