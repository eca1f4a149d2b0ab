#include "sluice/ir/printer.h"

#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <type_traits>
#include <unordered_map>

#include <fmt/format.h>

#include "sluice/ir/number_text.h"

namespace sluice::ir {
namespace {

class Printer {
 public:
  void graph(const Graph& graph, int depth);
  std::string take() { return std::move(text_); }
  /// The attributes that are no defaults, each after a separator: `first`, then a comma.
  void attrs(const OpDef& def, const Attrs& attrs, int depth, std::string_view first);
  void quoted(std::string_view text);

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void indent(int depth) { text_.append(static_cast<std::size_t>(depth) * 2, ' '); }
  template <class Items, class PrintItem>
  void list(const Items& items, PrintItem printItem) {
    std::string_view separator;
    for (const auto& item : items) {
      text_ += separator;
      printItem(item);
      separator = ", ";
    }
  }

  void variable(const Variable& variable);
  void op(const Graph& graph, const Op& op, int depth);
  void attr(const Attr& attr, int depth);
  void placement(const Graph& graph, const Placement& place);
  void value(Value value);
  void tensor(const HostTensor& tensor);

  std::string text_;
  std::unordered_map<Value, std::int64_t> numbers_;
};

void Printer::graph(const Graph& graph, int depth) {
  const auto outer = std::exchange(numbers_, {});
  for (const OpId id : graph.order()) {
    const Op& op = graph.op(id);
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      numbers_.emplace(op.out(i), static_cast<std::int64_t>(numbers_.size()));
    }
  }
  text_ += "graph ";
  quoted(graph.name());
  text_ += " {\n";
  for (const Variable& item : graph.variables()) {
    indent(depth + 1);
    variable(item);
  }
  for (const OpId id : graph.order()) {
    indent(depth + 1);
    op(graph, graph.op(id), depth + 1);
  }
  for (const Output& output : graph.outputs()) {
    indent(depth + 1);
    text_ += "output ";
    quoted(output.name);
    text_ += " = ";
    value(output.value);
    text_ += '\n';
  }
  indent(depth);
  text_ += '}';
  numbers_ = outer;
}

void Printer::variable(const Variable& variable) {
  const Initializer& init = variable.initializer;
  text_ += "var ";
  quoted(variable.name);
  add(": {} {}{} ", variable.type.str(), name(variable.role), variable.trainable ? "" : " frozen");
  if (variable.split) {
    add("split {} of {} ", variable.split->parts, variable.wholeType().str());
  }
  text_ += "init ";
  switch (init.kind) {
    case Initializer::Kind::Constant:
      add("constant({})", realText(init.a));
      break;
    case Initializer::Kind::Uniform:
      add("uniform({}, {})", realText(init.a), realText(init.b));
      break;
    case Initializer::Kind::Normal:
      add("normal({}, {})", realText(init.a), realText(init.b));
      break;
    case Initializer::Kind::Tensor:
      tensor(init.tensor);
      break;
  }
  text_ += '\n';
}

void Printer::op(const Graph& graph, const Op& op, int depth) {
  if (!op.outputs.empty()) {
    std::vector<Value> results;
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      results.push_back(op.out(i));
    }
    list(results, [&](Value v) { value(v); });
    text_ += " = ";
  }
  add("{}(", op.def->name);
  list(op.inputs, [&](Value v) { value(v); });
  text_ += ')';
  attrs(*op.def, op.attrs, depth, " {");
  if (!op.name.empty()) {
    text_ += ' ';
    quoted(op.name);
  }
  if (!op.outputs.empty() || op.place != Placement{}) {
    text_ += " :";
  }
  if (!op.outputs.empty()) {
    text_ += ' ';
    list(op.outputs, [&](const TensorType& type) { text_ += type.str(); });
  }
  placement(graph, op.place);
  text_ += '\n';
}

