#include "sluice/ops/type_attrs.h"

#include "sluice/base/error.h"

namespace sluice::ops {

TypeAttrs typeAttrs(std::span<const TensorType> types) {
  TypeAttrs attrs;
  for (const TensorType& type : types) {
    attrs.dtypes.emplace_back(name(type.dtype));
    attrs.shapes.push_back(type.shape.rank());
    attrs.shapes.insert(attrs.shapes.end(), type.shape.dims().begin(), type.shape.dims().end());
  }
  return attrs;
}

std::vector<TensorType> typesOf(const ir::OpView& op,
                                std::string_view dtypes,
                                std::string_view shapes) {
  const std::vector<std::int64_t>& extents = op.attrs.integers(shapes);
  std::vector<TensorType> types;
  auto next = extents.begin();
  for (const std::string& text : op.attrs.texts(dtypes)) {
    const std::optional<DType> dtype = parseDType(text);
    if (!dtype || next == extents.end() || *next < 0 || *next >= extents.end() - next) {
      raise<InvalidArgument>("{}: {} and {} do not describe tensors", op.def.name, dtypes, shapes);
    }
    const std::int64_t rank = *next++;
    types.push_back({*dtype, Shape(std::vector<std::int64_t>(next, next + rank))});
    next += rank;
  }
  return types;
}

}  // namespace sluice::ops
