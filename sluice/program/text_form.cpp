#include "sluice/program/text_form.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/device/kernel_table.h"
#include "sluice/ir/lexer.h"
#include "sluice/ir/number_text.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/program/record_fields.h"

namespace sluice::program {
namespace {

using ir::Token;

std::string_view nameOf(SegmentKind kind) {
  return parallel::name(kind);
}
template <class E>
std::string_view nameOf(E kind) {
  return name(kind);
}

std::string hexOf(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return text;
}

std::string bytesOf(std::string_view hex, const ir::Lexer& lexer, std::size_t offset) {
  if (hex.size() % 2 != 0) {
    lexer.fail(offset, "expected two hexadecimal digits for every byte");
  }
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const auto byte = ir::parseHex("0x" + std::string(hex.substr(i, 2)));
    if (!byte) {
      lexer.fail(offset, "expected hexadecimal digits");
    }
    bytes += static_cast<char>(*byte);
  }
  return bytes;
}

/// Writes the fields of a record: name=value.
class Writer {
 public:
  explicit Writer(std::string& text) : text_(text) {}

  void record(std::string_view word) {
    text_ += text_.empty() ? "" : "\n";
    text_ += word;
  }
  template <class T>
  void field(std::string_view name, const T& value) {
    text_ += fmt::format(" {}=", name);
    write(value);
  }

 private:
  template <class T>
  void write(const T& value) {
    if constexpr (std::is_enum_v<T> && kCount < T >> 0) {
      text_ += ir::quote(nameOf(value));
    } else if constexpr (std::is_enum_v<T>) {
      text_ += fmt::format("{}", static_cast<int>(value));
    } else {
      text_ += fmt::format("{}", value);
    }
  }
  void write(const std::string& value) { text_ += ir::quote(value); }
  void write(BufferId id) { write(id.value); }
  void write(const TensorType& type) { text_ += ir::quote(type.str()); }
  void write(const std::optional<std::size_t>& value) {
    write(value ? static_cast<std::int64_t>(*value) : std::int64_t{-1});
  }
  void write(const device::Layout& layout) {
    text_ += ir::quote(fmt::format(
        "{}:{}:{}", static_cast<int>(layout.kind), layout.opaqueBytes, hexOf(layout.blob)));
  }
  template <class T>
  void write(const std::vector<T>& list) {
    std::string_view separator = "[";
    text_ += list.empty() ? "[" : "";
    for (const T& item : list) {
      text_ += separator;
      write(item);
      separator = ", ";
    }
    text_ += ']';
  }

  std::string& text_;
};

/// Reads the same fields in the same order.
class Reader {
 public:
  explicit Reader(std::string_view text) : lexer_(text) {}

  bool atEnd() const { return lexer_.peek().kind == Token::Kind::End; }
  /// The word that a record begins with.
  Token record() {
    if (lexer_.peek().kind != Token::Kind::Word) {
      lexer_.failExpected("a record, such as buffer, lane or task");
    }
    return lexer_.take();
  }
  template <class T>
  void field(std::string_view name, T& value) {
    if (!lexer_.peek().isWord(name)) {
      lexer_.failExpected(fmt::format("'{}='", name));
    }
    lexer_.take();
    mark('=');
    read(value);
  }
  [[noreturn]] void fail(const Token& token, std::string message) const {
    lexer_.fail(token.offset, std::move(message));
  }
  const ir::Lexer& lexer() const { return lexer_; }

