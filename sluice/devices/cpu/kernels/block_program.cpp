#include "sluice/devices/cpu/kernels/block_program.h"

#include <algorithm>
#include <map>
#include <string>

#include "sluice/base/error.h"
#include "sluice/ir/graph.h"

namespace sluice::devices::cpu {
namespace {

using device::Choice;
using device::Layout;

/// Between registers: elements of one index must not agree in the low bits of their addresses,
/// which the processor takes for a dependence of loads on stores.
constexpr std::size_t kRegisterGap = 320;

/// One op of the body; operands and results are value numbers.
struct BodyOp {
  std::string_view name;
  const ir::Attrs* attrs;
  std::vector<std::size_t> inputs;
  std::size_t output;
};

/// Values 0 .. inputs-1 are the op's inputs, then constants, then results.
struct Body {
  std::vector<TensorType> values;
  std::vector<HostTensor> constants;
  std::vector<BodyOp> ops;
  std::vector<std::size_t> outputs;
  std::size_t numInputs = 0;
};

Body singleBody(const ir::OpView& op) {
  Body body;
  body.numInputs = op.inputs.size();
  body.values.assign(op.inputs.begin(), op.inputs.end());
  body.values.push_back(op.outputs[0]);
  BodyOp only{op.def.name, &op.attrs, {}, op.inputs.size()};
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    only.inputs.push_back(i);
  }
  body.ops.push_back(std::move(only));
  body.outputs = {op.inputs.size()};
  if (op.def.name == "broadcast_to" && byteSize(op.inputs[0].dtype) == 2) {
    body.values[0].dtype = DType::U16;  // moved as it is
    body.values[1].dtype = DType::U16;
  }
  return body;
}

/// The number in "in3" or "out0".
std::size_t numberOf(std::string_view name, std::string_view prefix) {
  SLUICE_CHECK(name.starts_with(prefix), "'{}' in the body of fused", name);
  return static_cast<std::size_t>(std::stoul(std::string(name.substr(prefix.size()))));
}

std::optional<Body> fusedBody(const ir::OpView& op) {
  const ir::Graph& graph = op.attrs.subgraph("body");
  Body body;
  body.numInputs = op.inputs.size();
  body.values.assign(op.inputs.begin(), op.inputs.end());
  std::map<ir::Value, std::size_t> numbers;
  for (const ir::OpId id : graph.order()) {  // constants are numbered before results
    const ir::Op& each = graph.op(id);
    if (each.is(ir::kInput)) {
      numbers[each.out()] = numberOf(each.name, "in");
    } else if (each.is(ir::kConstant)) {
      numbers[each.out()] = body.values.size();
      body.values.push_back(each.outputs[0]);
      body.constants.push_back(each.attrs.tensor("value"));
    }
  }
  for (const ir::OpId id : graph.order()) {
    const ir::Op& each = graph.op(id);
    if (each.is(ir::kInput) || each.is(ir::kConstant)) {
      continue;
    }
    if (!each.def->traits.elementwise && each.def->name != "identity") {
      return std::nullopt;
    }
    numbers[each.out()] = body.values.size();
    BodyOp item{each.def->name, &each.attrs, {}, body.values.size()};
    for (const ir::Value value : each.inputs) {
      item.inputs.push_back(numbers.at(value));
    }
    body.values.push_back(each.outputs[0]);
    body.ops.push_back(std::move(item));
  }
  body.outputs.resize(graph.outputs().size());
  for (const ir::Output& output : graph.outputs()) {
    body.outputs.at(numberOf(output.name, "out")) = numbers.at(output.value);
  }
  return body;
}

bool isSixteenBit(DType dtype) {
  return dtype == DType::F16 || dtype == DType::BF16;
}

/// Where a value is while compiling. Registers are numbered without reuse until `allocate`.
struct Place {
  enum class Kind : std::uint8_t { None, Memory, Register, Output };
  Kind kind = Kind::None;
  std::size_t index = 0;
  Level level = Level::Block;
};

struct Draft {
  BlockFunction function;
  std::vector<Place> in;
  Place out;
  Level level = Level::Block;
  std::array<double, 2> params = {};
};

class Compiler {
 public:
  Compiler(const Body& body, const ir::OpView& op, const Choice& choice)
      : body_(body), program_{.space = makeSpace(body, op, choice)} {}

