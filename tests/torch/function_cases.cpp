#include "tests/torch/function_cases.h"

namespace sluice::testing {
namespace {

FunctionCase one(std::string call,
                 nn::Tensor (*f)(const nn::Tensor&),
                 double low = -2,
                 double high = 2) {
  return {std::move(call), {numbers({3, 5}, low, high)}, plain([f](const List& in) {
            return f(in[0]);
          })};
}

FunctionCase flag(std::string call, nn::Tensor (*f)(const nn::Tensor&)) {
  FunctionCase c = one(std::move(call), f);
  c.gradient = false;
  return c;
}

FunctionCase two(std::string call, nn::Tensor (*f)(const nn::Tensor&, const nn::Tensor&)) {
  return {std::move(call),
          {numbers({3, 5}, 0.5, 2), numbers({5}, 0.5, 2)},
          plain([f](const List& in) { return f(in[0], in[1]); })};
}

FunctionCase compared(std::string call, nn::Tensor (*f)(const nn::Tensor&, const nn::Tensor&)) {
  const HostTensor x = HostTensor::of<float>(Shape{4}, {1, 2, 3, -1});
  const HostTensor y = HostTensor::of<float>(Shape{4}, {2, 2, 1, -1});
  return {
      std::move(call), {x, y}, plain([f](const List& in) { return f(in[0], in[1]); }), "", false};
}

FunctionCase of(std::string call, std::vector<HostTensor> inputs, Call f) {
  return {std::move(call), std::move(inputs), plain(std::move(f))};
}

FunctionCase fixed(std::string call, std::vector<HostTensor> inputs, Call f) {
  FunctionCase c = of(std::move(call), std::move(inputs), std::move(f));
  c.gradient = false;
  return c;
}

HostTensor integers(const Shape& shape, std::initializer_list<std::int64_t> values) {
  return HostTensor::of<std::int64_t>(shape, values);
}

HostTensor flags(std::initializer_list<bool> values) {
  HostTensor result(DType::Bool, Shape{static_cast<std::int64_t>(values.size())});
  std::int64_t i = 0;
  for (const bool value : values) {
    result.set(i++, value ? 1.0 : 0.0);
  }
  return result;
}

}  // namespace

std::vector<FunctionCase> elementwiseCases() {
  const HostTensor special = HostTensor::of<float>(
      Shape{4}, {1.0F, std::numeric_limits<float>::infinity(), std::nanf(""), -2.0F});
  return {
      one("torch.abs(x0)", nn::abs),
      one("torch.acos(x0)", nn::acos, -0.9, 0.9),
      one("torch.acosh(x0)", nn::acosh, 1.1, 3),
      one("torch.asin(x0)", nn::asin, -0.9, 0.9),
      one("torch.asinh(x0)", nn::asinh),
      one("torch.atan(x0)", nn::atan),
      one("torch.atanh(x0)", nn::atanh, -0.9, 0.9),
      flag("torch.ceil(x0)", nn::ceil),
      one("torch.cos(x0)", nn::cos),
      one("torch.cosh(x0)", nn::cosh),
      one("torch.erf(x0)", nn::erf),
      one("torch.erfc(x0)", nn::erfc),
      one("torch.exp(x0)", nn::exp),
      one("torch.expm1(x0)", nn::expm1),
      flag("torch.floor(x0)", nn::floor),
      one("F.hardswish(x0 * 3)", [](const nn::Tensor& x) { return nn::hardswish(x * 3.0); }),
      one("torch.log(x0)", nn::log, 0.5, 3),
      one("torch.log1p(x0)", nn::log1p, -0.5, 3),
      one("F.mish(x0)", nn::mish),
      one("torch.neg(x0)", nn::neg),
      one("torch.reciprocal(x0)", nn::reciprocal, 0.5, 2),
      one("torch.relu(x0)", nn::relu),
      flag("torch.round(x0)", nn::round),
      one("torch.rsqrt(x0)", nn::rsqrt, 0.5, 2),
      one("F.selu(x0)", nn::selu),
      one("torch.sigmoid(x0)", nn::sigmoid),
      flag("torch.sign(x0)", nn::sign),
      one("F.silu(x0)", nn::silu),
      one("torch.sin(x0)", nn::sin),
      one("torch.sinh(x0)", nn::sinh),
      one("F.softplus(x0)", nn::softplus),
      one("F.softsign(x0)", nn::softsign),
      one("torch.sqrt(x0)", nn::sqrt, 0.5, 2),
      one("torch.square(x0)", nn::square),
      one("torch.tan(x0)", nn::tan, -1, 1),
      one("torch.tanh(x0)", nn::tanh),
      one("F.celu(x0, 0.7)", [](const nn::Tensor& x) { return nn::celu(x, 0.7); }),
      one("torch.clamp(x0, -0.5, 1)", [](const nn::Tensor& x) { return nn::clamp(x, -0.5, 1); }),
      one("F.elu(x0, 0.7)", [](const nn::Tensor& x) { return nn::elu(x, 0.7); }),
      one("F.gelu(x0)", [](const nn::Tensor& x) { return nn::gelu(x); }),
      one("F.gelu(x0, approximate='tanh')",
          [](const nn::Tensor& x) { return nn::gelu(x, "tanh"); }),
      of("F.glu(x0, 1)", {numbers({3, 4})}, [](const List& in) { return nn::glu(in[0], 1); }),
      one("F.hardshrink(x0, 0.7)", [](const nn::Tensor& x) { return nn::hardshrink(x, 0.7); }),
      one("F.hardsigmoid(x0 * 3)", [](const nn::Tensor& x) { return nn::hardsigmoid(x * 3.0); }),
      one("F.hardtanh(x0, -0.5, 0.7)",
          [](const nn::Tensor& x) { return nn::hardtanh(x, -0.5, 0.7); }),
      one("F.leaky_relu(x0, 0.2)", [](const nn::Tensor& x) { return nn::leakyRelu(x, 0.2); }),
      one("F.logsigmoid(x0)", [](const nn::Tensor& x) { return nn::logsigmoid(x); }),
      of("F.prelu(x0, x1)",
         {numbers({2, 3, 4}), numbers({3})},
         [](const List& in) { return nn::prelu(in[0], in[1]); }),
      one("F.relu6(x0 * 5)", [](const nn::Tensor& x) { return nn::relu6(x * 5.0); }),
      one("F.softshrink(x0, 0.7)", [](const nn::Tensor& x) { return nn::softshrink(x, 0.7); }),
      one("F.tanhshrink(x0)", [](const nn::Tensor& x) { return nn::tanhshrink(x); }),
      one("F.threshold(x0, 0.3, 0.0)", [](const nn::Tensor& x) { return nn::threshold(x, 0.3); }),
      one("F.threshold(x0, 0.3, 7.0)",
          [](const nn::Tensor& x) { return nn::threshold(x, 0.3, 7.0); }),
      two("x0 + x1", nn::add),
      two("x0 - x1", nn::sub),
      two("x0 * x1", nn::mul),
      two("x0 / x1", nn::div),
      two("torch.atan2(x0, x1)", nn::atan2),
      two("torch.maximum(x0, x1)", nn::maximum),
      two("torch.minimum(x0, x1)", nn::minimum),
      two("torch.pow(x0, x1)", nn::pow),
      two("torch.where(x0 > x1, x0, x1 * 2)",
          [](const nn::Tensor& x, const nn::Tensor& y) { return nn::where(x > y, x, y * 2.0); }),
      one("torch.pow(x0, 3)", [](const nn::Tensor& x) { return nn::pow(x, 3.0); }),
      one("torch.maximum(x0, torch.tensor(0.25))",
          [](const nn::Tensor& x) { return nn::maximum(x, 0.25); }),
      of("torch.remainder(x0, x1.detach())",
         {numbers({3, 5}, -4, 4), HostTensor::of<float>(Shape{5}, {1.5F, -1.5F, 2, -2, 0.7F})},
         [](const List& in) { return nn::remainder(in[0], nn::detach(in[1])); }),
      of("torch.fmod(x0, x1.detach())",
         {numbers({3, 5}, -4, 4), HostTensor::of<float>(Shape{5}, {1.5F, -1.5F, 2, -2, 0.7F})},
         [](const List& in) { return nn::fmod(in[0], nn::detach(in[1])); }),
      compared("torch.eq(x0, x1)", nn::equal),
      compared("torch.ne(x0, x1)", nn::notEqual),
      compared("torch.gt(x0, x1)", nn::greater),
      compared("torch.ge(x0, x1)", nn::greaterEqual),
      compared("torch.lt(x0, x1)", nn::less),
      compared("torch.le(x0, x1)", nn::lessEqual),
      flag("(x0 == 1) | ~(x0 <= 0)", [](const nn::Tensor& x) { return (x == 1.0) | !(x <= 0.0); }),
      flag("torch.logical_and(x0 > -1, x0 != 0)",
           [](const nn::Tensor& x) { return (x > -1.0) & (x != 0.0); }),
      flag("torch.logical_xor(x0 > -1, x0 < 1)",
           [](const nn::Tensor& x) { return nn::logicalXor(x > -1.0, x < 1.0); }),
      fixed("torch.isnan(x0)", {special}, [](const List& in) { return nn::isnan(in[0]); }),
      fixed("torch.isinf(x0)", {special}, [](const List& in) { return nn::isinf(in[0]); }),
      fixed("torch.isfinite(x0)", {special}, [](const List& in) { return nn::isfinite(in[0]); }),
      fixed("torch.bitwise_and(x0, x1) + torch.bitwise_or(x0, x1) * 100",
            {integers({3}, {1, 6, 12}), integers({3}, {3, 5, 10})},
            [](const List& in) {
              return nn::bitwiseAnd(in[0], in[1]) + nn::bitwiseOr(in[0], in[1]) * 100.0;
            }),
      fixed("torch.bitwise_xor(x0, torch.bitwise_not(x1))",
            {integers({3}, {1, 6, 12}), integers({3}, {3, 5, 10})},
            [](const List& in) { return nn::bitwiseXor(in[0], nn::bitwiseNot(in[1])); }),
      fixed("(x0 << x1) - (x0 >> x1)",
            {HostTensor::of<std::uint8_t>(Shape{3}, {9, 6, 12}),
             HostTensor::of<std::uint8_t>(Shape{3}, {1, 2, 3})},
            [](const List& in) {
              return nn::bitwiseLeftShift(in[0], in[1]) - nn::bitwiseRightShift(in[0], in[1]);
            }),
  };
}

std::vector<FunctionCase> shapeCases() {
  const HostTensor places = integers({2, 3}, {0, 3, 1, 2, 0, 0});
  return {
      of("x0.sum((0, 2))",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return in[0].sum({0, 2});
         }),
      of("x0.mean(1, keepdim=True)",
         {numbers({2, 3, 4})},
         [](const List& in) { return in[0].mean({1}, true); }),
      of("x0.prod(1)", {numbers({2, 3, 4})}, [](const List& in) { return nn::prod(in[0], {1}); }),
      of("x0.amax(1)", {numbers({2, 3, 4})}, [](const List& in) { return in[0].max({1}); }),
      of("x0.amin((0, 1))",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return in[0].min({0, 1});
         }),
      of("torch.logsumexp(x0, (1, 2))",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::logsumexp(in[0], {1, 2});
         }),
      of("torch.linalg.vector_norm(x0, dim=1)",
         {numbers({2, 3, 4})},
         [](const List& in) { return nn::norm(in[0], {1}); }),
      of("torch.var(x0, (0, 2), unbiased=True)",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::var(in[0], {.axes = {0, 2}});
         }),
      of("torch.var(x0, 1, unbiased=False, keepdim=True)",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::var(in[0], {.axes = {1}, .unbiased = false, .keepDims = true});
         }),
      of("torch.std(x0)", {numbers({2, 3, 4})}, [](const List& in) { return nn::stddev(in[0]); }),
      fixed("torch.any(x0 > 0.9, 1)",
            {numbers({4, 3})},
            [](const List& in) { return nn::any(in[0] > 0.9, {1}); }),
      fixed("torch.all(x0 > -0.5, 1)",
            {numbers({4, 3})},
            [](const List& in) { return nn::all(in[0] > -0.5, {1}); }),
      fixed("torch.argmax(x0, 1) * 10 + torch.argmin(x0, 1)",
            {numbers({4, 6})},
            [](const List& in) { return nn::argMax(in[0], 1) * 10.0 + nn::argMin(in[0], 1); }),
      of("torch.cumsum(x0, 1)",
         {numbers({2, 3, 4})},
         [](const List& in) { return nn::cumsum(in[0], 1); }),
      fixed("torch.arange(2, 11, 3) + torch.arange(3)",
            {},
            [](const List&) { return nn::arange(2, 11, 3) + nn::arange(3); }),
      fixed("torch.arange(0.5, 2, 0.5)",
            {},
            [](const List&) { return nn::arange(0.5, 2, 0.5, DType::F32); }),
      fixed("torch.linspace(-1, 2, 7)", {}, [](const List&) { return nn::linspace(-1, 2, 7); }),
      fixed("torch.eye(3) + torch.full((3, 3), 2.5) + torch.ones(3) + torch.zeros(3, 1)",
            {},
            [](const List&) {
              return nn::eye(3) + nn::full({3, 3}, 2.5) + nn::ones({3}) + nn::zeros({3, 1});
            }),
      of("torch.zeros_like(x0) + torch.ones_like(x0) * torch.full_like(x0, 3) * x0",
         {numbers({2, 3})},
         [](const List& in) {
           return nn::zerosLike(in[0]) + nn::onesLike(in[0]) * nn::fullLike(in[0], 3) * in[0];
         }),
      fixed("F.one_hot(x0, 5)", {places}, [](const List& in) { return nn::oneHot(in[0], 5); }),
      of("x0.flatten(1).reshape(4, -1)",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return in[0].flatten(1).view({4, -1});
         }),
      of("x0.expand(4, -1, 5)",
         {numbers({3, 1})},
         [](const List& in) {
           return in[0].expand({4, -1, 5});
         }),
      of("x0.squeeze(1).unsqueeze(-1)",
         {numbers({2, 1, 4})},
         [](const List& in) { return in[0].squeeze({1}).unsqueeze(-1); }),
      of("x0.transpose(0, 2).permute(1, 0, 2)",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return in[0].transpose(0, 2).permute({1, 0, 2});
         }),
      of("torch.stack([x0, x1, x0], 1)",
         {numbers({2, 3}), numbers({2, 3})},
         [](const List& in) {
           return nn::stack({in[0], in[1], in[0]}, 1);
         }),
      of("torch.cat(torch.chunk(x0, 3, 1)[::-1], 1)",
         {numbers({2, 7})},
         [](const List& in) {
           const List parts = nn::chunk(in[0], 3, 1);
           return nn::concat({parts[2], parts[1], parts[0]}, 1);
         }),
      of("torch.unbind(x0, 1)[2]",
         {numbers({2, 3, 4})},
         [](const List& in) { return nn::unbind(in[0], 1)[2]; }),
      of("torch.tile(x0, (2, 1, 3))",
         {numbers({2, 3})},
         [](const List& in) {
           return nn::tile(in[0], {2, 1, 3});
         }),
      of("torch.tile(x0, (3,))",
         {numbers({2, 3})},
         [](const List& in) { return nn::tile(in[0], {3}); }),
      of("torch.repeat_interleave(x0, 3, 1)",
         {numbers({2, 3, 4})},
         [](const List& in) { return nn::repeatInterleave(in[0], 3, 1); }),
      of("torch.flip(x0, (0, 2))",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::flip(in[0], {0, 2});
         }),
      of("torch.roll(x0, -2, 1)",
         {numbers({2, 5})},
         [](const List& in) { return nn::roll(in[0], -2, 1); }),
      of("torch.triu(x0, 1) + 2 * torch.tril(x0, -1)",
         {numbers({2, 4, 4})},
         [](const List& in) { return nn::triu(in[0], 1) + nn::tril(in[0], -1) * 2.0; }),
      of("F.pad(x0, (1, 2, 0, 3), value=0.5)",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::pad(in[0], {1, 2, 0, 3}, "constant", 0.5);
         }),
      of("F.pad(x0, (-1, 2, 1, -1))",
         {numbers({2, 3, 4})},
         [](const List& in) {
           return nn::pad(in[0], {-1, 2, 1, -1});
         }),
      of("F.pad(x0, (1, 2, 2, 0), mode='reflect')",
         {numbers({2, 3, 4, 4})},
         [](const List& in) {
           return nn::pad(in[0], {1, 2, 2, 0}, "reflect");
         }),
      of("F.pad(x0, (1, 2, 2, 0), mode='replicate')",
         {numbers({2, 3, 4, 4})},
         [](const List& in) {
           return nn::pad(in[0], {1, 2, 2, 0}, "replicate");
         }),
      of("x0[1]", {numbers({3, 4})}, [](const List& in) { return in[0][1]; }),
      of("x0[-1, 1:4:2, None, :]",
         {numbers({3, 5, 2})},
         [](const List& in) {
           return in[0].index({-1, nn::Slice{1, 4, 2}, nn::kNewAxis, nn::Slice{}});
         }),
      of("x0[1:3] * x0[-2:]",
         {numbers({3, 4})},
         [](const List& in) {
           return in[0][{1, 3}] * in[0][nn::Slice{-2}];
         }),
      of("torch.index_select(x0, 1, x1)",
         {numbers({2, 3, 4}), integers({4}, {2, 0, 0, 1})},
         [](const List& in) { return nn::indexSelect(in[0], 1, in[1]); }),
      of("torch.gather(x0, 1, x1)",
         {numbers({2, 4}), places},
         [](const List& in) { return nn::takeAlongDim(in[0], in[1], 1); }),
      of("x0[x1[:, 0], x1[:, 1]]",
         {numbers({3, 4, 2}), integers({3, 2}, {0, 3, 2, 1, 0, 3})},
         [](const List& in) { return nn::gatherNd(in[0], in[1]); }),
      of("torch.scatter(x0, 1, x1, x2)",
         {numbers({2, 4}), integers({2, 3}, {0, 3, 1, 2, 0, 1}), numbers({2, 3})},
         [](const List& in) { return nn::scatter(in[0], 1, in[1], in[2]); }),
      of("torch.scatter_add(x0, 1, x1, x2)",
         {numbers({2, 4}), places, numbers({2, 3})},
         [](const List& in) { return nn::scatterAdd(in[0], 1, in[1], in[2]); }),
      fixed("torch.scatter_reduce(x0, 1, x1, x2, reduce='amax')",
            {numbers({2, 4}), places, numbers({2, 3})},
            [](const List& in) { return nn::scatterReduce(in[0], 1, in[1], in[2], "amax"); }),
      fixed("torch.scatter_reduce(x0, 1, x1, x2, reduce='prod')",
            {numbers({2, 4}), places, numbers({2, 3})},
            [](const List& in) { return nn::scatterReduce(in[0], 1, in[1], in[2], "prod"); }),
      of("torch.index_put(x0, (x1[:, 0], x1[:, 1]), x2, accumulate=True)",
         {numbers({3, 4}), integers({3, 2}, {0, 3, 2, 1, 0, 3}), numbers({3})},
         [](const List& in) { return nn::scatterNd(in[0], in[1], in[2], "add"); }),
      of("torch.index_add(x0, 0, x1, x2)",
         {numbers({3, 4}), integers({4}, {2, 0, 0, 1}), numbers({4, 4})},
         [](const List& in) { return nn::indexAdd(in[0], 0, in[1], in[2]); }),
      of("x0.masked_fill(x1, -3.5)",
         {numbers({2, 4}), flags({true, false, false, true})},
         [](const List& in) { return nn::maskedFill(in[0], in[1], -3.5); }),
      of("torch.topk(x0, 3, 1)[0]",
         {numbers({2, 7})},
         [](const List& in) { return nn::topk(in[0], 3, 1).values; }),
      fixed("torch.topk(x0, 3, 0, largest=False)[1]",
            {numbers({6, 2})},
            [](const List& in) { return nn::topk(in[0], 3, 0, false).indices; }),
      of("torch.sort(x0, 1, descending=True)[0]",
         {numbers({2, 7})},
         [](const List& in) { return nn::sort(in[0], 1, true).values; }),
      fixed("torch.argsort(x0, 1)",
            {numbers({2, 7})},
            [](const List& in) { return nn::argsort(in[0], 1); }),
      fixed("torch.bucketize(x0, x1, right=True)",
            {HostTensor::of<float>(Shape{4}, {-1, 0, 0.5F, 3}),
             HostTensor::of<float>(Shape{3}, {0, 0.5F, 1})},
            [](const List& in) { return nn::bucketize(in[0], in[1], true); }),
      fixed("torch.stack([torch.cat([x0[:n, i].flip(0), x0[n:, i]]) for i, n in enumerate(x1)], 1)",
            {numbers({4, 2, 3}), integers({2}, {3, 2})},
            [](const List& in) { return nn::reverseSequence(in[0], in[1]); }),
      of("F.embedding(x1, x0)",
         {numbers({4, 3}), places},
         [](const List& in) { return nn::embedding(in[1], in[0]); }),
  };
}

