#include "sluice/nn/precision.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"

namespace sluice::nn {
namespace {

/// A function or layer that policies may name, and what it is a case of.
struct KnownName {
  std::string_view name;
  std::string_view general = {};
};

// PyTorch's names. The last rows are functions of its policy that this front end does not have:
// code that lists them stays valid.
constexpr KnownName kKnown[] = {
    {"abs"},
    {"add"},
    {"avg_pool2d"},
    {"batch_norm"},
    {"binary_cross_entropy"},
    {"binary_cross_entropy_with_logits"},
    {"bmm", "matmul"},
    {"cat"},
    {"clamp"},
    {"conv1d", "convolution"},
    {"conv2d", "convolution"},
    {"conv3d", "convolution"},
    {"convolution"},
    {"cross_entropy"},
    {"div"},
    {"dot", "matmul"},
    {"dropout"},
    {"embedding"},
    {"equal"},
    {"exp"},
    {"gelu"},
    {"greater"},
    {"group_norm"},
    {"l1_loss"},
    {"layer_norm"},
    {"less"},
    {"linear", "addmm"},
    {"log"},
    {"log_softmax"},
    {"matmul"},
    {"max"},
    {"max_pool2d"},
    {"mean"},
    {"mm", "matmul"},
    {"mse_loss"},
    {"mul"},
    {"mv", "matmul"},
    {"neg"},
    {"nll_loss"},
    {"pow"},
    {"relu"},
    {"rms_norm"},
    {"scaled_dot_product_attention"},
    {"sigmoid"},
    {"silu"},
    {"softmax"},
    {"sqrt"},
    {"square"},
    {"sub"},
    {"sum"},
    {"tanh"},
    {"where"},
    {"AvgPool2d"},
    {"BatchNorm"},
    {"Conv1d"},
    {"Conv2d"},
    {"Conv3d"},
    {"Dropout"},
    {"Embedding"},
    {"GELU"},
    {"GroupNorm"},
    {"LayerNorm"},
    {"Linear"},
    {"LstmCell"},
    {"MaxPool2d"},
    {"MultiHeadAttention"},
    {"ReLU"},
    {"RmsNorm"},
    {"SiLU"},
    {"Sigmoid"},
    {"Tanh"},
    {"addbmm"},
    {"addcdiv"},
    {"addcmul"},
    {"addmm", "matmul"},
    {"addmv"},
    {"addr"},
    {"atan2"},
    {"baddbmm"},
    {"bilinear"},
    {"chain_matmul"},
    {"conv_tbc"},
    {"conv_transpose1d"},
    {"conv_transpose2d"},
    {"conv_transpose3d"},
    {"cross"},
    {"index_put"},
    {"stack"},
    {"tensordot"},
};

struct NamedList {
  std::string_view list;
  AutocastRule rule;
  const std::vector<std::string>& names;
};

std::array<NamedList, 4> listsOf(const Policy& policy) {
  return {{{"fp16", AutocastRule::Half, policy.fp16},
           {"fp32", AutocastRule::Float, policy.fp32},
           {"promote", AutocastRule::Promote, policy.promote},
           {"demote", AutocastRule::Demote, policy.demote}}};
}

AutocastRule listed(const Policy& policy, std::string_view name) {
  for (const NamedList& list : listsOf(policy)) {
    if (std::ranges::find(list.names, name) != list.names.end()) {
      return list.rule;
    }
  }
  return AutocastRule::None;
}

const KnownName* known(std::string_view name) {
  const auto* found = std::ranges::find(kKnown, name, &KnownName::name);
  return found == std::end(kKnown) ? nullptr : found;
}

}  // namespace

Policy Policy::standard() {
  return {.fp16 = {"addbmm",
                   "addmm",
                   "addmv",
                   "addr",
                   "baddbmm",
                   "bmm",
                   "chain_matmul",
                   "conv1d",
                   "conv2d",
                   "conv3d",
                   "conv_tbc",
                   "conv_transpose1d",
                   "conv_transpose2d",
                   "conv_transpose3d",
                   "convolution",
                   "matmul",
                   "mm",
                   "mv",
                   "Conv2d"},
          .promote = {"addcdiv",
                      "addcmul",
                      "atan2",
                      "bilinear",
                      "cat",
                      "cross",
                      "dot",
                      "equal",
                      "index_put",
                      "stack",
                      "tensordot"}};
}

void requireValid(const Policy& policy) {
  if (policy.half != DType::F16 && policy.half != DType::BF16) {
    raise<InvalidArgument>("autocast policy: half is {}, expected f16 or bf16", name(policy.half));
  }
  std::map<std::string_view, std::string_view> seen;
  for (const NamedList& list : listsOf(policy)) {
    for (const std::string& name : list.names) {
      if (known(name) == nullptr) {
        std::vector<std::string_view> names;
        for (const KnownName& each : kKnown) {
          names.push_back(each.name);
        }
        raise<InvalidArgument>("autocast policy: unknown op '{}' in {}; known are {}",
                               name,
                               list.list,
                               fmt::join(names, ", "));
      }
      const auto [other, isNew] = seen.emplace(name, list.list);
      if (!isNew && other->second != list.list) {
        raise<InvalidArgument>(
            "autocast policy: '{}' is in {} and in {}", name, other->second, list.list);
      }
    }
  }
}

AutocastRule ruleOf(const Policy& policy, std::string_view function, std::string_view layer) {
  AutocastRule rule = listed(policy, layer);
  while (rule == AutocastRule::None && !function.empty()) {
    rule = listed(policy, function);
    const KnownName* entry = known(function);
    SLUICE_CHECK(entry != nullptr, "function '{}' is not in the list of known names", function);
    function = entry->general;
  }
  return rule;
}

}  // namespace sluice::nn
