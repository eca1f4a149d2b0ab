#include "sluice/ops/custom_op.h"

namespace sluice::ops {
namespace {

/// The items of a list whose first one is a T.
template <class T>
ir::Attr listOf(std::span<const ir::Attr> items) {
  std::vector<T> list;
  for (const ir::Attr& item : items) {
    const T* value = std::get_if<T>(&item);
    if (value == nullptr) {
      raise<InvalidArgument>("a list must be of one kind, this one mixes {} and {}",
                             name(kindOf(items[0])),
                             name(kindOf(item)));
    }
    list.push_back(*value);
  }
  return list;
}

ir::Attr emptyList(ir::AttrKind declared) {
  switch (declared) {
    case ir::AttrKind::Reals:
      return std::vector<double>();
    case ir::AttrKind::Texts:
      return std::vector<std::string>();
    default:
      return std::vector<std::int64_t>();
  }
}

}  // namespace

AttrValue::AttrValue(const char* value) : AttrValue(std::string(value)) {}
AttrValue::AttrValue(std::string value) : AttrValue(ir::Attr(std::move(value))) {}
AttrValue::AttrValue(std::vector<std::int64_t> list) : AttrValue(ir::Attr(std::move(list))) {}
AttrValue::AttrValue(std::vector<double> list) : AttrValue(ir::Attr(std::move(list))) {}
AttrValue::AttrValue(std::vector<std::string> list) : AttrValue(ir::Attr(std::move(list))) {}
AttrValue::AttrValue(ir::Attr value) : value_(std::move(value)) {}
AttrValue::AttrValue(std::initializer_list<AttrValue> list) : value_(std::vector(list)) {}

ir::Attr AttrValue::attrOf(ir::AttrKind declared) const {
  if (const auto* value = std::get_if<ir::Attr>(&value_)) {
    return *value;
  }
  std::vector<ir::Attr> items;
  for (const AttrValue& item : std::get<std::vector<AttrValue>>(value_)) {
    const auto* value = std::get_if<ir::Attr>(&item.value_);
    if (value == nullptr) {
      raise<InvalidArgument>("a list holds numbers or texts, this one holds a list");
    }
    items.push_back(*value);
  }
  if (items.empty()) {
    return emptyList(declared);
  }
  switch (kindOf(items[0])) {
    case ir::AttrKind::Int:
      return listOf<std::int64_t>(items);
    case ir::AttrKind::Real:
      return listOf<double>(items);
    case ir::AttrKind::Text:
      return listOf<std::string>(items);
    default:
      raise<InvalidArgument>("a list holds numbers or texts, this one holds a {}",
                             name(kindOf(items[0])));
  }
}

}  // namespace sluice::ops
