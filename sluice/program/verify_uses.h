// Which bytes every task of a Program reads and writes, in the form that the proof walks over:
// arenas are cut into cells wherever a use begins or ends, and each task has a short list of ranges
// of cells. Uses inside one run of a segment are resolved here, once for all micro-batches. Private
// to the program module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sluice/program/program.h"

namespace sluice::program {

/// Cells [first, last) of the Uses that the range came from.
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
  /// A read by an accumulation; it does not count in the first micro-batch of a round.
  bool accumulates = false;
  std::int32_t ranges = 0;  ///< index of the range of its first slot
};

/// The uses by a task that other tasks could notice: reads of bytes that it has not written itself,
/// then the bytes that it leaves written. A value that is made and used inside one run of a segment
/// appears only as written bytes.
class Uses {
 public:
  explicit Uses(const Program& program);

  std::span<const Use> of(const Task& task) const {
    const Table<List>& lists = lists_[static_cast<std::size_t>(task.kind)];
    return lists[task.subject];
  }
  /// The cells of a buffer whose bytes exist before the first task.
  CellRange loaded(BufferId buffer) const { return ranges_[loaded_[buffer.index()]]; }
  CellRange cells(const Use& use, std::int32_t slot) const { return ranges_[use.ranges + slot]; }
  std::size_t numCells() const { return numCells_; }

 private:
  using List = std::vector<Use>;

  void listTasks();
  void mergePrivate();
  void cutCells();

  const Program& p_;
  std::array<Table<List>, kTaskKinds> lists_;  // by TaskKind, then subject
  std::vector<std::size_t> loaded_;            // by buffer: index of its range
  Table<CellRange> ranges_;
  std::size_t numCells_ = 0;
};

/// Whether the bytes exist before the first task: true for variables and constants.
std::vector<bool> loadedBuffers(const Program& program);

}  // namespace sluice::program
