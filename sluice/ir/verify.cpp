#include "sluice/ir/verify.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::ir {
namespace {

/// Checks one graph; stops at the first broken rule.
class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.numIds(), false) {}

  void run() {
    variables();
    for (const OpId id : graph_.order()) {
      const Op& op = graph_.op(id);
      operands(op);
      attributes(op);
      types(op);
      variableOf(op);
      placement(op);
      if (op.is(kInput)) {
        require(inputNames_.insert(op.name).second, op, "its name is also that of another input");
      }
      defined_[id] = true;
    }
    outputs();
  }

 private:
  // Texts are made only for what is wrong: making them takes longer than looking.
  template <class... Args>
  void require(bool condition,
               const Op& op,
               fmt::format_string<Args...> rule,
               Args&&... args) const {
    if (!condition) {
      raise<InternalError>("graph '{}': {} %{} \"{}\": {}",
                           graph_.name(),
                           op.def->name,
                           op.id.value,
                           op.name,
                           fmt::format(rule, std::forward<Args>(args)...));
    }
  }
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> rule, Args&&... args) const {
    if (!condition) {
      raise<InternalError>(
          "graph '{}': {}", graph_.name(), fmt::format(rule, std::forward<Args>(args)...));
    }
  }

  void variables() {
    std::unordered_set<std::string_view> names;
    for (const Variable& variable : graph_.variables()) {
      require(names.insert(variable.name).second, "variable '{}' exists twice", variable.name);
      const Initializer& init = variable.initializer;
      if (init.kind == Initializer::Kind::Tensor && init.tensor.type() != variable.wholeType()) {
        require(false,
                "variable '{}' is {}, its initial value {}",
                variable.name,
                variable.wholeType().str(),
                init.tensor.type().str());
      }
      const Shape part = variable.type.shape;
      if (variable.split &&
          (variable.split->parts < 1 ||
           part != Shape{partOf(variable.split->whole.elements(), variable.split->parts)})) {
        require(false,
                "variable '{}' is {}, and is no part of what is split",
                variable.name,
                variable.type.str());
      }
    }
  }

  void operands(const Op& op) const {
    const auto count = static_cast<int>(op.inputs.size());
    require(count >= op.def->minInputs &&
                (op.def->maxInputs == kVariadic || count <= op.def->maxInputs),
            op,
            "it has {} operands, which its definition does not allow",
            count);
    for (const Value v : op.inputs) {
      require(graph_.contains(v.op), op, "it reads an op that does not exist");
      const Op& producer = graph_.op(v.op);
      require(v.out < producer.outputs.size(),
              op,
              "it reads output {} of {} %{}, which has {}",
              v.out,
              producer.def->name,
              v.op.value,
              producer.outputs.size());
      require(defined_[v.op], op, "it reads %{} before it is made", v.op.value);
      require(producer.place.pass <= op.place.pass,
              op,
              "a {} op reads %{} of pass {}",
              name(op.place.pass),
              v.op.value,
              name(producer.place.pass));
    }
  }

  void attributes(const Op& op) const {
    try {
      checkAttrs(*op.def, op.attrs);
    } catch (const InvalidArgument& error) {
      require(false, op, "its attributes are wrong: {}", error.message());
    }
    // All are known and none is there twice, so that their number tells.
    require(
        op.attrs.size() == op.def->attrs.size(), op, "attributes with a default are not filled in");
    for (const NamedAttr& item : op.attrs) {
      if (const auto* nested = std::get_if<GraphRef>(&item.value)) {
        verify(**nested);
      }
    }
    if (op.def->traits.random) {
      const Attr* ordinal = op.attrs.find("ordinal");
      const auto* number = ordinal == nullptr ? nullptr : std::get_if<std::int64_t>(ordinal);
      require(
          number != nullptr && *number >= 0, op, "it is random and has no ordinal of 0 or more");
    }
  }

  void types(const Op& op) const {
    require(op.def->outputs == kVariadic || static_cast<int>(op.outputs.size()) == op.def->outputs,
            op,
            "it has {} results, expected {}",
            op.outputs.size(),
            op.def->outputs);
    if (op.def->infer == nullptr) {
      return;
    }
    const std::vector<TensorType> inputs = graph_.inputTypes(op);
    std::vector<TensorType> inferred;
    try {
      inferred = op.def->infer({*op.def, op.attrs, inputs, {}});
    } catch (const InvalidArgument& error) {
      require(false, op, "its operands do not fit: {}", error.message());
    }
    require(inferred.size() == op.outputs.size(),
            op,
            "it has {} results, inference gives {}",
            op.outputs.size(),
            inferred.size());
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      if (inferred[i] != op.outputs[i]) {
        require(false,
                op,
                "result {} has type {}, inference gives {}",
                i,
                op.outputs[i].str(),
                inferred[i].str());
      }
    }
  }

  void variableOf(const Op& op) const {
    const Attr* attr = op.attrs.find("var");
    if (attr == nullptr) {
      return;
    }
    require(op.is(kVariable) || op.is(kAssign), op, "only variable and assign name a variable");
    const auto& wanted = std::get<std::string>(*attr);
    const Variable* variable = graph_.findVariable(wanted);
    require(variable != nullptr, op, "there is no variable '{}'", wanted);
    const TensorType& type = op.is(kVariable) ? op.outputs[0] : graph_.type(op.inputs[0]);
    if (type != variable->type) {
      require(false, op, "variable '{}' is {}, not {}", wanted, variable->type.str(), type.str());
    }
  }

  void placement(const Op& op) const {
    const Placement& place = op.place;
    require(place.pass <= Pass::Update, op, "its pass is none of the three");
    require(place.stage >= -1 && place.phase >= -1 && place.device >= -1,
            op,
            "its stage {}, phase {} or device {} is below -1",
            place.stage,
            place.phase,
            place.device);
    require(place.block >= -1 && place.block < static_cast<std::int32_t>(graph_.blocks().size()),
            op,
            "its block {} is none of the {} blocks",
            place.block,
            graph_.blocks().size());
  }

  void outputs() const {
    std::unordered_set<std::string_view> names;
    for (const Output& output : graph_.outputs()) {
      require(names.insert(output.name).second, "output '{}' exists twice", output.name);
      require(graph_.contains(output.value.op) &&
                  output.value.out < graph_.op(output.value.op).outputs.size(),
              "output '{}' is a value that does not exist",
              output.name);
    }
  }

  const Graph& graph_;
  ById<OpId, bool> defined_;
  std::unordered_set<std::string_view> inputNames_;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace sluice::ir