  std::optional<BlockProgram> compile() {
    program_.numInputs = body_.numInputs;
    program_.constants = body_.constants;
    const std::size_t operands = body_.numInputs + body_.constants.size();
    for (std::size_t i = 0; i < operands; ++i) {
      program_.operandBytes.push_back(byteSize(body_.values[i].dtype));
    }
    places_.resize(body_.values.size());
    if (program_.space.extents().size() > IterationSpace::kMaxAxes) {
      return std::nullopt;
    }
    for (const BodyOp& op : body_.ops) {
      if (!emit(op)) {
        return std::nullopt;
      }
    }
    for (std::size_t i = 0; i < body_.outputs.size(); ++i) {
      program_.outputBytes.push_back(byteSize(body_.values[body_.outputs[i]].dtype));
      emitOutput(i);
    }
    return allocate() ? std::optional(std::move(program_)) : std::nullopt;
  }

 private:
  static IterationSpace makeSpace(const Body& body, const ir::OpView& op, const Choice& choice) {
    std::vector<StoredShape> operands;
    for (std::size_t i = 0; i < body.numInputs + body.constants.size(); ++i) {
      operands.push_back(
          {body.values[i].shape, i < body.numInputs ? choice.inputs[i] : Layout::plain()});
    }
    return {{op.outputs[0].shape, choice.outputs[0]}, operands};
  }

  static Level levelOf(Access access) {
    switch (access) {
      case Access::Uniform:
        return Level::Tile;
      case Access::RowUniform:
        return Level::Row;
      default:
        return Level::Block;
    }
  }

  Place newRegister(Level level, std::size_t bytes) {
    registerBytes_.push_back(bytes);
    return {Place::Kind::Register, registerBytes_.size() - 1, level};
  }

  /// The value as instructions read it; loads and gathers operands when they are first used.
  Place placeOf(std::size_t value) {
    Place& place = places_[value];
    if (place.kind != Place::Kind::None) {
      return place;
    }
    const Access access = program_.space.operand(value).access;
    const DType dtype = body_.values[value].dtype;
    place = {Place::Kind::Memory, value, levelOf(access)};
    if (access == Access::Gathered) {
      const Place to = newRegister(Level::Block, byteSize(dtype));
      gathers_.push_back({value, to.index});
      place = to;
    }
    if (isSixteenBit(dtype)) {
      const Place to = newRegister(place.level, sizeof(float));
      drafts_.push_back({loadFunction(dtype), {place}, to, place.level});
      place = to;
    }
    return place;
  }

  bool emit(const BodyOp& op) {
    const TensorType& type = body_.values[op.output];
    std::vector<Place> in;
    Level level = Level::Tile;
    for (const std::size_t value : op.inputs) {
      in.push_back(placeOf(value));
      level = std::max(level, in.back().level);
    }
    const DType from = body_.values[op.inputs[op.name == "where" ? 1 : 0]].dtype;
    if (op.name == "broadcast_to" || op.name == "identity" ||
        (op.name == "cast" && from == type.dtype) ||
        (op.name == "cast" && isSixteenBit(from) && type.dtype == DType::F32)) {
      places_[op.output] = in[0];
      return true;
    }
    Draft draft{functionOf(op, from, type.dtype), std::move(in), {}, level, paramsOf(op)};
    if (draft.function == nullptr) {
      return false;
    }
    draft.out = newRegister(level, byteSize(heldAs(type.dtype)));
    places_[op.output] = draft.out;
    drafts_.push_back(draft);
    if (isSixteenBit(type.dtype) && !(op.name == "cast" && heldAs(from) == DType::F32)) {
      drafts_.push_back({roundFunction(type.dtype), {draft.out}, draft.out, level});
    }
    return true;
  }

