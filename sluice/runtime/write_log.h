// WriteLog: what the tasks of a step wrote, value by value, to be compared with another run. A step
// whose program is watched for writes (Watch::writes) fills it. The entries are in an order in
// which every value comes after the values that it was made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sluice/device/layout.h"
#include "sluice/tensor/shape.h"

namespace sluice::runtime {

/// A text that copies share, so that a name is in memory once however often it was written.
class SharedText {
 public:
  SharedText() : SharedText(std::string()) {}
  // NOLINTBEGIN(google-explicit-constructor): it stands for a text
  SharedText(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}
  // NOLINTEND(google-explicit-constructor)

  const std::string& str() const { return *text_; }
  bool empty() const { return text_->empty(); }

 private:
  std::shared_ptr<const std::string> text_;
};

struct WrittenValue {
  /// "matmul", also inside a fused op, or the kind of a task that runs no kernel: "feed",
  /// "transfer"
  SharedText op;
  SharedText name;         ///< of the op, input, copy or sum
  SharedText tensor = {};  ///< the variable that is written; empty: none
  std::int32_t output = 0;
  TensorType type;
  std::int64_t microBatch = -1;  ///< of the step, over all replicas; -1: once per round
  std::int32_t round = 0;
  std::int32_t replica = 0;
  std::uint64_t hash = 0;         ///< of type and elements
  std::vector<std::byte> values;  ///< the elements in plain layout; empty if only hashes are kept
};

/// Any thread may add.
class WriteLog {
 public:
  explicit WriteLog(bool keepsValues) : keepsValues_(keepsValues) {}

  /// `written` without hash and values; `data` are the elements in this layout, which is not
  /// opaque.
  void add(WrittenValue written, const device::Layout& layout, std::span<const std::byte> data);
  /// Returns all entries and forgets them.
  std::vector<WrittenValue> take();

 private:
  bool keepsValues_;
  std::mutex mutex_;  // guards entries_
  std::vector<WrittenValue> entries_;
};

}  // namespace sluice::runtime
