#include "sluice/ops/custom_call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sluice/base/error.h"
#include "sluice/custom/op.h"
#include "sluice/ops/custom_def.h"

namespace sluice::ops {
namespace {

namespace abi = custom::abi;

constexpr std::array<std::pair<DType, custom::DType>, kNumDTypes> kDTypePairs = {{
    {DType::F32, custom::DType::F32},
    {DType::F16, custom::DType::F16},
    {DType::BF16, custom::DType::BF16},
    {DType::F64, custom::DType::F64},
    {DType::I8, custom::DType::I8},
    {DType::U8, custom::DType::U8},
    {DType::I16, custom::DType::I16},
    {DType::U16, custom::DType::U16},
    {DType::I32, custom::DType::I32},
    {DType::U32, custom::DType::U32},
    {DType::I64, custom::DType::I64},
    {DType::U64, custom::DType::U64},
    {DType::Bool, custom::DType::Bool},
}};
static_assert(std::ranges::all_of(kDTypePairs,
                                  [](const auto& pair) {
                                    return static_cast<int>(pair.first) ==
                                           static_cast<int>(pair.second);
                                  }),
              "the interface of custom ops has numbers of its own for element types");

}  // namespace

CustomCall::CustomCall(const CustomOp& op, const ir::Attrs& attrs)
    : op_(op), storage_(static_cast<std::size_t>(op.table.numAttrs)) {
  for (std::size_t i = 0; i < storage_.size(); ++i) {
    const char* name = op.table.attrs[i].name;
    Storage& to = storage_[i];
    const auto add = [&]<class T>(const T& value) {
      if constexpr (std::same_as<T, double>) {
        addReal(to, name, value);
      } else if constexpr (std::same_as<T, std::int64_t>) {
        to.integers.push_back(value);
      } else {
        addText(to, name, value);
      }
    };
    const auto addAll = [&](const auto& list) { std::ranges::for_each(list, add); };
    const auto kind = static_cast<custom::AttrKind>(op.table.attrs[i].kind);
    switch (kind) {
      case custom::AttrKind::Real:
        add(attrs.real(name));
        break;
      case custom::AttrKind::Integer:
        add(attrs.integer(name));
        break;
      case custom::AttrKind::Text:
        add(attrs.text(name));
        break;
      case custom::AttrKind::Reals:
        addAll(attrs.reals(name));
        break;
      case custom::AttrKind::Integers:
        addAll(attrs.integers(name));
        break;
      case custom::AttrKind::Texts:
        addAll(attrs.texts(name));
        break;
    }
    const std::size_t count = to.reals.size() + to.integers.size() + to.texts.size();
    attrs_.push_back({.name = name,
                      .kind = op.table.attrs[i].kind,
                      .required = op.table.attrs[i].required,
                      .count = static_cast<std::int64_t>(count),
                      .reals = to.reals.data(),
                      .integers = to.integers.data(),
                      .texts = to.texts.data()});
  }
}

void CustomCall::addReal(Storage& to, std::string_view name, double value) const {
  const auto narrow = static_cast<float>(value);
  if (std::isfinite(value) && !std::isfinite(narrow)) {
    raise<InvalidArgument>(
        "{}: attribute '{}' is {}, which is out of range for 32 bits", op_.fullName, name, value);
  }
  to.reals.push_back(narrow);
}

void CustomCall::addText(Storage& to, std::string_view name, const std::string& value) const {
  if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) > 0x7f; })) {
    raise<InvalidArgument>(
        "{}: attribute '{}' is '{}', but texts must be ASCII", op_.fullName, name, value);
  }
  to.texts.push_back({value.data(), static_cast<std::int64_t>(value.size())});
}

abi::Tensor CustomCall::tensor(const TensorType& type, void* data) {
  return {.dtype = static_cast<std::int32_t>(type.dtype),
          .rank = static_cast<std::int32_t>(type.shape.rank()),
          .dims = type.shape.dims().data(),
          .data = data};
}

abi::Tensor CustomCall::tensor(const TensorType& type, const void* data) {
  // The interface has one struct for what is read and what is written; authors see the difference.
  return tensor(type, const_cast<void*>(data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

void CustomCall::fail(void* host, const char* message) {
  auto& answer = *static_cast<Answer*>(host);
  answer.failed = true;
  answer.message = message == nullptr ? "it gave no reason" : message;
}

void CustomCall::result(void* host,
                        std::int32_t dtype,
                        std::int32_t rank,
                        const std::int64_t* dims) {
  auto& answer = *static_cast<Answer*>(host);
  if (dtype < 0 || dtype >= kNumDTypes || rank < 0 ||
      std::any_of(dims, dims + rank, [](auto d) { return d < 0; })) {
    answer.failed = true;
    answer.message = "it infers a type that there is not";
    return;
  }
  try {
    answer.types.push_back({static_cast<DType>(dtype), Shape(std::vector(dims, dims + rank))});
  } catch (const Error& error) {  // too many elements; must not pass through the library
    answer.failed = true;
    answer.message = error.message();
  }
}

std::vector<TensorType> CustomCall::run(abi::Function function) {
  Answer answer;
  const abi::Call call = {
      .inputs = inputs.data(),
      .outputs = outputs.data(),
      .outputGrads = outputGrads.empty() ? nullptr : outputGrads.data(),
      .inputGrads = inputGrads.empty() ? nullptr : inputGrads.data(),
      .attrs = attrs_.data(),
      .numInputs = static_cast<std::int32_t>(inputs.size()),
      .numOutputs = static_cast<std::int32_t>(outputs.size()),
      .numAttrs = static_cast<std::int32_t>(attrs_.size()),
      .reserved = 0,
      .host = &answer,
      .fail = fail,
      .result = result,
  };
  function(op_.table.self, &call);
  if (answer.failed) {
    raise<InvalidArgument>("{}: {}", op_.fullName, answer.message);
  }
  return std::move(answer.types);
}

}  // namespace sluice::ops