 private:
  void mark(char wanted) {
    if (!lexer_.peek().isMark(wanted)) {
      lexer_.failExpected(fmt::format("'{}'", wanted));
    }
    lexer_.take();
  }
  template <class T>
  void read(T& value) {
    if constexpr (std::is_enum_v<T>) {
      readEnum(value);
    } else {
      const Token& token = lexer_.peek();
      const auto found = token.kind == Token::Kind::Number ? ir::parseInteger<T>(token.source)
                                                           : std::optional<T>();
      if (!found) {
        lexer_.failExpected("a number");
      }
      value = *found;
      lexer_.take();
    }
  }
  template <class E>
  void readEnum(E& value) {
    if constexpr (kCount<E> == 0) {
      const Token token = lexer_.peek();
      int number = 0;
      read(number);
      if (number < 0 || number >= kNumbers<E>) {
        lexer_.fail(token.offset, fmt::format("expected 0 to {}", kNumbers<E> - 1));
      }
      value = static_cast<E>(number);
    } else {
      const Token token = lexer_.peek();
      std::string text;
      read(text);
      for (std::size_t i = 0; i < kCount<E>; ++i) {
        if (nameOf(static_cast<E>(i)) == text) {
          value = static_cast<E>(i);
          return;
        }
      }
      lexer_.fail(token.offset, fmt::format("'{}' is unknown here", text));
    }
  }
  void read(bool& value) {
    const bool yes = lexer_.peek().isWord("true");
    if (!yes && !lexer_.peek().isWord("false")) {
      lexer_.failExpected("true or false");
    }
    value = yes;
    lexer_.take();
  }
  void read(std::string& value) {
    if (lexer_.peek().kind != Token::Kind::Text) {
      lexer_.failExpected("a text in quotes");
    }
    value = lexer_.take().text;
  }
  void read(BufferId& id) { read(id.value); }
  void read(TensorType& type) {
    const std::size_t offset = lexer_.peek().offset;
    std::string text;
    read(text);
    try {
      type = ir::parseType(text);
    } catch (Error& error) {
      error.at(lexer_.place(offset));
      throw;
    }
  }
  void read(std::optional<std::size_t>& value) {
    std::int64_t number = 0;
    read(number);
    value = number < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(number));
  }
  void read(device::Layout& layout) {
    const Token token = lexer_.peek();
    std::string text;
    read(text);
    const std::size_t first = text.find(':');
    const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
    const auto kind = ir::parseInteger<int>(text.substr(0, first));
    const auto bytes =
        second == std::string::npos
            ? std::optional<std::size_t>()
            : ir::parseInteger<std::size_t>(text.substr(first + 1, second - first - 1));
    if (!kind || *kind < 0 || *kind > 2 || !bytes) {
      lexer_.fail(token.offset, "expected a layout as kind:bytes:data");
    }
    layout.kind = static_cast<device::Layout::Kind>(*kind);
    layout.opaqueBytes = *bytes;
    layout.blob = bytesOf(std::string_view(text).substr(second + 1), lexer_, token.offset);
  }
  template <class T>
  void read(std::vector<T>& list) {
    list.clear();
    mark('[');
    while (!lexer_.peek().isMark(']')) {
      if (!list.empty()) {
        mark(',');
      }
      read(list.emplace_back());
    }
    lexer_.take();
  }

  ir::Lexer lexer_;
};

/// Reads the lines of a Program; each knows which one it follows.
class ProgramReader {
 public:
  ProgramReader(std::string_view text, const ir::OpSet& ops) : reader_(text), ops_(ops) {}

  Program read() {
    const Token first = reader_.record();
    if (first.source != "program") {
      reader_.fail(first, "a Program begins with 'program'");
    }
    reader_.field("name", program_.name);
    reader_.field("microBatches", program_.microBatchesPerRound);
    reader_.field("training", program_.training);
    reader_.field("keepsPacked", program_.keepsPacked);
    while (!reader_.atEnd()) {
      line(reader_.record());
    }
    return std::move(program_);
  }

 private:
  template <class T>
  T& add(std::vector<T>& list) {
    T& item = list.emplace_back();
    fields(reader_, item);
    return item;
  }
  template <class T>
  T& last(std::vector<T>& list, const Token& word, std::string_view owner) {
    if (list.empty()) {
      reader_.fail(word, fmt::format("'{}' follows no {}", word.source, owner));
    }
    return list.back();
  }

  void line(const Token& word) {
    if (word.source == "device") {
      add(program_.devices);
    } else if (word.source == "remote") {
      fields(reader_, program_.remote);
    } else if (word.source == "buffer") {
      add(program_.buffers);
    } else if (word.source == "feed") {
      add(program_.feeds);
    } else if (word.source == "drain") {
      add(program_.drains);
    } else if (word.source == "constant") {
      constant(word);
    } else if (word.source == "transfer") {
      add(program_.transfers);
    } else if (word.source == "collective") {
      add(program_.collectives);
    } else if (word.source == "message") {
      add(program_.messages);
    } else if (word.source == "barriers") {
      reader_.field("pattern", program_.barriers.emplace().pattern);
      reader_.field("groups", groups_);
      cutGroups(word);
    } else if (word.source == "segment") {
      add(program_.segments);
    } else if (word.source == "call") {
      call(word);
    } else if (word.source == "lane") {
      add(program_.lanes);
    } else {
      taskLine(word);
    }
  }