std::vector<FunctionCase> imageCases() {
  std::vector<FunctionCase> cases = {
      of("F.conv_transpose1d(x0, x1, x2, stride=2, padding=1, output_padding=1)",
         {numbers({2, 3, 7}), numbers({3, 4, 3}), numbers({4})},
         [](const List& in) {
           return nn::convTranspose1d(
               in[0], in[1], {.stride = {2}, .padding = {1}, .outputPadding = {1}}, in[2]);
         }),
      of("F.conv_transpose2d(x0, x1, x2, stride=(2, 1), padding=(0, 1), dilation=2, groups=2)",
         {numbers({2, 4, 5, 6}), numbers({4, 3, 3, 2}), numbers({6})},
         [](const List& in) {
           return nn::convTranspose2d(
               in[0],
               in[1],
               {.stride = {2, 1}, .padding = {0, 1}, .dilation = {2}, .groups = 2},
               in[2]);
         }),
      of("F.conv_transpose3d(x0, x1)",
         {numbers({1, 2, 3, 4, 3}), numbers({2, 3, 2, 2, 2})},
         [](const List& in) { return nn::convTranspose3d(in[0], in[1]); }),
      of("F.max_pool1d(x0, 3, 2, 1)",
         {numbers({2, 3, 9})},
         [](const List& in) {
           return nn::maxPool1d(in[0], {.kernel = {3}, .stride = {2}, .padding = {1}});
         }),
      of("F.max_pool2d(x0, (2, 3), dilation=(2, 1), ceil_mode=True)",
         {numbers({2, 3, 9, 8})},
         [](const List& in) {
           return nn::maxPool2d(in[0], {.kernel = {2, 3}, .dilation = {2, 1}, .ceilMode = true});
         }),
      of("F.max_pool3d(x0, 2)",
         {numbers({1, 2, 4, 5, 6})},
         [](const List& in) { return nn::maxPool3d(in[0], {.kernel = {2}}); }),
      of("F.avg_pool1d(x0, 3, 2, 1, count_include_pad=False)",
         {numbers({2, 3, 9})},
         [](const List& in) {
           return nn::avgPool1d(
               in[0], {.kernel = {3}, .stride = {2}, .padding = {1}, .countIncludePad = false});
         }),
      of("F.avg_pool3d(x0, 2)",
         {numbers({1, 2, 4, 5, 6})},
         [](const List& in) { return nn::avgPool3d(in[0], {.kernel = {2}}); }),
      of("F.adaptive_avg_pool1d(x0, 3)",
         {numbers({2, 3, 7})},
         [](const List& in) { return nn::adaptiveAvgPool1d(in[0], {3}); }),
      of("F.adaptive_avg_pool2d(x0, (3, None))",
         {numbers({2, 3, 7, 4})},
         [](const List& in) {
           return nn::adaptiveAvgPool2d(in[0], {3, -1});
         }),
      of("F.adaptive_avg_pool2d(x0, 2)",
         {numbers({2, 3, 6, 4})},
         [](const List& in) { return nn::adaptiveAvgPool2d(in[0], {2}); }),
      of("F.adaptive_avg_pool3d(x0, (2, 3, 4))",
         {numbers({1, 2, 4, 5, 6})},
         [](const List& in) {
           return nn::adaptiveAvgPool3d(in[0], {2, 3, 4});
         }),
      of("F.adaptive_max_pool1d(x0, 3)",
         {numbers({2, 3, 7})},
         [](const List& in) { return nn::adaptiveMaxPool1d(in[0], {3}); }),
      of("F.adaptive_max_pool2d(x0, (3, 2))",
         {numbers({2, 3, 7, 4})},
         [](const List& in) {
           return nn::adaptiveMaxPool2d(in[0], {3, 2});
         }),
      of("F.adaptive_max_pool3d(x0, 2)",
         {numbers({1, 2, 4, 5, 6})},
         [](const List& in) { return nn::adaptiveMaxPool3d(in[0], {2}); }),
      of("F.pixel_shuffle(x0, 2)",
         {numbers({2, 8, 3, 4})},
         [](const List& in) { return nn::pixelShuffle(in[0], 2); }),
      of("F.pixel_unshuffle(x0, 2)",
         {numbers({2, 3, 4, 6})},
         [](const List& in) { return nn::pixelUnshuffle(in[0], 2); }),
      of("F.instance_norm(x0, weight=x1, bias=x2)",
         {numbers({2, 3, 4, 5}), numbers({3}), numbers({3})},
         [](const List& in) { return nn::instanceNorm(in[0], in[1], in[2]); }),
      of("F.grid_sample(x0, x1, align_corners=False)",
         {numbers({2, 3, 5, 4}), numbers({2, 3, 3, 2})},
         [](const List& in) { return nn::gridSample(in[0], in[1]); }),
  };
  const auto resized = [&](const char* call, const Shape& shape, nn::InterpolateOptions options) {
    cases.push_back(of(call, {numbers(shape)}, [options](const List& in) {
      return nn::interpolate(in[0], options);
    }));
  };
  resized("F.interpolate(x0, 7)", {2, 3, 4}, {.size = {7}});
  resized("F.interpolate(x0, (7, 3))", {2, 3, 4, 5}, {.size = {7, 3}});
  resized("F.interpolate(x0, scale_factor=1.7)", {2, 3, 4, 5}, {.scaleFactor = {1.7}});
  resized("F.interpolate(x0, (7, 3), mode='nearest-exact')",
          {2, 3, 4, 5},
          {.size = {7, 3}, .mode = "nearest-exact"});
  resized("F.interpolate(x0, 7, mode='linear')", {2, 3, 4}, {.size = {7}, .mode = "linear"});
  resized("F.interpolate(x0, (7, 1), mode='bilinear')",
          {2, 3, 4, 5},
          {.size = {7, 1}, .mode = "bilinear"});
  resized("F.interpolate(x0, scale_factor=(1.7, 0.6), mode='bilinear')",
          {2, 3, 4, 5},
          {.scaleFactor = {1.7, 0.6}, .mode = "bilinear"});
  resized("F.interpolate(x0, (7, 3), mode='bilinear', align_corners=True)",
          {2, 3, 4, 5},
          {.size = {7, 3}, .mode = "bilinear", .alignCorners = true});
  resized("F.interpolate(x0, (7, 8), mode='bicubic')",
          {2, 3, 4, 5},
          {.size = {7, 8}, .mode = "bicubic"});
  resized("F.interpolate(x0, (3, 4, 5), mode='trilinear')",
          {1, 2, 2, 3, 3},
          {.size = {3, 4, 5}, .mode = "trilinear"});
  resized("F.interpolate(x0, (3, 2), mode='area')", {2, 3, 7, 5}, {.size = {3, 2}, .mode = "area"});
  return cases;
}

