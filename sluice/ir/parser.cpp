#include "sluice/ir/parser.h"

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/ir/lexer.h"
#include "sluice/ir/number_text.h"

namespace sluice::ir {
namespace {

using Kind = Token::Kind;

/// What is known while the statements of one graph are read.
struct Scope {
  Graph graph;
  std::unordered_map<std::uint64_t, Value> values = {};
  std::unordered_set<std::string> inputs = {};
  int depth = 1;
};

/// The left side of an op statement.
struct Result {
  std::uint64_t number = 0;
  std::size_t offset = 0;
};

/// One function per rule of the grammar; each leaves the lexer behind what it read.
class Parser {
 public:
  Parser(std::string_view text, const OpSet& ops) : lexer_(text), ops_(ops) {}

  Graph whole() {
    Graph result = graph(1);
    requireEnd();
    return result;
  }
  Attrs wholeAttrs(const OpDef& def) {
    const Scope scope{.graph = Graph("")};
    Attrs result = completeAttrs(def, attrs(scope, def));
    requireEnd();
    return result;
  }
  TensorType wholeType() {
    TensorType result = type();
    requireEnd();
    return result;
  }

 private:
  Graph graph(int depth);
  void variable(Scope& scope);
  Initializer initializer(const TensorType& type);
  void output(Scope& scope);
  void op(Scope& scope);
  std::vector<Result> results(const Scope& scope);
  std::vector<Value> operands(const Scope& scope);
  Attrs attrs(const Scope& scope, const OpDef& def);
  Attr attr(AttrKind kind, int depth);
  std::vector<TensorType> types(std::size_t count, std::size_t offset);
  Placement placement(Scope& scope);
  OpId append(Scope& scope, NewOp wanted, std::size_t offset);

  TensorType type();
  Value value(const Scope& scope);
  HostTensor tensor();
  template <class T>
  HostTensor elements(const TensorType& type);
  template <class T>
  T element();
  template <class T>
  T real();
  template <class T>
  T integer(std::string_view wanted);
  bool flag();
  std::string text(std::string_view wanted);
  template <class T, class ReadItem>
  std::vector<T> list(char close, ReadItem readItem);

  void requireEnd() {
    if (lexer_.peek().kind != Kind::End) {
      lexer_.failExpected("the end of the text");
    }
  }
  void mark(char wanted) {
    if (!accept(wanted)) {
      lexer_.failExpected(fmt::format("'{}'", wanted));
    }
  }
  bool accept(char wanted) {
    const bool found = lexer_.peek().isMark(wanted);
    if (found) {
      lexer_.take();
    }
    return found;
  }
  bool acceptWord(std::string_view wanted) {
    const bool found = lexer_.peek().isWord(wanted);
    if (found) {
      lexer_.take();
    }
    return found;
  }
  void word(std::string_view wanted) {
    if (!acceptWord(wanted)) {
      lexer_.failExpected(fmt::format("'{}'", wanted));
    }
  }
  /// Runs a step of the graph's own checks; what it throws gets this place.
  template <class Step>
  auto placed(std::size_t offset, Step step) {
    try {
      return step();
    } catch (InvalidArgument& error) {
      error.at(lexer_.place(offset));
      throw;
    }
  }

