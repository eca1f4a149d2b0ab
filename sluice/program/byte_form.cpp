#include "sluice/program/byte_form.h"

#include <limits>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/input_file.h"
#include "sluice/ir/byte_form.h"
#include "sluice/program/record_fields.h"

namespace sluice::program {
namespace {

/// No sum or product of sizes that a check makes from numbers below this overflows.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 48;
constexpr std::int64_t kMostArenas = 1 << 16;

/// Reads a list item by item, so that a count alone, which may be wrong, takes no memory.
template <class T, class Read>
void fill(ByteReader& in, std::vector<T>& list, std::string_view what, const Read& read) {
  list.clear();
  const std::size_t count = in.count(what);
  for (std::size_t i = 0; i < count; ++i) {
    read(list.emplace_back());
  }
}

class FieldWriter {
 public:
  explicit FieldWriter(ByteWriter& out) : out_(out) {}

  template <class T>
  void field(std::string_view /*name*/, const T& value) {
    write(value);
  }

 private:
  template <class T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.flag(value);
    } else {
      out_.number(static_cast<std::int64_t>(value));
    }
  }
  void write(const std::string& value) { out_.text(value); }
  void write(BufferId id) { out_.number(id.value); }
  void write(const TensorType& type) { ir::writeType(out_, type); }
  void write(const std::optional<std::size_t>& value) {
    out_.number(value ? static_cast<std::int64_t>(*value) : std::int64_t{-1});
  }
  void write(const device::Layout& layout) {
    out_.number(static_cast<std::int32_t>(layout.kind));
    out_.number(static_cast<std::int64_t>(layout.opaqueBytes));
    out_.text(layout.blob);
  }
  template <class T>
  void write(const Table<T>& list) {
    write(static_cast<const std::vector<T>&>(list));
  }
  template <class T>
  void write(const std::vector<T>& list) {
    out_.number(std::uint64_t{list.size()});
    for (const T& item : list) {
      write(item);
    }
  }

  ByteWriter& out_;
};

class FieldReader {
 public:
  explicit FieldReader(ByteReader& in) : in_(in) {}

  template <class T>
  void field(std::string_view name, T& value) {
    name_ = name;
    read(value);
  }

 private:
  template <class T>
  void read(T& value) {
    if constexpr (std::is_enum_v<T>) {
      constexpr std::int64_t kEnd =
          kCount < T >> 0 ? static_cast<std::int64_t>(kCount<T>) : std::int64_t{kNumbers<T>};
      value = static_cast<T>(in_.index(0, kEnd, name_));
    } else if constexpr (std::is_same_v<T, std::size_t>) {
      value = static_cast<std::size_t>(in_.within(0, kMostBytes, name_));
    } else {
      value = static_cast<T>(
          in_.within(std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), name_));
    }
  }
  void read(bool& value) { value = in_.flag(); }
  void read(std::string& value) { value = in_.text(); }
  void read(BufferId& id) { read(id.value); }
  void read(TensorType& type) { type = ir::readType(in_); }
  void read(std::optional<std::size_t>& value) {
    const std::int64_t number = in_.within(-1, kMostBytes, name_);
    value = number < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(number));
  }
  void read(device::Layout& layout) {
    layout.kind = static_cast<device::Layout::Kind>(in_.index(0, 3, "the kind of a layout"));
    read(layout.opaqueBytes);
    read(layout.blob);
  }
  template <class T>
  void read(Table<T>& list) {
    read(static_cast<std::vector<T>&>(list));
  }
  template <class T>
  void read(std::vector<T>& list) {
    fill(in_, list, "items", [this](T& item) { read(item); });
  }

  ByteReader& in_;
  std::string_view name_;
};

template <class T>
void writeRecords(ByteWriter& out, const std::vector<T>& records) {
  FieldWriter writer(out);
  out.number(std::uint64_t{records.size()});
  for (const T& record : records) {
    fields(writer, record);
  }
}

void writeLists(ByteWriter& out, const Program& program) {
  FieldWriter writer(out);
  out.number(std::uint64_t{program.segments.size()});
  for (const Segment& segment : program.segments) {
    fields(writer, segment);
    out.number(std::uint64_t{segment.calls.size()});
    for (const device::KernelCall& call : segment.calls) {
      out.text(call.def->name);
      ir::writeAttrs(out, call.attrs);
      fields(writer, call);
    }
  }
  out.number(std::uint64_t{program.lanes.size()});
  for (const Lane& lane : program.lanes) {
    fields(writer, lane);
    out.number(std::uint64_t{lane.tasks.size()});
    for (const Task& task : lane.tasks) {
      fields(writer, task);
      out.number(static_cast<std::uint64_t>(task.numWaits));
      for (const Wait& wait : program.waitsOf(task)) {
        fields(writer, wait);
      }
      out.number(static_cast<std::uint64_t>(task.numSlots));
      for (const Slot& slot : program.slotsOf(task)) {
        fields(writer, slot);
      }
    }
  }
}

/// Reads what the functions above write.
class ProgramBytes {
 public:
  ProgramBytes(ByteReader& in, const ir::OpSet& ops)
      : in_(in), fields_(in), ops_(ops), attrs_(ops) {}