  static BlockFunction functionOf(const BodyOp& op, DType from, DType to) {
    if (op.name == "cast") {
      // Between the 16-bit types and from float32 only the rounding is left.
      return isSixteenBit(to) && heldAs(from) == DType::F32
                 ? roundFunction(to)
                 : castFunction(heldAs(from), heldAs(to));
    }
    if (op.name == "clamp" && (from == DType::I64 || from == DType::U64)) {
      return nullptr;  // limits beyond the exact whole numbers of a double
    }
    const bool tanh =
        op.attrs->find("approximate") != nullptr && op.attrs->text("approximate") == "tanh";
    return findBlockFunction(tanh ? std::string(op.name) + ":tanh" : std::string(op.name),
                             heldAs(from));
  }

  std::array<double, 2> paramsOf(const BodyOp& op) const {
    if (op.name == "clamp") {
      const DType dtype = body_.values[op.output].dtype;
      const auto rounded = [&](std::string_view name) {
        return HostTensor::full({dtype, Shape{}}, op.attrs->real(name)).at(0);
      };
      return {rounded("low"), rounded("high")};
    }
    if (op.name == "elu" || op.name == "leaky_relu") {
      return {op.attrs->real("alpha"), 0.0};
    }
    return {};
  }

  /// Results go straight to the output where nothing read later may lie in the same memory (an
  /// output may take the place of an input); else from their register at the end of the block.
  void emitOutput(std::size_t i) {
    const std::size_t value = body_.outputs[i];
    const DType dtype = body_.values[value].dtype;
    const Place output{Place::Kind::Output, i, Level::Block};
    Place place = placeOf(value);
    if (place.kind == Place::Kind::Memory && place.level == Level::Block && body_.ops.size() > 1) {
      const Place copy = newRegister(Level::Block, byteSize(dtype));
      drafts_.insert(drafts_.begin(), {copyFunction(byteSize(dtype)), {place}, copy});
      place = copy;
    }
    const BlockFunction store =
        isSixteenBit(dtype) ? storeFunction(dtype) : copyFunction(byteSize(dtype));
    stores_.push_back({store, {place}, output});
  }

  static bool sameRegister(const Place& a, const Place& b) {
    return a.kind == Place::Kind::Register && b.kind == a.kind && a.index == b.index;
  }

  /// Lets the producer of a stored register write the output itself where that is safe.
  void writeDirectly() {
    for (std::size_t s = 0; s < stores_.size();) {
      const Place from = stores_[s].in[0];
      const Place output = stores_[s].out;
      const bool native = !isSixteenBit(body_.values[body_.outputs[output.index]].dtype);
      std::size_t producer = drafts_.size();
      while (producer > 0 && !sameRegister(drafts_[producer - 1].out, from)) {
        --producer;
      }
      bool safe = native && from.level == Level::Block && producer > 0;
      for (std::size_t i = producer; i < drafts_.size() && safe; ++i) {
        safe = std::ranges::none_of(drafts_[i].in, [](const Place& p) {
          return p.kind == Place::Kind::Memory && p.level == Level::Block;
        });
      }
      if (!safe) {
        ++s;
        continue;
      }
      stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(s));
      replaceRegister(from, output);
    }
    drafts_.insert(drafts_.end(), stores_.begin(), stores_.end());
  }

  void replaceRegister(const Place& from, const Place& output) {
    for (std::vector<Draft>* list : {&drafts_, &stores_}) {
      for (Draft& draft : *list) {
        for (Place& place : draft.in) {
          place = sameRegister(place, from) ? output : place;
        }
        draft.out = sameRegister(draft.out, from) ? output : draft.out;
      }
    }
  }