  Lexer lexer_;
  const OpSet& ops_;
};

Graph Parser::graph(int depth) {
  if (depth > kMaxGraphDepth) {
    lexer_.fail(lexer_.peek().offset,
                fmt::format("graphs are nested deeper than {}", kMaxGraphDepth));
  }
  word("graph");
  Scope scope{.graph = Graph(text("the name of the graph")), .depth = depth};
  mark('{');
  while (!accept('}')) {
    if (lexer_.peek().isWord("var")) {
      variable(scope);
    } else if (lexer_.peek().isWord("output")) {
      output(scope);
    } else {
      op(scope);
    }
  }
  return std::move(scope.graph);
}

void Parser::variable(Scope& scope) {
  word("var");
  const std::size_t offset = lexer_.peek().offset;
  Variable variable;
  variable.name = text("the name of a variable");
  if (scope.graph.findVariable(variable.name) != nullptr) {
    lexer_.fail(offset, fmt::format("variable '{}' is declared twice", variable.name));
  }
  mark(':');
  variable.type = type();
  bool known = false;
  for (const auto role : {VariableRole::Weight,
                          VariableRole::OptimizerState,
                          VariableRole::Accumulator,
                          VariableRole::Buffer,
                          VariableRole::StepScalar}) {
    if (!known && acceptWord(name(role))) {
      variable.role = role;
      known = true;
    }
  }
  if (!known) {
    lexer_.failExpected("weight, optimizer, accumulator, buffer or scalar");
  }
  variable.trainable = !acceptWord("frozen");
  if (acceptWord("split")) {
    variable.split.emplace();
    variable.split->parts = integer<std::int32_t>("a number of parts");
    word("of");
    variable.split->whole = type().shape;
  }
  word("init");
  variable.initializer = initializer(variable.wholeType());
  scope.graph.addVariable(std::move(variable));
}

Initializer Parser::initializer(const TensorType& type) {
  const std::size_t offset = lexer_.peek().offset;
  if (lexer_.peek().isWord("tensor")) {
    HostTensor value = tensor();
    if (value.type() != type) {
      lexer_.fail(
          offset,
          fmt::format(
              "expected an initial value of type {}, found {}", type.str(), value.type().str()));
    }
    return Initializer::of(std::move(value));
  }
  const bool constant = acceptWord("constant");
  const bool uniform = !constant && acceptWord("uniform");
  if (!constant && !uniform && !acceptWord("normal")) {
    lexer_.failExpected("constant, uniform, normal or tensor");
  }
  mark('(');
  const auto a = real<double>();
  double b = 0.0;
  if (!constant) {
    mark(',');
    b = real<double>();
  }
  mark(')');
  return constant  ? Initializer::constant(a)
         : uniform ? Initializer::uniform(a, b)
                   : Initializer::normal(a, b);
}

void Parser::output(Scope& scope) {
  word("output");
  const std::size_t offset = lexer_.peek().offset;
  std::string name = text("the name of an output");
  mark('=');
  const Value made = value(scope);
  placed(offset, [&] { scope.graph.addOutput(std::move(name), made); });
}

void Parser::op(Scope& scope) {
  const std::size_t start = lexer_.peek().offset;
  const std::vector<Result> left = results(scope);
  if (lexer_.peek().kind != Kind::Word) {
    lexer_.failExpected(left.empty() ? "var, output, an op or '}'" : "the name of an op");
  }
  const Token opName = lexer_.take();
  const OpDef* def = ops_.find(opName.source);
  if (def == nullptr) {
    lexer_.fail(opName.offset, fmt::format("there is no op named '{}'", opName.source));
  }
  NewOp wanted{.def = *def, .inputs = operands(scope)};
  if (lexer_.peek().isMark('{')) {
    wanted.attrs = attrs(scope, *def);
  }
  const std::size_t nameOffset = lexer_.peek().offset;
  if (lexer_.peek().kind == Kind::Text) {
    wanted.name = text("the name of the op");
  }
  if (def == &kInput && !scope.inputs.insert(wanted.name).second) {
    lexer_.fail(nameOffset, fmt::format("input '{}' is declared twice", wanted.name));
  }
  if (!left.empty() || lexer_.peek().isMark(':')) {
    mark(':');
    wanted.types = types(left.size(), start);
    wanted.place = placement(scope);
  }
  const OpId id = append(scope, std::move(wanted), start);
  for (std::size_t i = 0; i < left.size(); ++i) {
    scope.values.emplace(left[i].number, Value{id, static_cast<std::uint16_t>(i)});
  }
}

/// Appends the op if the graph's checks and inference agree with the text.
OpId Parser::append(Scope& scope, NewOp wanted, std::size_t offset) {
  const OpDef& def = wanted.def;
  const std::vector<TensorType> written = wanted.types;
  // The graph takes the types of these as given and trusts their number.
  if (def.infer == nullptr && static_cast<int>(written.size()) != def.outputs) {
    lexer_.fail(offset,
                fmt::format("{} has {} results, found {}", def.name, def.outputs, written.size()));
  }
  const OpId id = placed(offset, [&] { return scope.graph.append(std::move(wanted)); });
  const std::vector<TensorType>& inferred = scope.graph.op(id).outputs;
  if (inferred != written) {
    const auto str = [](const std::vector<TensorType>& list) {
      std::string joined;
      for (const TensorType& item : list) {
        joined += (joined.empty() ? "" : ", ") + item.str();
      }
      return joined.empty() ? std::string("no result") : joined;
    };
    lexer_.fail(
        offset,
        fmt::format("{} gives {}, the text says {}", def.name, str(inferred), str(written)));
  }
  return id;
}

std::vector<Result> Parser::results(const Scope& scope) {
  std::vector<Result> left;
  if (lexer_.peek().kind != Kind::Value) {
    return left;
  }
  std::unordered_set<std::uint64_t> own;
  do {
    const Token token = lexer_.peek();
    if (token.kind != Kind::Value) {
      lexer_.failExpected("a value such as %0");
    }
    const auto number = parseInteger<std::uint64_t>(token.source);
    if (!number) {
      lexer_.failExpected("a value number below 2^64");
    }
    if (scope.values.contains(*number) || !own.insert(*number).second) {
      lexer_.fail(token.offset, fmt::format("value %{} is defined twice", *number));
    }
    if (left.size() == std::numeric_limits<std::uint16_t>::max()) {
      lexer_.fail(token.offset, fmt::format("an op has at most {} results", left.size()));
    }
    left.push_back({*number, token.offset});
    lexer_.take();
  } while (accept(','));
  mark('=');
  return left;
}

std::vector<Value> Parser::operands(const Scope& scope) {
  mark('(');
  return list<Value>(')', [&] { return value(scope); });
}

Value Parser::value(const Scope& scope) {
  const Token token = lexer_.peek();
  if (token.kind != Kind::Value) {
    lexer_.failExpected("a value such as %0");
  }
  const auto number = parseInteger<std::uint64_t>(token.source);
  const auto found = number ? scope.values.find(*number) : scope.values.end();
  if (found == scope.values.end()) {
    lexer_.fail(token.offset,
                fmt::format("value %{} is not defined before its use", token.source.substr(0, 24)));
  }
  lexer_.take();
  return found->second;
}

Attrs Parser::attrs(const Scope& scope, const OpDef& def) {
  Attrs attrs;
  mark('{');
  while (!accept('}')) {
    if (attrs.size() != 0) {
      mark(',');
    }
    if (lexer_.peek().kind != Kind::Word) {
      lexer_.failExpected("the name of an attribute");
    }
    const Token key = lexer_.take();
    const AttrSpec* spec = nullptr;
    for (const AttrSpec& candidate : def.attrs) {
      spec = candidate.name == key.source ? &candidate : spec;
    }
    if (spec == nullptr) {
      lexer_.fail(key.offset, fmt::format("{} has no attribute '{}'", def.name, key.source));
    }
    if (attrs.find(key.source) != nullptr) {
      lexer_.fail(key.offset, fmt::format("attribute '{}' is given twice", key.source));
    }
    mark('=');
    attrs.set({key.source, attr(spec->kind, scope.depth)});
  }
  return attrs;
}

Attr Parser::attr(AttrKind kind, int depth) {
  const auto wantedInteger = [&] { return integer<std::int64_t>("an integer"); };
  switch (kind) {
    case AttrKind::Int:
      return wantedInteger();
    case AttrKind::Real:
      return real<double>();
    case AttrKind::Bool:
      return flag();
    case AttrKind::Text:
      return text("a string");
    case AttrKind::Ints:
      mark('[');
      return list<std::int64_t>(']', wantedInteger);
    case AttrKind::Reals:
      mark('[');
      return list<double>(']', [&] { return real<double>(); });
    case AttrKind::Texts:
      mark('[');
      return list<std::string>(']', [&] { return text("a string"); });
    case AttrKind::Tensor:
      return tensor();
    case AttrKind::Subgraph:
      break;
  }
  return std::make_shared<const Graph>(graph(depth + 1));
}

std::vector<TensorType> Parser::types(std::size_t count, std::size_t offset) {
  std::vector<TensorType> found;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && !accept(',')) {
      lexer_.fail(offset, fmt::format("expected {} result types, found {}", count, i));
    }
    found.push_back(type());
  }
  return found;
}