void Printer::placement(const Graph& graph, const Placement& place) {
  if (place.pass != Pass::Forward) {
    add(" @{}", name(place.pass));
  }
  if (place.block >= 0) {
    const auto index = static_cast<std::size_t>(place.block);
    text_ += " block=";
    quoted(index < graph.blocks().size() ? std::string_view(graph.blocks()[index]) : "?");
  }
  if (place.stage != -1) {
    add(" stage={}", place.stage);
  }
  if (place.phase != -1) {
    add(" phase={}", place.phase);
  }
  if (place.device != -1) {
    add(" device={}", place.device);
  }
}

void Printer::attrs(const OpDef& def, const Attrs& attrs, int depth, std::string_view first) {
  std::string_view separator = first;
  for (const AttrSpec& spec : def.attrs) {
    const Attr* found = attrs.find(spec.name);
    if (found == nullptr || (!spec.required && equal(*found, defaultOf(spec)))) {
      continue;
    }
    add("{}{}=", separator, spec.name);
    attr(*found, depth);
    separator = ", ";
  }
  if (separator == ", ") {
    text_ += '}';
  }
}

void Printer::attr(const Attr& attr, int depth) {
  switch (kindOf(attr)) {
    case AttrKind::Int:
      add("{}", std::get<std::int64_t>(attr));
      break;
    case AttrKind::Real:
      text_ += realTextWithPoint(std::get<double>(attr));
      break;
    case AttrKind::Bool:
      add("{}", std::get<bool>(attr));
      break;
    case AttrKind::Text:
      quoted(std::get<std::string>(attr));
      break;
    case AttrKind::Ints:
      add("[{}]", fmt::join(std::get<std::vector<std::int64_t>>(attr), ", "));
      break;
    case AttrKind::Reals:
      text_ += '[';
      list(std::get<std::vector<double>>(attr), [&](double d) { text_ += realTextWithPoint(d); });
      text_ += ']';
      break;
    case AttrKind::Texts:
      text_ += '[';
      list(std::get<std::vector<std::string>>(attr), [&](std::string_view s) { quoted(s); });
      text_ += ']';
      break;
    case AttrKind::Tensor:
      tensor(std::get<HostTensor>(attr));
      break;
    case AttrKind::Subgraph:
      if (const GraphRef& nested = std::get<GraphRef>(attr); nested != nullptr) {
        graph(*nested, depth);
      } else {
        text_ += "null";
      }
      break;
  }
}

void Printer::value(Value value) {
  const auto found = numbers_.find(value);
  if (found == numbers_.end()) {
    text_ += "%?";  // only in a broken graph
  } else {
    add("%{}", found->second);
  }
}

void Printer::quoted(std::string_view text) {
  text_ += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\t':
        text_ += "\\t";
        break;
      case '\r':
        text_ += "\\r";
        break;
      default:
        if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
          add("\\x{:02x}", byte);
        } else {
          text_ += c;
        }
    }
  }
  text_ += '"';
}

void Printer::tensor(const HostTensor& tensor) {
  add("tensor<{}", tensor.type().str());
  std::string_view separator = " ";
  dispatch(tensor.dtype(), [&]<class T>(T) {
    for (const T element : tensor.data<T>()) {
      text_ += separator;
      if constexpr (std::is_integral_v<T>) {
        add("{}", element);
      } else {
        text_ += realText(element);
      }
      separator = ", ";
    }
  });
  text_ += '>';
}

}  // namespace

std::string print(const Graph& graph) {
  Printer printer;
  printer.graph(graph, 0);
  std::string text = printer.take();
  text += '\n';
  return text;
}

std::string print(const OpDef& def, const Attrs& attrs) {
  Printer printer;
  printer.attrs(def, attrs, 0, "{");
  const std::string text = printer.take();
  return text.empty() ? "{}" : text;
}

std::string quote(std::string_view text) {
  Printer printer;
  printer.quoted(text);
  return printer.take();
}

}  // namespace sluice::ir