  /// Gives block registers storage, reusing it after the last read; singles keep theirs.
  bool allocate() {
    writeDirectly();
    std::vector<std::size_t> lastRead(registerBytes_.size(), 0);
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      for (const Place& place : drafts_[i].in) {
        if (place.kind == Place::Kind::Register) {
          lastRead[place.index] = i;
        }
      }
    }
    home_.assign(registerBytes_.size(), -1);
    for (const auto& [value, reg] : gathers_) {
      take(reg);
    }
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
      assign(drafts_[i], i, lastRead);
    }
    return layOut();
  }

  void take(std::size_t reg) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::int32_t>(program_.numRegisters++));
    }
    home_[reg] = free_.back();
    free_.pop_back();
  }

  void assign(const Draft& draft, std::size_t at, const std::vector<std::size_t>& lastRead) {
    const Place& out = draft.out;
    if (out.kind == Place::Kind::Register && home_[out.index] < 0) {
      if (out.level == Level::Block) {
        take(out.index);
      } else {
        home_[out.index] = static_cast<std::int32_t>(program_.numSingles++);
      }
    }
    for (std::size_t i = 0; i < draft.in.size(); ++i) {
      const Place& place = draft.in[i];
      const bool again = std::any_of(draft.in.begin(),
                                     draft.in.begin() + static_cast<std::ptrdiff_t>(i),
                                     [&](const Place& p) { return sameRegister(p, place); });
      if (place.kind == Place::Kind::Register && place.level == Level::Block &&
          lastRead[place.index] == at && !again && !sameRegister(place, out)) {
        free_.push_back(home_[place.index]);
      }
    }
  }

  std::int32_t slotOf(const Place& place) const {
    switch (place.kind) {
      case Place::Kind::Memory:
        return static_cast<std::int32_t>(place.index);
      case Place::Kind::Output:
        return static_cast<std::int32_t>(program_.firstOutput() + place.index);
      default:
        break;
    }
    const auto first = static_cast<std::int32_t>(
        program_.firstRegister() + (place.level == Level::Block ? 0 : program_.numRegisters));
    return first + home_[place.index];
  }

  bool layOut() {
    if (program_.numSlots() > kMaxSlots) {
      return false;
    }
    std::size_t widest = 1;
    for (const std::size_t bytes : registerBytes_) {
      widest = std::max(widest, bytes);
    }
    program_.blockElements = blockElements(widest);
    program_.registerBytes =
        static_cast<std::size_t>(program_.blockElements) * widest + kRegisterGap;
    if (program_.numRegisters * program_.registerBytes + program_.numSingles * kSingleBytes >
        kArenaBytes) {
      return false;
    }
    for (const auto& [value, reg] : gathers_) {
      program_.gathers.push_back(
          {static_cast<std::int32_t>(value), slotOf({Place::Kind::Register, reg, Level::Block})});
    }
    for (const Draft& draft : drafts_) {
      BlockInstruction instruction{.function = draft.function,
                                   .out = slotOf(draft.out),
                                   .level = draft.level,
                                   .params = draft.params};
      for (std::size_t i = 0; i < draft.in.size(); ++i) {
        instruction.in[i] = slotOf(draft.in[i]);
        instruction.single |= draft.in[i].level != Level::Block ? 1U << i : 0U;
      }
      listOf(draft.level).push_back(instruction);
    }
    return true;
  }

  /// Without registers whole tiles; else what keeps the registers and the blocks of all operands
  /// in half a level 1 cache.
  std::int64_t blockElements(std::size_t widest) const {
    if (program_.numRegisters == 0) {
      return kTileElements;
    }
    const std::size_t blocks =
        program_.numRegisters + program_.operandBytes.size() + program_.outputBytes.size();
    const auto fit = static_cast<std::int64_t>(16384 / (blocks * widest)) / 64 * 64;
    return std::clamp<std::int64_t>(fit, 64, 1024);
  }

  std::vector<BlockInstruction>& listOf(Level level) {
    switch (level) {
      case Level::Tile:
        return program_.tile;
      case Level::Row:
        return program_.row;
      default:
        return program_.block;
    }
  }

  const Body& body_;
  BlockProgram program_;
  std::vector<Place> places_;
  std::vector<Draft> drafts_;
  std::vector<Draft> stores_;
  std::vector<std::pair<std::size_t, std::size_t>> gathers_;  // operand, register
  std::vector<std::size_t> registerBytes_;
  std::vector<std::int32_t> home_;
  std::vector<std::int32_t> free_;
};

}  // namespace

std::optional<BlockProgram> compileBlocks(const ir::OpView& op, const Choice& choice) {
  for (const TensorType& type : op.outputs) {
    if (type.shape != op.outputs[0].shape) {
      return std::nullopt;
    }
  }
  const std::optional<Body> body =
      op.def.name == "fused" ? fusedBody(op) : std::optional(singleBody(op));
  return body ? Compiler(*body, op, choice).compile() : std::nullopt;
}

}  // namespace sluice::devices::cpu