Placement Parser::placement(Scope& scope) {
  Placement place;
  if (accept('@')) {
    if (acceptWord("backward")) {
      place.pass = Pass::Backward;
    } else if (acceptWord("update")) {
      place.pass = Pass::Update;
    } else if (!acceptWord("forward")) {
      lexer_.failExpected("forward, backward or update");
    }
  }
  if (acceptWord("block")) {
    mark('=');
    place.block = scope.graph.blockIndex(text("the name of a block"));
  }
  const std::array<std::pair<std::string_view, std::int32_t*>, 3> fields = {
      {{"stage", &place.stage}, {"phase", &place.phase}, {"device", &place.device}}};
  for (const auto& [key, field] : fields) {
    if (acceptWord(key)) {
      mark('=');
      const std::size_t offset = lexer_.peek().offset;
      *field = integer<std::int32_t>("an index");
      if (*field < 0) {
        lexer_.fail(offset, fmt::format("{} is {}, expected 0 or more", key, *field));
      }
    }
  }
  return place;
}

TensorType Parser::type() {
  const Token token = lexer_.peek();
  const auto dtype = token.kind == Kind::Word ? parseDType(token.source) : std::nullopt;
  if (!dtype) {
    lexer_.failExpected("a type such as f32[2, 3]");
  }
  lexer_.take();
  mark('[');
  auto dims = list<std::int64_t>(']', [&] { return integer<std::int64_t>("an extent"); });
  return placed(token.offset, [&] { return TensorType{*dtype, Shape(std::move(dims))}; });
}

