#include "sluice/nn/precision.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "sluice/base/error.h"
#include "sluice/nn/functional.h"

namespace sluice::nn {
namespace {

/// A function or layer that policies may name, and what it is a case of.
struct KnownName {
  std::string_view name;
  std::string_view general = {};
};

#define SLUICE_KNOWN(function, torch, op) {torch},
// PyTorch's names. The last rows are functions of its policy that this front end does not have:
// code that lists them stays valid.
constexpr KnownName kKnown[] = {
    SLUICE_NN_FUNCTIONS(SLUICE_KNOWN, SLUICE_KNOWN){"adaptive_avg_pool1d"},
    {"adaptive_avg_pool2d"},
    {"adaptive_avg_pool3d"},
    {"adaptive_max_pool1d"},
    {"adaptive_max_pool2d"},
    {"adaptive_max_pool3d"},
    {"avg_pool1d"},
    {"avg_pool2d"},
    {"avg_pool3d"},
    {"batch_norm"},
    {"binary_cross_entropy"},
    {"binary_cross_entropy_with_logits"},
    {"bitwise_left_shift"},
    {"bitwise_right_shift"},
    {"bmm", "matmul"},
    {"bucketize"},
    {"cat"},
    {"celu"},
    {"clamp"},
    {"conv1d", "convolution"},
    {"conv2d", "convolution"},
    {"conv3d", "convolution"},
    {"convolution"},
    {"cosine_similarity"},
    {"cross_entropy"},
    {"ctc_loss"},
    {"cumsum"},
    {"dot", "matmul"},
    {"dropout"},
    {"elu"},
    {"embedding"},
    {"fmod"},
    {"gelu"},
    {"glu"},
    {"grid_sampler"},
    {"group_norm"},
    {"hardshrink"},
    {"hardsigmoid"},
    {"hardtanh"},
    {"huber_loss"},
    {"index_add"},
    {"interpolate"},
    {"isinf"},
    {"kl_div"},
    {"l1_loss"},
    {"layer_norm"},
    {"leaky_relu"},
    {"linear", "addmm"},
    {"log_softmax"},
    {"logsigmoid"},
    {"logsumexp"},
    {"matmul"},
    {"max"},
    {"max_pool1d"},
    {"max_pool2d"},
    {"max_pool3d"},
    {"mean"},
    {"min"},
    {"mm", "matmul"},
    {"mse_loss"},
    {"mv", "matmul"},
    {"nll_loss"},
    {"norm"},
    {"normalize"},
    {"prelu"},
    {"prod"},
    {"relu6"},
    {"remainder"},
    {"rms_norm"},
    {"roi_align"},
    {"scaled_dot_product_attention"},
    {"scatter"},
    {"smooth_l1_loss"},
    {"softmax"},
    {"softmin"},
    {"softshrink"},
    {"sum"},
    {"tanhshrink"},
    {"threshold"},
    {"var"},
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
    {"GRUCell"},
    {"RNNCell"},
    {"TransformerEncoder"},
    {"TransformerDecoder"},
    {"MaxPool2d"},
    {"Upsample"},
    {"TransformerEncoderLayer"},
    {"TransformerDecoderLayer"},
    {"Threshold"},
    {"Tanhshrink"},
    {"Softsign"},
    {"Softshrink"},
    {"Softplus"},
    {"Softmin"},
    {"Softmax"},
    {"SELU"},
    {"ReLU6"},
    {"RNN"},
    {"PReLU"},
    {"MultiheadAttention"},
    {"Mish"},
    {"MaxPool3d"},
    {"MaxPool1d"},
    {"LogSoftmax"},
    {"LogSigmoid"},
    {"LeakyReLU"},
    {"LSTM"},
    {"InstanceNorm"},
    {"Hardtanh"},
    {"Hardswish"},
    {"Hardsigmoid"},
    {"Hardshrink"},
    {"GRU"},
    {"GLU"},
    {"ELU"},
    {"ConvTranspose3d"},
    {"ConvTranspose2d"},
    {"ConvTranspose1d"},
    {"CELU"},
    {"AvgPool3d"},
    {"AvgPool1d"},
    {"AdaptiveMaxPool3d"},
    {"AdaptiveMaxPool2d"},
    {"AdaptiveMaxPool1d"},
    {"AdaptiveAvgPool3d"},
    {"AdaptiveAvgPool2d"},
    {"AdaptiveAvgPool1d"},
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
#undef SLUICE_KNOWN

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
  return name.empty() || found == std::end(kKnown) ? nullptr : found;
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
