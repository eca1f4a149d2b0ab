#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "sluice/api/checkpoint.h"
#include "sluice/api/session.h"
#include "sluice/base/error.h"
#include "sluice/base/log.h"

namespace sluice {
namespace {

constexpr std::string_view kState = "state";
constexpr std::string_view kGroups = "param_groups";
constexpr std::string_view kStep = "optimizer.step";
/// Attributes that have the same name on both sides; betas are a pair there.
constexpr std::array<std::string_view, 6> kSameName = {
    "lr", "weight_decay", "eps", "momentum", "dampening", "alpha"};

/// "12.exp_avg" as 12 and "exp_avg".
struct Key {
  std::size_t number = 0;
  std::string_view name;
};

Key keyOf(std::string_view text) {
  Key key;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key.number);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') {
    raise<InvalidArgument>("importTorch: expected a name such as 0.exp_avg, got '{}'", text);
  }
  key.name = text.substr(static_cast<std::size_t>(end - text.data()) + 1);
  return key;
}

std::string joined(std::size_t number, std::string_view name) {
  return fmt::format("{}.{}", number, name);
}

optim::Attributes requireTorchRule(const optim::Optimizer* optimizer) {
  if (optimizer == nullptr) {
    raise<InvalidArgument>("the model is for inference and has no optimizer");
  }
  std::optional<optim::Attributes> flags = optimizer->torchFlags();
  if (!flags) {
    raise<Unsupported>("PyTorch has no rule with the state of {} as it is set here",
                       optimizer->name());
  }
  return *flags;
}

/// The weights of each group, in the order of the model.
std::vector<std::vector<ir::Variable>> weightsByGroup(const Model& model) {
  std::vector<std::vector<ir::Variable>> groups(model.optimizer()->numGroups());
  for (const ir::Variable& variable : model.variables()) {
    if (variable.role == ir::VariableRole::Weight) {
      groups[model.optimizer()->groupOf(variable.name)].push_back(variable);
    }
  }
  return groups;
}

const NamedTensors& sectionOf(const OptimizerStateDict& dict, std::string_view name) {
  const auto found = dict.find(name);
  if (found == dict.end()) {
    raise<InvalidArgument>("importTorch: the dictionary has no '{}'", name);
  }
  return found->second;
}

double numberOf(const HostTensor& tensor, std::string_view name) {
  if (tensor.shape().elements() != 1) {
    raise<InvalidArgument>("importTorch: {} is {}, expected a number", name, tensor.type().str());
  }
  return tensor.at(0);
}

/// One conversion from PyTorch under way.
class Import {
 public:
  Import(Model& model, const OptimizerStateDict& torch)
      : model_(model),
        flags_(requireTorchRule(model.optimizer().get())),
        torch_(torch),
        result_(model.optimizerStateDict()) {}

  OptimizerStateDict run() {
    addAttributes();
    numberWeights();
    addState();
    return std::move(result_);
  }

 private:
  NamedTensors& params() { return result_.find(kIpuParam)->second; }

  void setAttribute(std::size_t group, std::string_view attribute, double value) {
    const std::string name =
        group == 0 ? std::string(attribute) : fmt::format("group{}.{}", group, attribute);
    const auto found = params().find(name);
    if (found != params().end()) {
      found->second = HostTensor::scalar(value);
    } else {
      raise<InvalidArgument>("importTorch: {} has no {}: the dictionary is of another rule",
                             model_.optimizer()->name(),
                             attribute);
    }
  }

  void addAttributes() {
    groups_.resize(model_.optimizer()->numGroups());
    for (const auto& [text, tensor] : sectionOf(torch_, kGroups)) {
      const Key key = keyOf(text);
      if (key.number >= groups_.size()) {
        raise<InvalidArgument>("importTorch: '{}' of the dictionary; {} has {} groups",
                               text,
                               model_.optimizer()->name(),
                               groups_.size());
      }
      addAttribute(key, tensor);
    }
  }

  void addAttribute(const Key& key, const HostTensor& tensor) {
    if (key.name == "params") {
      for (const double number : tensor.toDoubles()) {
        if (!(number >= 0 && number < 1e9)) {
          raise<InvalidArgument>("importTorch: a parameter has the number {}", number);
        }
        groups_[key.number].push_back(static_cast<std::size_t>(number));
      }
    } else if (key.name == "betas") {
      if (tensor.shape().elements() != 2) {
        raise<InvalidArgument>("importTorch: betas are two numbers, got {}", tensor.type().str());
      }
      setAttribute(key.number, "beta1", tensor.at(0));
      setAttribute(key.number, "beta2", tensor.at(1));
    } else if (std::ranges::find(kSameName, key.name) != kSameName.end()) {
      setAttribute(key.number, key.name, numberOf(tensor, key.name));
    } else if (const auto flag = flags_.find(key.name); flag != flags_.end()) {
      if (numberOf(tensor, key.name) != flag->second) {
        raise<InvalidArgument>("importTorch: {} is {} in the dictionary and {} in the model's {}",
                               key.name,
                               numberOf(tensor, key.name) != 0,
                               flag->second != 0,
                               model_.optimizer()->name());
      }
    } else {
      reportUnknown(key.name);
    }
  }

  void reportUnknown(std::string_view attribute) {
    const std::string text = fmt::format("importTorch: {} has no attribute '{}': it is left out",
                                         model_.optimizer()->name(),
                                         attribute);
    if (model_.options().state().relaxOptimizerAttributesChecks) {
      log::debug("optim", "{}", text);
    } else {
      model_.session().warnOnce(text);
    }
  }