std::vector<FunctionCase> lossCases() {
  std::vector<FunctionCase> cases = {
      of("torch.einsum('bij,bjk->bki', x0, x1)",
         {numbers({2, 3, 4}), numbers({2, 4, 5})},
         [](const List& in) {
           return nn::einsum("bij,bjk->bki", {in[0], in[1]});
         }),
      of("x0.matmul(x1)",
         {numbers({2, 3, 4}), numbers({4, 5})},
         [](const List& in) { return in[0].matmul(in[1]); }),
      of("torch.det(x0)", {numbers({2, 3, 3})}, [](const List& in) { return nn::det(in[0]); }),
      of("torch.view_as_real(torch.fft.fft(torch.view_as_complex(x0), dim=1))",
         {numbers({2, 6, 2})},
         [](const List& in) { return nn::fft(in[0], 1); }),
      of("torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x0), dim=1))",
         {numbers({2, 6, 2})},
         [](const List& in) { return nn::ifft(in[0], 1); }),
      of("F.softmin(x0, 1)",
         {numbers({3, 5})},
         [](const List& in) { return nn::softmin(in[0], 1); }),
      fixed("F.one_hot(x0.argmax(1), 5)",
            {numbers({3, 5})},
            [](const List& in) { return nn::hardmax(in[0], 1); }),
      of("F.normalize(x0, dim=1)",
         {numbers({3, 5})},
         [](const List& in) { return nn::normalize(in[0], 1); }),
      of("F.cosine_similarity(x0, x1, 1)",
         {numbers({3, 5}), numbers({3, 5})},
         [](const List& in) { return nn::cosineSimilarity(in[0], in[1], 1); }),
      of("F.kl_div(F.log_softmax(x0, 1), F.softmax(x1, 1), reduction='batchmean')",
         {numbers({3, 5}), numbers({3, 5})},
         [](const List& in) {
           return nn::klDiv(nn::logSoftmax(in[0], 1), nn::softmax(in[1], 1), {.batchMean = true});
         }),
      of("F.kl_div(F.log_softmax(x0, 1), F.log_softmax(x1, 1), log_target=True, reduction='sum')",
         {numbers({3, 5}), numbers({3, 5})},
         [](const List& in) {
           return nn::klDiv(nn::logSoftmax(in[0], 1),
                            nn::logSoftmax(in[1], 1),
                            {.reduction = nn::Reduction::Sum, .logTarget = true});
         }),
      of("F.kl_div(F.log_softmax(x0, 1), F.one_hot(x1, 3).float())",
         {numbers({2, 3}), integers({2}, {0, 2})},
         [](const List& in) {
           return nn::klDiv(nn::logSoftmax(in[0], 1), nn::oneHot(in[1], 3).to(DType::F32));
         }),
      of("F.ctc_loss(F.log_softmax(x0, 2), x1, x2, x3)",
         {numbers({6, 2, 4}),
          integers({2, 2}, {1, 2, 3, 3}),
          integers({2}, {6, 5}),
          integers({2}, {2, 2})},
         [](const List& in) {
           return nn::ctcLoss(nn::logSoftmax(in[0], 2), in[1], {in[2], in[3]});
         }),
  };
  for (const auto& [name, reduction] : {std::pair("mean", nn::Reduction::Mean),
                                        {"sum", nn::Reduction::Sum},
                                        {"none", nn::Reduction::None}}) {
    const nn::Reduction r = reduction;
    cases.push_back(of(fmt::format("F.huber_loss(x0, x1, delta=0.7, reduction='{}')", name),
                       {numbers({3, 5}, -2, 2), numbers({3, 5})},
                       [r](const List& in) { return nn::huberLoss(in[0], in[1], 0.7, r); }));
    cases.push_back(of(fmt::format("F.smooth_l1_loss(x0, x1, beta=0.7, reduction='{}')", name),
                       {numbers({3, 5}, -2, 2), numbers({3, 5})},
                       [r](const List& in) { return nn::smoothL1Loss(in[0], in[1], 0.7, r); }));
  }
  return cases;
}

}  // namespace sluice::testing
