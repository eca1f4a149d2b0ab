// The library that the tests load. Ops of float types take float32 and float64, so that gradients
// can be compared with differences.
#include <algorithm>
#include <cmath>

#include "sluice/custom/op.h"

namespace {

using sluice::custom::BackwardCall;
using sluice::custom::Call;
using sluice::custom::DType;
using sluice::custom::TensorType;

/// f(T{}) with the float type of a tensor.
template <class F>
void forFloat(const sluice::custom::Tensor& tensor, F f) {
  if (tensor.dtype() == DType::F64) {
    f(double{});
  } else {
    f(float{});
  }
}

std::vector<TensorType> sameType(const Call& call) {
  return {call.input(0).type()};
}

// LeakyRelu: x where it is positive, alpha x elsewhere.

void leakyRelu(const Call& call) {
  forFloat(call.input(0), [&]<class T>(T) {
    const auto x = call.input(0).values<T>();
    const auto y = call.output(0).write<T>();
    const auto alpha = static_cast<T>(call.real("alpha"));
    for (std::size_t i = 0; i < x.size(); ++i) {
      y[i] = x[i] > 0 ? x[i] : alpha * x[i];
    }
  });
}

void leakyReluGrad(const BackwardCall& call) {
  forFloat(call.input(0), [&]<class T>(T) {
    const auto x = call.input(0).values<T>();
    const auto dy = call.outputGrad(0).values<T>();
    const auto dx = call.inputGrad(0).write<T>();
    const auto alpha = static_cast<T>(call.real("alpha"));
    for (std::size_t i = 0; i < x.size(); ++i) {
      dx[i] = x[i] > 0 ? dy[i] : alpha * dy[i];
    }
  });
}

// Bands: x [rows, columns] and w [columns] to y = x scaled by columns with the list `scales` (read
// round and round) times w, the sum s of every row of y, and the column of its largest element. It
// infers no types.

struct Bands {
  std::size_t rows;
  std::size_t columns;
  std::span<const float> scales;

  explicit Bands(const Call& call)
      : rows(static_cast<std::size_t>(call.input(0).shape()[0])),
        columns(static_cast<std::size_t>(call.input(0).shape()[1])),
        scales(call.reals("scales")) {}
  template <class T>
  T scale(std::size_t column) const {
    return static_cast<T>(scales[column % scales.size()]);
  }
};

void bands(const Call& call) {
  forFloat(call.input(0), [&]<class T>(T) {
    const Bands form(call);
    const auto x = call.input(0).values<T>();
    const auto w = call.input(1).values<T>();
    const auto y = call.output(0).write<T>();
    const auto sums = call.output(1).write<T>();
    const auto largest = call.output(2).write<std::int64_t>();
    for (std::size_t row = 0; row < form.rows; ++row) {
      for (std::size_t column = 0; column < form.columns; ++column) {
        const std::size_t i = row * form.columns + column;
        y[i] = form.scale<T>(column) * x[i] * w[column];
        sums[row] += y[i];
      }
      const auto* first = y.data() + row * form.columns;
      largest[row] = std::max_element(first, first + form.columns) - first;
    }
  });
}

/// Reads both inputs and no output.
void bandsGrad(const BackwardCall& call) {
  forFloat(call.input(0), [&]<class T>(T) {
    const Bands form(call);
    const auto x = call.input(0).values<T>();
    const auto w = call.input(1).values<T>();
    const auto dy = call.outputGrad(0).values<T>();
    const auto ds = call.outputGrad(1).values<T>();
    if (call.outputGrad(2).present() || call.output(0).present()) {
      throw std::logic_error("more operands than were asked for");
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t column = i % form.columns;
      const T factor = form.scale<T>(column) * (dy[i] + ds[i / form.columns]);
      if (call.inputGrad(0).present()) {
        call.inputGrad(0).write<T>()[i] = factor * w[column];
      }
      if (call.inputGrad(1).present()) {
        call.inputGrad(1).write<T>()[column] += factor * x[i];
      }
    }
  });
}

// Exponential: its gradient reads the output alone.

void exponential(const Call& call) {
  forFloat(call.input(0), [&]<class T>(T) {
    const auto x = call.input(0).values<T>();
    std::transform(
        x.begin(), x.end(), call.output(0).write<T>().begin(), [](T v) { return std::exp(v); });
  });
}

void exponentialGrad(const BackwardCall& call) {
  forFloat(call.output(0), [&]<class T>(T) {
    const auto y = call.output(0).values<T>();
    const auto dy = call.outputGrad(0).values<T>();
    std::transform(
        y.begin(), y.end(), dy.begin(), call.inputGrad(0).write<T>().begin(), [](T a, T b) {
          return a * b;
        });
  });
}

// Attributes: a float64 vector of all attributes in order, texts as their characters.

std::vector<double> attributes(const Call& call) {
  std::vector<double> values = {static_cast<double>(call.real("real")),
                                static_cast<double>(call.integer("integer"))};
  const auto text = call.text("text");
  values.insert(values.end(), text.begin(), text.end());
  const auto reals = call.reals("reals");
  values.insert(values.end(), reals.begin(), reals.end());
  for (const std::int64_t value : call.integers("integers")) {
    values.push_back(static_cast<double>(value));
  }
  for (const std::string_view item : call.texts("texts")) {
    values.insert(values.end(), item.begin(), item.end());
  }
  return values;
}

std::vector<TensorType> attributesType(const Call& call) {
  return {{DType::F64, {static_cast<std::int64_t>(attributes(call).size())}}};
}

void writeAttributes(const Call& call) {
  std::ranges::copy(attributes(call), call.output(0).write<double>().begin());
}

// Ops that go wrong.

void refuseNegative(const Call& call) {
  const auto x = call.input(0).values<float>();
  if (std::ranges::any_of(x, [](float v) { return v < 0; })) {
    throw std::runtime_error("a negative number");
  }
  std::ranges::copy(x, call.output(0).write<float>().begin());
}

std::vector<TensorType> twoTypes(const Call& call) {
  return {call.input(0).type(), call.input(0).type()};
}

std::vector<TensorType> negativeExtent(const Call& /*call*/) {
  return {{DType::F32, {-1}}};
}

void readUndeclared(const Call& call) {
  static_cast<void>(call.integer("missing"));
}

/// Version 1 doubles, version 3 triples.
template <int kFactor>
void times(const Call& call) {
  const auto x = call.input(0).values<float>();
  const auto y = call.output(0).write<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = kFactor * x[i];
  }
}

