// print_tensor: x itself; every run logs it under its title, and the gradient under the title with
// "_gradient". It is dropped when nobody reads the result, but never merged, folded or run again.
#include <array>

#include "sluice/base/error.h"
#include "sluice/base/log.h"
#include "sluice/ops/elementwise.h"
#include "sluice/ops/op_list.h"
#include "sluice/ops/vendor.h"

namespace sluice::ops {
namespace {

constexpr std::array<ir::AttrSpec, 10> kAttrs = {
    {{.name = "title", .kind = ir::AttrKind::Text},
     {.name = "print_gradient", .kind = ir::AttrKind::Bool, .integer = 1},
     {.name = "summariseThreshold", .kind = ir::AttrKind::Int, .integer = 1000},
     {.name = "edgeItems", .kind = ir::AttrKind::Int, .integer = 3},
     {.name = "maxLineWidth", .kind = ir::AttrKind::Int, .integer = 80},
     {.name = "digits", .kind = ir::AttrKind::Int, .integer = 4},
     {.name = "floatFormat", .kind = ir::AttrKind::Int},
     {.name = "separator", .kind = ir::AttrKind::Text, .text = ", "},
     {.name = "openBracket", .kind = ir::AttrKind::Text, .text = "("},
     {.name = "closeBracket", .kind = ir::AttrKind::Text, .text = ")"}}};

std::vector<TensorType> infer(const ir::OpView& op) {
  for (const std::string_view attr :
       {"summariseThreshold", "edgeItems", "maxLineWidth", "digits"}) {
    if (op.integer(attr) < 0) {
      raise<InvalidArgument>(
          "print_tensor: {} must not be negative, got {}", attr, op.integer(attr));
    }
  }
  const std::int64_t format = op.integer("floatFormat");
  if (format < 0 || format > static_cast<std::int64_t>(FloatFormat::None)) {
    raise<InvalidArgument>(
        "print_tensor: floatFormat must be 0 (auto), 1 (fixed), 2 (scientific) or 3 (none), got {}",
        format);
  }
  return {op.inputs[0]};
}

std::vector<Value> grad(ir::GradContext& g) {
  if (!g.op.attrs.flag("print_gradient")) {
    return {g.grad()};
  }
  ir::Attrs attrs = g.op.attrs;
  attrs.set({"title", g.op.attrs.text("title") + "_gradient"});
  return {g.b.add(kPrintTensor, {g.grad()}, std::move(attrs))};
}

TextOptions textOptions(const ir::Attrs& attrs) {
  return {.summariseThreshold = attrs.integer("summariseThreshold"),
          .edgeItems = attrs.integer("edgeItems"),
          .maxLineWidth = attrs.integer("maxLineWidth"),
          .digits = attrs.integer("digits"),
          .floatFormat = static_cast<FloatFormat>(attrs.integer("floatFormat")),
          .separator = attrs.text("separator"),
          .openBracket = attrs.text("openBracket"),
          .closeBracket = attrs.text("closeBracket")};
}

void reference(const ir::KernelArgs& args) {
  copyBytes(args);
  const ir::Attrs& attrs = args.op.attrs;
  const std::string& title = attrs.text("title");
  log::info("print",
            "{}{}{}",
            title,
            title.empty() ? "" : ":\n",
            tensorText(args.op.inputs[0], args.inputs[0], textOptions(attrs)));
}

constexpr ir::OnnxName kOnnx[] = {{"PrintTensor", 1, "ai.graphcore"}};

}  // namespace

constinit const ir::OpDef kPrintTensor{.name = "print_tensor",
                                       .attrs = kAttrs,
                                       .infer = infer,
                                       .grad = grad,
                                       .reference = reference,
                                       .traits = {.once = true, .host = true},
                                       .onnx = kOnnx};

Value printTensor(GraphBuilder& b, Value x, const PrintOptions& options) {
  const TextOptions& text = options.text;
  return b.add(kPrintTensor,
               {x},
               {{"title", options.title},
                {"print_gradient", options.printGradient},
                {"summariseThreshold", text.summariseThreshold},
                {"edgeItems", text.edgeItems},
                {"maxLineWidth", text.maxLineWidth},
                {"digits", text.digits},
                {"floatFormat", static_cast<std::int64_t>(text.floatFormat)},
                {"separator", text.separator},
                {"openBracket", text.openBracket},
                {"closeBracket", text.closeBracket}});
}

}  // namespace sluice::ops