HostTensor Parser::tensor() {
  word("tensor");
  mark('<');
  const TensorType wanted = type();
  return dispatch(wanted.dtype, [&]<class T>(T) { return elements<T>(wanted); });
}

/// Reads first and allocates the tensor last: memory is bounded by the length of the text.
template <class T>
HostTensor Parser::elements(const TensorType& type) {
  const std::size_t offset = lexer_.peek().offset;
  const auto wanted = static_cast<std::size_t>(type.shape.elements());
  // vector<bool> has no elements to copy from.
  std::vector<std::conditional_t<std::is_same_v<T, bool>, char, T>> found;
  while (!accept('>')) {
    if (!found.empty()) {
      mark(',');
    }
    found.push_back(element<T>());
  }
  if (found.size() != wanted) {
    lexer_.fail(
        offset,
        fmt::format("expected {} elements for {}, found {}", wanted, type.str(), found.size()));
  }
  HostTensor tensor(type);
  for (std::size_t i = 0; i < found.size(); ++i) {
    tensor.data<T>()[i] = static_cast<T>(found[i]);
  }
  return tensor;
}

template <class T>
T Parser::element() {
  if constexpr (std::is_same_v<T, bool>) {
    return flag();
  } else if constexpr (std::is_integral_v<T>) {
    return integer<T>(fmt::format("an integer of type {}", name(kDTypeOf<T>)));
  } else {
    return real<T>();
  }
}

template <class T>
T Parser::real() {
  const Token& token = lexer_.peek();
  std::optional<T> found;
  if (token.kind == Kind::Number || token.kind == Kind::Word) {
    found = parseReal<T>(token.source);
  }
  const bool nan = token.isWord("nan");
  if (!found) {
    lexer_.failExpected(fmt::format("a number of type {}", name(kDTypeOf<T>)));
  }
  lexer_.take();
  if (nan && accept('(')) {
    const auto bits = parseHex(lexer_.peek().source);
    found = bits ? nanOfBits<T>(*bits) : std::nullopt;
    if (!found) {
      lexer_.failExpected(fmt::format("the bits of a NaN of type {}", name(kDTypeOf<T>)));
    }
    lexer_.take();
    mark(')');
  }
  return *found;
}

template <class T>
T Parser::integer(std::string_view wanted) {
  const Token& token = lexer_.peek();
  const auto found =
      token.kind == Kind::Number ? parseInteger<T>(token.source) : std::optional<T>();
  if (!found) {
    lexer_.failExpected(wanted);
  }
  lexer_.take();
  return *found;
}

bool Parser::flag() {
  const bool yes = lexer_.peek().isWord("true");
  if (!yes && !lexer_.peek().isWord("false")) {
    lexer_.failExpected("true or false");
  }
  lexer_.take();
  return yes;
}

std::string Parser::text(std::string_view wanted) {
  if (lexer_.peek().kind != Kind::Text) {
    lexer_.failExpected(fmt::format("{} in quotes", wanted));
  }
  return std::move(lexer_.take().text);
}

template <class T, class ReadItem>
std::vector<T> Parser::list(char close, ReadItem readItem) {
  std::vector<T> items;
  while (!accept(close)) {
    if (!items.empty()) {
      mark(',');
    }
    items.push_back(readItem());
  }
  return items;
}

}  // namespace

Graph parse(std::string_view text, const OpSet& ops) {
  return Parser(text, ops).whole();
}

Attrs parseAttrs(std::string_view text, const OpDef& def, const OpSet& ops) {
  return Parser(text, ops).wholeAttrs(def);
}

TensorType parseType(std::string_view text) {
  return Parser(text, OpSet({})).wholeType();
}

}  // namespace sluice::ir