  Program read() {
    p_.name = in_.text();
    fields_.field("micro-batches", p_.microBatchesPerRound);
    p_.training = in_.flag();
    p_.keepsPacked = in_.flag();
    records(p_.devices);
    fields(fields_, p_.remote);
    records(p_.buffers);
    records(p_.feeds);
    records(p_.drains);
    fill(in_, p_.constants, "constants", [this](Constant& constant) {
      fields_.field("buffer", constant.buffer);
      constant.value = ir::readTensor(in_);
    });
    records(p_.transfers);
    records(p_.collectives);
    records(p_.messages);
    readBarriers();
    readSegments();
    readLanes();
    return std::move(p_);
  }

 private:
  template <class T>
  void records(std::vector<T>& list) {
    fill(in_, list, "records", [this](T& record) { fields(fields_, record); });
  }
  /// The next of a list that belongs to a record, whose number of bytes bounds the memory.
  template <class T>
  std::int32_t appended(std::vector<T>& list, std::string_view what) {
    const std::size_t count = in_.count(what);
    if (list.size() + count > std::size_t{std::numeric_limits<std::int32_t>::max()}) {
      in_.fail(fmt::format("there are too many {}", what));
    }
    for (std::size_t i = 0; i < count; ++i) {
      fields(fields_, list.emplace_back());
    }
    return static_cast<std::int32_t>(count);
  }

  void readBarriers() {
    if (!in_.flag()) {
      return;
    }
    Barriers& barriers = p_.barriers.emplace();
    fields_.field("pattern", barriers.pattern);
    fields_.field("groups", barriers.groups);
  }

  void readSegments() {
    fill(in_, p_.segments, "segments", [this](Segment& segment) {
      fields(fields_, segment);
      fill(in_, segment.calls, "calls", [this](device::KernelCall& call) { readCall(call); });
    });
  }

  void readCall(device::KernelCall& call) {
    const std::string_view name = in_.view();
    call.def = name == device::kReorder.name ? &device::kReorder : ops_.find(name);
    if (call.def == nullptr) {
      raise<UnreadableFile>("there is no op '{}' here: load the library of a custom op first",
                            name);
    }
    call.attrs = attrs_.read(in_, *call.def);
    fields(fields_, call);
  }

  void readLanes() {
    fill(in_, p_.lanes, "lanes", [this](Lane& lane) {
      fields(fields_, lane);
      fill(in_, lane.tasks, "tasks", [this](Task& task) { readTask(task); });
    });
  }

  void readTask(Task& task) {
    fields(fields_, task);
    task.firstWait = p_.waits.count();
    task.numWaits = appended(p_.waits, "waits");
    task.firstSlot = p_.slots.count();
    task.numSlots = appended(p_.slots, "slots");
  }

  ByteReader& in_;
  FieldReader fields_;
  const ir::OpSet& ops_;
  ir::AttrReader attrs_;
  Program p_;
};

}  // namespace

void writeProgram(ByteWriter& out, const Program& program) {
  FieldWriter writer(out);
  out.text(program.name);
  out.number(program.microBatchesPerRound);
  out.flag(program.training);
  out.flag(program.keepsPacked);
  writeRecords(out, program.devices);
  fields(writer, program.remote);
  writeRecords(out, program.buffers);
  writeRecords(out, program.feeds);
  writeRecords(out, program.drains);
  out.number(std::uint64_t{program.constants.size()});
  for (const Constant& constant : program.constants) {
    out.number(constant.buffer.value);
    ir::writeTensor(out, constant.value);
  }
  writeRecords(out, program.transfers);
  writeRecords(out, program.collectives);
  writeRecords(out, program.messages);
  out.flag(program.barriers.has_value());
  if (program.barriers) {
    writer.field("pattern", program.barriers->pattern);
    writer.field("groups", program.barriers->groups);
  }
  writeLists(out, program);
}

Program readProgram(ByteReader& in, const ir::OpSet& ops) {
  return ProgramBytes(in, ops).read();
}

void writeStatePlan(ByteWriter& out, const StatePlan& plan) {
  out.number(std::uint64_t{plan.arenas().size()});
  for (const std::size_t bytes : plan.arenas()) {
    out.number(static_cast<std::int64_t>(bytes));
  }
  out.number(std::uint64_t{plan.variables().size()});
  for (const PlacedVariable& placed : plan.variables()) {
    ir::writeVariable(out, placed.variable);
    const std::vector<StateSlice> slices = placed.slices();
    out.number(std::uint64_t{slices.size()});
    for (const StateSlice& slice : slices) {
      out.number(slice.device);
      out.number(static_cast<std::int64_t>(slice.offset));
    }
  }
}

StatePlan readStatePlan(ByteReader& in) {
  std::vector<std::size_t> bytes;
  fill(in, bytes, "arenas", [&](std::size_t& each) {
    each = static_cast<std::size_t>(in.within(0, kMostBytes, "the size of an arena"));
  });
  std::vector<PlacedVariable> variables;
  fill(in, variables, "variables", [&](PlacedVariable& placed) {
    placed.variable = ir::readVariable(in);
    const std::size_t slices = in.count("slices");
    if (slices == 0) {
      in.fail(fmt::format("variable '{}' has no place", placed.variable.name));
    }
    for (std::size_t s = 0; s < slices; ++s) {
      const std::int32_t device = in.index(kRemote, kMostArenas, "a device");
      const auto offset = static_cast<std::size_t>(in.within(0, kMostBytes, "an offset"));
      if (s == 0) {
        placed.device = device;
        placed.offset = offset;
      } else {
        placed.more.push_back({device, offset});
      }
    }
  });
  return StatePlan(std::move(variables), std::move(bytes));
}

}  // namespace sluice::program
