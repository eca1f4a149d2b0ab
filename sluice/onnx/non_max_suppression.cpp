#include "sluice/onnx/non_max_suppression.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sluice/base/error.h"

namespace sluice::onnx {
namespace {

struct Box {
  double top = 0.0;
  double left = 0.0;
  double bottom = 0.0;
  double right = 0.0;

  double area() const { return (bottom - top) * (right - left); }
};

Box boxAt(const HostTensor& boxes, std::int64_t index, bool centers) {
  const auto number = [&](std::int64_t i) { return boxes.at(index * 4 + i); };
  if (centers) {
    return {.top = number(1) - number(3) / 2,
            .left = number(0) - number(2) / 2,
            .bottom = number(1) + number(3) / 2,
            .right = number(0) + number(2) / 2};
  }
  // Any two opposite corners.
  return {.top = std::min(number(0), number(2)),
          .left = std::min(number(1), number(3)),
          .bottom = std::max(number(0), number(2)),
          .right = std::max(number(1), number(3))};
}

/// The shared part of the area that both cover.
double overlapOf(const Box& a, const Box& b) {
  const Box common{.top = std::max(a.top, b.top),
                   .left = std::max(a.left, b.left),
                   .bottom = std::min(a.bottom, b.bottom),
                   .right = std::min(a.right, b.right)};
  if (common.bottom <= common.top || common.right <= common.left) {
    return 0.0;
  }
  return common.area() / (a.area() + b.area() - common.area());
}

}  // namespace

HostTensor nonMaxSuppression(const HostTensor& boxes,
                             const HostTensor& scores,
                             const Suppression& options) {
  const Shape& shape = scores.shape();
  if (shape.rank() != 3 || boxes.shape() != Shape{shape[0], shape[2], 4}) {
    raise<InvalidArgument>(
        "expected boxes [batch, count, 4] and scores [batch, classes, count], "
        "got {} and {}",
        boxes.type().str(),
        scores.type().str());
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t line = 0; line < shape[0] * shape[1]; ++line) {
    const std::int64_t batch = line / shape[1];
    const auto score = [&](std::int64_t i) { return scores.at(line * shape[2] + i); };
    std::vector<std::int64_t> order(static_cast<std::size_t>(shape[2]));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order,
                  [&](std::int64_t i) { return options.score && !(score(i) > *options.score); });
    std::ranges::stable_sort(order, [&](auto i, auto j) { return score(i) > score(j); });
    std::vector<Box> kept;
    for (const std::int64_t i : order) {
      if (static_cast<std::int64_t>(kept.size()) >= options.maxPerClass) {
        break;
      }
      const Box box = boxAt(boxes, batch * shape[2] + i, options.centers);
      if (std::ranges::none_of(
              kept, [&](const Box& other) { return overlapOf(box, other) > options.overlap; })) {
        kept.push_back(box);
        rows.insert(rows.end(), {batch, line % shape[1], i});
      }
    }
  }
  return HostTensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(rows.size() / 3), 3},
                                      std::span<const std::int64_t>(rows));
}

}  // namespace sluice::onnx