  /// PyTorch may have been given all parameters, or those alone that are trained.
  void numberWeights() {
    const std::vector<std::vector<ir::Variable>> weights = weightsByGroup(model_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      std::vector<ir::Variable> all = weights[g];
      if (all.size() != groups_[g].size()) {
        std::erase_if(all, [](const ir::Variable& weight) { return !weight.trainable; });
      }
      if (all.size() != groups_[g].size()) {
        raise<InvalidArgument>("importTorch: group {} has {} parameters there and {} weights here",
                               g,
                               groups_[g].size(),
                               weights[g].size());
      }
      for (std::size_t i = 0; i < all.size(); ++i) {
        names_.emplace(groups_[g][i], all[i].name);
      }
    }
  }

  void addState() {
    NamedTensors& state = result_.find(kIpuState)->second;
    std::optional<double> step;
    for (const auto& [text, tensor] : sectionOf(torch_, kState)) {
      const Key key = keyOf(text);
      const auto weight = names_.find(key.number);
      if (weight == names_.end()) {
        raise<InvalidArgument>("importTorch: '{}' is of no parameter of a group", text);
      }
      if (key.name == "step") {
        const double value = numberOf(tensor, text);
        if (step.value_or(value) != value) {
          raise<InvalidArgument>("importTorch: parameters have made {} and {} steps", *step, value);
        }
        step = value;
        continue;
      }
      const auto found = state.find(fmt::format("{}.{}", weight->second, key.name));
      if (found == state.end()) {
        raise<InvalidArgument>("importTorch: {} keeps no '{}' of '{}'",
                               model_.optimizer()->name(),
                               key.name,
                               weight->second);
      }
      if (found->second.shape() != tensor.shape()) {
        raise<InvalidArgument>("importTorch: '{}' is {} there and {} here",
                               found->first,
                               tensor.type().str(),
                               found->second.type().str());
      }
      found->second = cast(tensor, found->second.dtype());
    }
    setStep(state, step, !sectionOf(torch_, kState).empty());
  }

  /// SGD counts no steps there, and here needs only to know whether it is the first.
  void setStep(NamedTensors& state, std::optional<double> step, bool any) {
    if (const auto found = state.find(kStep); found != state.end()) {
      found->second = HostTensor::full(found->second.type(), step.value_or(any ? 1 : 0));
    }
    if (step) {
      params().insert_or_assign("updates", HostTensor::scalar(static_cast<std::int64_t>(*step)));
    }
  }

  Model& model_;
  optim::Attributes flags_;
  const OptimizerStateDict& torch_;
  OptimizerStateDict result_;
  std::vector<std::vector<std::size_t>> groups_;  // numbers of parameters
  std::map<std::size_t, std::string> names_;      // of the weights, by number
};

/// What is kept of one weight, with its number there.
void exportState(const Model& model,
                 const NamedTensors& own,
                 const Key& weight,
                 NamedTensors& state) {
  const std::string prefix = fmt::format("{}.", weight.name);
  bool any = false;
  for (auto it = own.lower_bound(prefix); it != own.end() && it->first.starts_with(prefix); ++it) {
    const std::string name = it->first.substr(prefix.size());
    if (name.find('.') == std::string::npos) {  // else of a weight with a longer name
      state.emplace(joined(weight.number, name), it->second);
      any = true;
    }
  }
  if (any && model.optimizer()->name() != "SGD") {
    const auto step = own.find(kStep);  // updates that were left out do not count
    const double steps =
        step == own.end() ? static_cast<double>(model.updates()) : step->second.at(0);
    state.emplace(joined(weight.number, "step"), HostTensor::scalar(static_cast<float>(steps)));
  }
}

void exportAttributes(const Model& model, std::size_t group, NamedTensors& groups) {
  const optim::Attributes attributes = model.optimizer()->attributes(group);
  for (const std::string_view name : kSameName) {
    if (const auto found = attributes.find(name); found != attributes.end()) {
      groups.emplace(joined(group, name), HostTensor::scalar(found->second));
    }
  }
  if (attributes.contains("beta1")) {
    groups.emplace(
        joined(group, "betas"),
        HostTensor::of<double>(Shape{2}, {attributes.at("beta1"), attributes.at("beta2")}));
  }
  for (const auto& [name, value] : requireTorchRule(model.optimizer().get())) {
    groups.emplace(joined(group, name), HostTensor::scalar(value != 0));
  }
}

}  // namespace

OptimizerStateDict importTorch(Model& model, const OptimizerStateDict& torch) {
  return Import(model, torch).run();
}

OptimizerStateDict exportTorch(const Model& model) {
  requireTorchRule(model.optimizer().get());
  const OptimizerStateDict own = model.optimizerStateDict();
  OptimizerStateDict torch;
  NamedTensors& state = torch[std::string(kState)];
  NamedTensors& groups = torch[std::string(kGroups)];
  std::size_t number = 0;
  const std::vector<std::vector<ir::Variable>> weights = weightsByGroup(model);
  for (std::size_t g = 0; g < weights.size(); ++g) {
    HostTensor params(DType::I64, Shape{static_cast<std::int64_t>(weights[g].size())});
    for (std::size_t i = 0; i < weights[g].size(); ++i, ++number) {
      params.set(static_cast<std::int64_t>(i), static_cast<double>(number));
      exportState(model, own.find(kIpuState)->second, {number, weights[g][i].name}, state);
    }
    groups.emplace(joined(g, "params"), params);
    exportAttributes(model, g, groups);
  }
  return torch;
}

}  // namespace sluice
