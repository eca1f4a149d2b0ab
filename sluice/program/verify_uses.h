// Which bytes every task of a Program reads and writes, brought into the form that the proof walks
// over: arenas cut into cells at every place where anything begins or ends, and for each task a
// short list of ranges of cells. What happens inside one run of a segment is settled here, once for
// all micro-batches. Private to the program module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// Cells [first, last) of the Uses that it came from.
struct CellRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
};

/// Bytes [begin, end) of a slot of a buffer.
struct Use {
  BufferId buffer;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool write = false;
  /// A read of what is added to: in the first micro-batch of a round it counts as nothing.
  bool accumulates = false;
  std::int32_t ranges = 0;  ///< where the ranges of its slots begin
};

/// What a task does to memory that others could notice: reads of what it has not written itself,
/// then what it leaves written. A value that is made and used inside one run of a segment appears
/// only as bytes that are written.
class Uses {
 public:
  explicit Uses(const Program& program);

  std::span<const Use> of(const Task& task) const {
    const std::vector<List>& lists = lists_[static_cast<std::size_t>(task.kind)];
    return lists[static_cast<std::size_t>(task.subject)];
  }
  /// Where a buffer lies whose bytes are there before the first task.
  CellRange loaded(BufferId buffer) const { return ranges_[loaded_[buffer.index()]]; }
  CellRange cells(const Use& use, std::int32_t slot) const {
    return ranges_[static_cast<std::size_t>(use.ranges) + static_cast<std::size_t>(slot)];
  }
  std::size_t numCells() const { return numCells_; }

 private:
  using List = std::vector<Use>;

  void listTasks();
  void mergePrivate();
  void cutCells();

  const Program& p_;
  std::array<std::vector<List>, kTaskKinds> lists_;  // by TaskKind, then subject
  std::vector<std::size_t> loaded_;                  // by buffer: index of its range
  std::vector<CellRange> ranges_;
  std::size_t numCells_ = 0;
};

/// Whether the bytes are there before the first task: variables and constants.
std::vector<bool> loadedBuffers(const Program& program);

}  // namespace sluice::program