using sluice::custom::AttrKind;
using sluice::custom::Op;

constexpr const char* kDomain = "com.example.test";

}  // namespace

SLUICE_CUSTOM_OPS(Op(kDomain, "LeakyRelu", 1)
                      .attribute("alpha", 0.01)
                      .infer(sameType)
                      .forward(leakyRelu)
                      .backward(leakyReluGrad)
                      .backwardReads({0}, {})
                      .flopsPerElement(2),
                  Op(kDomain, "Bands", 1)
                      .inputs(2)
                      .outputs(3)
                      .attribute("scales", std::vector<float>{2, -1})
                      .forward(bands)
                      .backward(bandsGrad)
                      .backwardReads({0, 1}, {}),
                  Op(kDomain, "Exponential", 1)
                      .infer(sameType)
                      .forward(exponential)
                      .backward(exponentialGrad)
                      .backwardReads({}, {0}),
                  Op(kDomain, "Attributes", 1)
                      .inputs(0)
                      .attribute("real", 0.5F)
                      .attribute("integer", -7)
                      .attribute("text", "ab")
                      .attribute("reals", std::vector<float>{0.25F, -1.5F})
                      .attribute("integers", std::vector<std::int64_t>{3, 4})
                      .attribute("texts", std::vector<std::string>{"c", "de"})
                      .infer(attributesType)
                      .forward(writeAttributes),
                  Op(kDomain, "Required", 1)
                      .requiredAttribute("factor", AttrKind::Integer)
                      .infer(sameType)
                      .forward(refuseNegative),
                  Op(kDomain, "RefuseNegative", 1).infer(sameType).forward(refuseNegative),
                  Op(kDomain, "TwoTypes", 1).infer(twoTypes).forward(refuseNegative),
                  Op(kDomain, "NegativeExtent", 1).infer(negativeExtent).forward(refuseNegative),
                  Op(kDomain, "ReadUndeclared", 1).infer(sameType).forward(readUndeclared),
                  Op(kDomain, "Times", 1).infer(sameType).forward(times<2>),
                  Op(kDomain, "Times", 3).infer(sameType).forward(times<3>),
                  Op(kDomain, "Newer", 2).infer(sameType).forward(times<1>),
                  Op(kDomain, "Newer", 3).infer(sameType).forward(times<1>))
