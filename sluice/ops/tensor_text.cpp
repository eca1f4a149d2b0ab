#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "sluice/ops/elementwise.h"
#include "sluice/ops/op_options.h"

namespace sluice::ops {
namespace {

constexpr std::string_view kCut = "...";

/// How every float of one tensor is written.
struct FloatStyle {
  FloatFormat format = FloatFormat::None;
  std::int64_t decimals = 0;
};

/// Auto is fixed unless that would cut a number to nothing or take more than the digits.
FloatStyle styleOf(const std::vector<double>& values, const TextOptions& options) {
  if (options.digits == 0 || options.floatFormat == FloatFormat::None) {
    return {};
  }
  double largest = 0;
  double smallest = INFINITY;
  for (const double value : values) {
    const double size = std::abs(value);
    if (std::isfinite(value) && size > 0) {
      largest = std::max(largest, size);
      smallest = std::min(smallest, size);
    }
  }
  const auto digits = static_cast<double>(options.digits);
  const bool fits = largest < std::pow(10.0, digits) &&
                    (largest == 0 || smallest >= std::pow(10.0, 1.0 - digits));
  const bool fixed = options.floatFormat == FloatFormat::Fixed ||
                     (options.floatFormat == FloatFormat::Auto && fits);
  if (!fixed) {
    return {FloatFormat::Scientific, options.digits - 1};
  }
  const double whole = largest < 1 ? 1 : std::floor(std::log10(largest)) + 1;
  return {FloatFormat::Fixed, static_cast<std::int64_t>(std::max(digits - whole, 0.0))};
}

template <class T>
std::string floatText(T value, const FloatStyle& style) {
  switch (style.format) {
    case FloatFormat::Fixed:
      return fmt::format("{:.{}f}", widen(value), style.decimals);
    case FloatFormat::Scientific:
      return fmt::format("{:.{}e}", widen(value), style.decimals);
    default:
      break;
  }
  if constexpr (std::is_same_v<T, double>) {
    return fmt::format("{}", value);
  } else {
    return fmt::format("{}", static_cast<float>(value));
  }
}

/// The elements at these places, all of one width unless `digits` is 0.
template <class T>
std::vector<std::string> cellsOf(const T* data,
                                 const std::vector<std::int64_t>& places,
                                 const TextOptions& options) {
  std::vector<std::string> cells;
  if constexpr (std::is_integral_v<T>) {
    for (const std::int64_t place : places) {
      cells.push_back(fmt::format("{}", static_cast<Wide<T>>(data[place])));
    }
  } else {
    std::vector<double> values;
    values.reserve(places.size());
    for (const std::int64_t place : places) {
      values.push_back(widen(data[place]));
    }
    const FloatStyle style = styleOf(values, options);
    for (const std::int64_t place : places) {
      cells.push_back(floatText(data[place], style));
    }
  }
  std::size_t width = 0;
  for (const std::string& cell : cells) {
    width = options.digits == 0 ? 0 : std::max(width, cell.size());
  }
  for (std::string& cell : cells) {
    cell.insert(0, std::max(width, cell.size()) - cell.size(), ' ');
  }
  return cells;
}

class TensorWriter {
 public:
  TensorWriter(const Shape& shape, const TextOptions& options)
      : shape_(shape),
        options_(options),
        cut_(options.summariseThreshold > 0 && shape.elements() > options.summariseThreshold) {
    collect(0, 0);
  }

  /// Flat positions of the elements that are shown, in order.
  const std::vector<std::int64_t>& places() const { return places_; }

  std::string write(std::vector<std::string> cells) {
    cells_ = std::move(cells);
    writeAxis(0);
    return text_;
  }

 private:
  /// Whether places of the axis are left out; they begin at edgeItems.
  bool isCut(std::int64_t axis) const { return cut_ && shape_[axis] > 2 * options_.edgeItems; }

  /// f(i) for the shown places of an axis and f(-1) for a cut.
  template <class F>
  void forEachShown(std::int64_t axis, F f) const {
    const std::int64_t extent = shape_[axis];
    for (std::int64_t i = 0; i < extent; ++i) {
      if (isCut(axis) && i == options_.edgeItems) {
        f(std::int64_t{-1});
        i = extent - options_.edgeItems;
      }
      if (i < extent) {
        f(i);
      }
    }
  }

  void collect(std::int64_t axis, std::int64_t base) {
    if (axis == shape_.rank()) {
      places_.push_back(base);
      return;
    }
    forEachShown(axis, [&](std::int64_t i) {
      if (i >= 0) {
        collect(axis + 1, base * shape_[axis] + i);
      }
    });
  }

  void writeAxis(std::int64_t axis) {
    if (axis == shape_.rank()) {
      text_ += cells_[next_++];
      return;
    }
    text_ += options_.openBracket;
    bool first = true;
    forEachShown(axis, [&](std::int64_t i) {
      if (!first) {
        separate(axis, i < 0 ? kCut.size() : next_ < cells_.size() ? cells_[next_].size() : 0);
      }
      first = false;
      if (i < 0) {
        text_ += kCut;
      } else {
        writeAxis(axis + 1);
      }
    });
    text_ += options_.closeBracket;
  }

  /// Between two parts: a new line for all but elements of one row that fit on the line.
  void separate(std::int64_t axis, std::size_t width) {
    const auto limit = static_cast<std::size_t>(options_.maxLineWidth);
    const std::size_t used = text_.size() - lineStart_ + options_.separator.size() + width + 1;
    if (axis + 1 == shape_.rank() && (limit == 0 || used <= limit)) {
      text_ += options_.separator;
      return;
    }
    const std::size_t end = options_.separator.find_last_not_of(' ');
    text_ += options_.separator.substr(0, end == std::string::npos ? 0 : end + 1) + "\n";
    lineStart_ = text_.size();
    text_.append(static_cast<std::size_t>(axis + 1), ' ');
  }

  const Shape& shape_;
  const TextOptions& options_;
  bool cut_;
  std::vector<std::int64_t> places_;
  std::vector<std::string> cells_;
  std::size_t next_ = 0;
  std::string text_;
  std::size_t lineStart_ = 0;
};

}  // namespace

std::string tensorText(const TensorType& type, const void* data, const TextOptions& options) {
  TensorWriter writer(type.shape, options);
  return dispatch(type.dtype, [&]<class T>(T) {
    return writer.write(cellsOf(static_cast<const T*>(data), writer.places(), options));
  });
}

}  // namespace sluice::ops