  void taskLine(const Token& word) {
    if (word.source == "task") {
      Task& task = add(last(program_.lanes, word, "lane").tasks);
      task.firstWait = program_.waits.count();
      task.firstSlot = program_.slots.count();
    } else if (word.source == "wait") {
      Task& task = last(last(program_.lanes, word, "lane").tasks, word, "task");
      add(program_.waits);
      ++task.numWaits;
    } else if (word.source == "slot") {
      Task& task = last(last(program_.lanes, word, "lane").tasks, word, "task");
      add(program_.slots);
      ++task.numSlots;
    } else {
      reader_.fail(word, fmt::format("'{}' is no record of a Program", word.source));
    }
  }

  /// Groups are one list, in which -1 ends each.
  void cutGroups(const Token& word) {
    std::vector<std::int32_t> group;
    for (const std::int32_t device : groups_) {
      if (device < 0) {
        program_.barriers->groups.push_back(std::exchange(group, {}));
      } else {
        group.push_back(device);
      }
    }
    if (!group.empty()) {
      reader_.fail(word, "the last group of devices does not end with -1");
    }
  }

  const ir::OpDef& opCalled(const std::string& name, const Token& word) {
    const ir::OpDef* def = name == device::kReorder.name ? &device::kReorder : ops_.find(name);
    if (def == nullptr) {
      reader_.fail(word, fmt::format("there is no op '{}'", name));
    }
    return *def;
  }

  ir::Attrs attrsOf(const ir::OpDef& def, const Token& word) {
    std::string text;
    reader_.field("attrs", text);
    try {
      return ir::parseAttrs(text, def, ops_);
    } catch (Error& error) {
      error.at(reader_.lexer().place(word.offset));
      throw;
    }
  }

  void constant(const Token& word) {
    Constant& made = program_.constants.emplace_back();
    reader_.field("buffer", made.buffer);
    made.value = attrsOf(ir::kConstant, word).tensor("value");
  }

  void call(const Token& word) {
    device::KernelCall& made = last(program_.segments, word, "segment").calls.emplace_back();
    std::string op;
    reader_.field("op", op);
    made.def = &opCalled(op, word);
    made.attrs = attrsOf(*made.def, word);
    fields(reader_, made);
  }

  Reader reader_;
  const ir::OpSet& ops_;
  Program program_;
  std::vector<std::int32_t> groups_;
};

template <class T>
void writeAll(Writer& writer, std::string_view word, const std::vector<T>& list) {
  for (const T& item : list) {
    writer.record(word);
    fields(writer, item);
  }
}

void writeLanes(Writer& writer, const Program& program) {
  for (const Lane& lane : program.lanes) {
    writer.record("lane");
    fields(writer, lane);
    for (const Task& task : lane.tasks) {
      writer.record("task");
      fields(writer, task);
      for (const Wait& wait : program.waitsOf(task)) {
        writer.record("wait");
        fields(writer, wait);
      }
      for (const Slot& slot : program.slotsOf(task)) {
        writer.record("slot");
        fields(writer, slot);
      }
    }
  }
}

}  // namespace

std::string toText(const Program& program) {
  std::string text;
  Writer writer(text);
  writer.record("program");
  writer.field("name", program.name);
  writer.field("microBatches", program.microBatchesPerRound);
  writer.field("training", program.training);
  writer.field("keepsPacked", program.keepsPacked);
  writeAll(writer, "device", program.devices);
  writer.record("remote");
  fields(writer, program.remote);
  writeAll(writer, "buffer", program.buffers);
  writeAll(writer, "feed", program.feeds);
  writeAll(writer, "drain", program.drains);
  for (const Constant& constant : program.constants) {
    writer.record("constant");
    writer.field("buffer", constant.buffer);
    writer.field("attrs", ir::print(ir::kConstant, {{"value", constant.value}}));
  }
  writeAll(writer, "transfer", program.transfers);
  writeAll(writer, "collective", program.collectives);
  writeAll(writer, "message", program.messages);
  if (program.barriers) {
    std::vector<std::int32_t> groups;
    for (const std::vector<std::int32_t>& group : program.barriers->groups) {
      groups.insert(groups.end(), group.begin(), group.end());
      groups.push_back(-1);
    }
    writer.record("barriers");
    writer.field("pattern", program.barriers->pattern);
    writer.field("groups", groups);
  }
  for (const Segment& segment : program.segments) {
    writer.record("segment");
    fields(writer, segment);
    for (const device::KernelCall& call : segment.calls) {
      writer.record("call");
      writer.field("op", std::string(call.def->name));
      writer.field("attrs", ir::print(*call.def, call.attrs));
      fields(writer, call);
    }
  }
  writeLanes(writer, program);
  return text + "\n";
}

Program fromText(std::string_view text, const ir::OpSet& ops) {
  return ProgramReader(text, ops).read();
}

}  // namespace sluice::program
