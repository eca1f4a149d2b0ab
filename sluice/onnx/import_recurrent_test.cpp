// LSTM, GRU and RNN of ONNX against the standard's equations, written out per number in double.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/onnx_text.h"

namespace sluice::onnx {
namespace {

using sluice::testing::evaluateOnnx;
using sluice::testing::importOnnx;
using sluice::testing::onnxRefusal;
using sluice::testing::parseOnnx;
using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 4;
constexpr std::int64_t kBatch = 3;
constexpr std::int64_t kInputs = 2;
constexpr std::int64_t kHidden = 3;
constexpr std::array<std::int64_t, kBatch> kLengths = {4, 2, 1};

using Function = std::function<double(double)>;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

double tanhOf(double x) {
  return std::tanh(x);
}

struct Setting {
  std::string op = "LSTM";
  std::int64_t gates = 4;
  std::string attrs = "hidden_size = 3";
  std::int64_t directions = 1;
  bool reverse = false;
  bool lengths = false;
  bool states = false;
  bool peepholes = false;
  bool coupled = false;
  bool linearBeforeReset = false;
  bool batchFirst = false;
  double clip = 0;
  std::vector<Function> functions = {sigmoid, tanhOf, tanhOf};  ///< of every direction
};

ops::TensorMap operandsOf(const Setting& s) {
  const auto random = [](std::int64_t seed, Shape shape) {
    HostTensor tensor(DType::F64, std::move(shape));
    for (std::int64_t i = 0; i < tensor.shape().elements(); ++i) {
      tensor.set(i, std::sin(static_cast<double>(i * i + 31 * i + 7 * seed)));
    }
    return tensor;
  };
  const std::int64_t rows = s.gates * kHidden;
  const Shape state =
      s.batchFirst ? Shape{kBatch, s.directions, kHidden} : Shape{s.directions, kBatch, kHidden};
  ops::TensorMap map;
  map.emplace(
      "x",
      random(1, s.batchFirst ? Shape{kBatch, kSteps, kInputs} : Shape{kSteps, kBatch, kInputs}));
  map.emplace("w", random(2, Shape{s.directions, rows, kInputs}));
  map.emplace("r", random(3, Shape{s.directions, rows, kHidden}));
  map.emplace("b", random(4, Shape{s.directions, 2 * rows}));
  map.emplace("h", random(5, state));
  map.emplace("c", random(6, state));
  map.emplace("p", random(7, Shape{s.directions, 3 * kHidden}));
  HostTensor lengths(DType::I32, Shape{kBatch});
  for (std::int64_t n = 0; n < kBatch; ++n) {
    lengths.set(n, static_cast<double>(s.lengths ? kLengths[static_cast<std::size_t>(n)] : kSteps));
  }
  map.emplace("n", lengths);
  return map;
}

/// One direction of one batch item, by the equations.
class Equations {
 public:
  Equations(const Setting& s, const ops::TensorMap& operands, std::int64_t d, std::int64_t n)
      : s_(s), operands_(operands), d_(d), n_(n), h_(kHidden, 0.0), c_(kHidden, 0.0) {
    for (std::int64_t j = 0; s.states && j < kHidden; ++j) {
      const std::int64_t at = (s.batchFirst ? n * s.directions + d : d * kBatch + n) * kHidden + j;
      h_[index(j)] = operands.at("h").at(at);
      c_[index(j)] = s.gates == 4 ? operands.at("c").at(at) : 0.0;
    }
  }

  const std::vector<double>& h() const { return h_; }
  const std::vector<double>& c() const { return c_; }

  void step(std::int64_t t) {
    t_ = t;
    if (s_.gates == 4) {
      lstm();
    } else if (s_.gates == 3) {
      gru();
    } else {
      std::vector<double> next;
      for (std::int64_t j = 0; j < kHidden; ++j) {
        next.push_back(f(0, fromX(0, j) + bias(0, j, 0) + fromH(0, j, h_) + bias(0, j, 1)));
      }
      h_ = next;
    }
  }

 private:
  static std::size_t index(std::int64_t j) { return static_cast<std::size_t>(j); }
  double operand(const char* name, std::int64_t i) const { return operands_.at(name).at(i); }
  double f(std::size_t i, double x) const {
    return s_.functions[i](s_.clip > 0 ? std::clamp(x, -s_.clip, s_.clip) : x);
  }
  std::int64_t row(std::int64_t gate, std::int64_t j) const { return gate * kHidden + j; }
  double fromX(std::int64_t gate, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t i = 0; i < kInputs; ++i) {
      const std::int64_t at = s_.batchFirst ? n_ * kSteps + t_ : t_ * kBatch + n_;
      sum += operand("x", at * kInputs + i) *
             operand("w", (d_ * s_.gates * kHidden + row(gate, j)) * kInputs + i);
    }
    return sum;
  }
  double fromH(std::int64_t gate, std::int64_t j, const std::vector<double>& h) const {
    double sum = 0;
    for (std::int64_t i = 0; i < kHidden; ++i) {
      sum += h[index(i)] * operand("r", (d_ * s_.gates * kHidden + row(gate, j)) * kHidden + i);
    }
    return sum;
  }
  double bias(std::int64_t gate, std::int64_t j, std::int64_t half) const {
    return operand("b", (2 * d_ + half) * s_.gates * kHidden + row(gate, j));
  }
  double peep(std::int64_t which, std::int64_t j, double c) const {
    return s_.peepholes ? operand("p", (3 * d_ + which) * kHidden + j) * c : 0.0;
  }
  double gate(std::int64_t g, std::int64_t j) const {
    return fromX(g, j) + fromH(g, j, h_) + bias(g, j, 0) + bias(g, j, 1);
  }

  void lstm() {
    std::vector<double> h;
    std::vector<double> c;
    for (std::int64_t j = 0; j < kHidden; ++j) {
      const double old = c_[index(j)];
      const double in = f(0, gate(0, j) + peep(0, j, old));
      const double forget = s_.coupled ? 1 - in : f(0, gate(2, j) + peep(2, j, old));
      c.push_back(forget * old + in * f(1, gate(3, j)));
      h.push_back(f(0, gate(1, j) + peep(1, j, c.back())) * f(2, c.back()));
    }
    h_ = h;
    c_ = c;
  }

  void gru() {
    std::vector<double> reset;
    std::vector<double> resetH;
    for (std::int64_t j = 0; j < kHidden; ++j) {
      reset.push_back(f(0, gate(1, j)));
      resetH.push_back(reset.back() * h_[index(j)]);
    }
    std::vector<double> next;
    for (std::int64_t j = 0; j < kHidden; ++j) {
      const double memory = s_.linearBeforeReset
                                ? reset[index(j)] * (fromH(2, j, h_) + bias(2, j, 1))
                                : fromH(2, j, resetH) + bias(2, j, 1);
      const double fresh = f(1, fromX(2, j) + bias(2, j, 0) + memory);
      const double update = f(0, gate(0, j));
      next.push_back((1 - update) * fresh + update * h_[index(j)]);
    }
    h_ = next;
  }

  const Setting& s_;
  const ops::TensorMap& operands_;
  std::int64_t d_;
  std::int64_t n_;
  std::int64_t t_ = 0;
  std::vector<double> h_;
  std::vector<double> c_;
};

struct Expected {
  HostTensor y;
  HostTensor h;
  HostTensor c;
};

Expected expectedOf(const Setting& s, const ops::TensorMap& operands) {
  const Shape state = operands.at("h").shape();
  const Shape whole = s.batchFirst ? Shape{kBatch, kSteps, s.directions, kHidden}
                                   : Shape{kSteps, s.directions, kBatch, kHidden};
  Expected e{
      HostTensor(DType::F64, whole), HostTensor(DType::F64, state), HostTensor(DType::F64, state)};
  for (std::int64_t d = 0; d < s.directions; ++d) {
    for (std::int64_t n = 0; n < kBatch; ++n) {
      Equations equations(s, operands, d, n);
      const std::int64_t length = s.lengths ? kLengths[static_cast<std::size_t>(n)] : kSteps;
      const bool backward = s.reverse || d == 1;
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t t = backward ? length - 1 - i : i;
        equations.step(t);
        const std::int64_t at = s.batchFirst ? (n * kSteps + t) * s.directions + d
                                             : (t * s.directions + d) * kBatch + n;
        for (std::int64_t j = 0; j < kHidden; ++j) {
          e.y.set(at * kHidden + j, equations.h()[static_cast<std::size_t>(j)]);
        }
      }
      const std::int64_t at = s.batchFirst ? n * s.directions + d : d * kBatch + n;
      for (std::int64_t j = 0; j < kHidden; ++j) {
        e.h.set(at * kHidden + j, equations.h()[static_cast<std::size_t>(j)]);
        e.c.set(at * kHidden + j, equations.c()[static_cast<std::size_t>(j)]);
      }
    }
  }
  return e;
}

std::string modelOf(const Setting& s, const ops::TensorMap& operands) {
  std::string inputs;
  for (const auto& [name, tensor] : operands) {
    inputs += fmt::format("{}{}{} {}",
                          inputs.empty() ? "" : ", ",
                          tensor.dtype() == DType::I32 ? "int32" : "double",
                          tensor.shape().str(),
                          name);
  }
  const bool lstm = s.gates == 4;
  return fmt::format(
      "main ({}) => (double[A, B, C, D] y, double[E, F, G] yh{}) {{ y, yh{} = {}<{}>(x, w, r, b, "
      "{}{}{}{}) }}",
      inputs,
      lstm ? ", double[H, I, J] yc" : "",
      lstm ? ", yc" : "",
      s.op,
      s.attrs,
      s.lengths ? "n" : "",
      s.states ? ", h" : ", ",
      !lstm      ? ""
      : s.states ? ", c"
                 : ", ",
      s.peepholes ? ", p" : "");
}

void expectEquations(const Setting& s) {
  const ops::TensorMap operands = operandsOf(s);
  const Expected expected = expectedOf(s, operands);
  const ::onnx::ModelProto model = parseOnnx(modelOf(s, operands));
  const ops::TensorMap found = evaluateOnnx(model, operands);
  const ImportedModel rolled = importOnnx(model, {.rollFrom = 1});
  ops::TensorMap none;
  for (const auto& [name, tensor] : ops::evaluate(rolled.graph, operands, none)) {
    EXPECT_TRUE(tensor.sameBits(found.at(name))) << s.op << " " << s.attrs << " " << name;
  }
  const auto expectClose = [&](const char* name, const HostTensor& wanted) {
    ASSERT_EQ(found.at(name).type(), wanted.type()) << s.op << " " << s.attrs << " " << name;
    for (std::int64_t i = 0; i < wanted.shape().elements(); ++i) {
      ASSERT_NEAR(found.at(name).at(i), wanted.at(i), 1e-9)
          << s.op << " " << s.attrs << " " << name << " element " << i;
    }
  };
  expectClose("y", expected.y);
  expectClose("yh", expected.h);
  if (s.gates == 4) {
    expectClose("yc", expected.c);
  }
}

TEST(OnnxLstm, FollowsTheEquations) {
  expectEquations({.attrs = "hidden_size = 3"});
  expectEquations({.attrs = "hidden_size = 3, direction = \"reverse\"",
                   .reverse = true,
                   .lengths = true,
                   .states = true,
                   .peepholes = true});
  expectEquations({.attrs = "hidden_size = 3, direction = \"bidirectional\", layout = 1",
                   .directions = 2,
                   .lengths = true,
                   .states = true,
                   .batchFirst = true});
  expectEquations({.attrs = "hidden_size = 3, input_forget = 1, clip = 0.25",
                   .states = true,
                   .peepholes = true,
                   .coupled = true,
                   .clip = 0.25});
  expectEquations({.attrs = "activations = [\"Affine\", \"LeakyRelu\", \"ScaledTanh\"], "
                            "activation_alpha = [0.5, 0.1, 2.0], activation_beta = [0.25, 0.75]",
                   .functions = {[](double x) { return 0.5 * x + 0.25; },
                                 [](double x) { return x < 0 ? 0.1 * x : x; },
                                 [](double x) { return 2.0 * std::tanh(0.75 * x); }}});
}

TEST(OnnxGru, FollowsTheEquations) {
  const Setting gru{.op = "GRU", .gates = 3, .functions = {sigmoid, tanhOf}};
  Setting s = gru;
  expectEquations(s);
  s.attrs = "direction = \"bidirectional\", layout = 1";
  s.directions = 2;
  s.lengths = s.states = s.batchFirst = true;
  expectEquations(s);
  s = gru;
  s.attrs = "linear_before_reset = 1, direction = \"reverse\", clip = 0.5";
  s.linearBeforeReset = s.reverse = s.states = s.lengths = true;
  s.clip = 0.5;
  expectEquations(s);
  s = gru;
  s.attrs = "activations = [\"HardSigmoid\", \"Softsign\"]";
  s.functions = {[](double x) { return std::clamp(0.2 * x + 0.5, 0.0, 1.0); },
                 [](double x) { return x / (1 + std::abs(x)); }};
  expectEquations(s);
}

TEST(OnnxRnn, FollowsTheEquations) {
  const Setting rnn{.op = "RNN", .gates = 1, .functions = {tanhOf}};
  Setting s = rnn;
  expectEquations(s);
  s.attrs = "direction = \"bidirectional\"";
  s.directions = 2;
  s.lengths = s.states = true;
  expectEquations(s);
  const auto with = [&](const std::string& name, Function function) {
    s = rnn;
    s.attrs = fmt::format("activations = [\"{}\"]", name);
    s.functions = {std::move(function)};
    expectEquations(s);
  };
  with("Relu", [](double x) { return std::max(x, 0.0); });
  with("Elu", [](double x) { return x < 0 ? std::expm1(x) : x; });
  with("Softplus", [](double x) { return std::log1p(std::exp(x)); });
  with("ThresholdedRelu", [](double x) { return x > 1 ? x : 0.0; });
}

TEST(OnnxLstm, MultipliesOncePerStep) {
  const ::onnx::ModelProto model = parseOnnx(R"(
    main (float[100, 2, 3] x, float[1, 16, 3] w, float[1, 16, 4] r) => (float[1, 2, 4] h) {
      y, h = LSTM<hidden_size = 4>(x, w, r)
    })");
  const auto products = [](const ir::Graph& graph) {
    std::size_t count = 0;
    for (const ir::OpId id : graph.order()) {
      count += graph.op(id).def->name == "matmul" ? 1 : 0;
    }
    return count;
  };
  const ir::Graph unrolled = importOnnx(model, {.rollFrom = 101}).graph;
  EXPECT_EQ(products(unrolled), 101U);
  EXPECT_LT(unrolled.numOps(), 1500U);
  const ir::Graph rolled = importOnnx(model).graph;
  EXPECT_EQ(products(rolled), 1U);
  EXPECT_LT(rolled.numOps(), 20U);
}

TEST(OnnxLstm, RefusesWhatDoesNotFit) {
  const auto refusal = [](const std::string& node) {
    return onnxRefusal(
        "main (float[5, 2, 3] x, float[1, 16, 3] w, float[1, 16, 4] r, "
        "float[1, 32] b, int32[3] n, float[4] v, float[0, 2, 3] e) => "
        "(float[5, 1, 2, 4] y) { y = " +
        node + " }");
  };
  EXPECT_THAT(refusal("LSTM<direction = \"sideways\">(x, w, r)"), HasSubstr("direction must be"));
  EXPECT_THAT(refusal("LSTM<hidden_size = 5>(x, w, r)"), HasSubstr("hidden_size 5"));
  EXPECT_THAT(refusal("LSTM(e, w, r)"), HasSubstr("no steps"));
  EXPECT_THAT(refusal("LSTM(v, w, r)"), HasSubstr("rank 3"));
  EXPECT_THAT(refusal("LSTM(x, r, r)"), HasSubstr("W must be [1, 16, 3]"));
  EXPECT_THAT(refusal("LSTM(x, w, r, v)"), HasSubstr("B must be [1, 32]"));
  EXPECT_THAT(refusal("LSTM(x, w, r, b, n)"), HasSubstr("sequence_lens must be [2]"));
  EXPECT_THAT(refusal("LSTM(x, w, r, b, , v)"), HasSubstr("initial state must be [1, 2, 4]"));
  EXPECT_THAT(refusal("LSTM(x, w, r, b, , , , v)"), HasSubstr("P must be [1, 12]"));
  EXPECT_THAT(refusal("LSTM<activations = [\"Tanh\"]>(x, w, r)"), HasSubstr("3 activations"));
  EXPECT_THAT(refusal("LSTM<activations = [\"Tanh\", \"Tanh\", \"Sine\"]>(x, w, r)"),
              HasSubstr("'sine'"));
}

}  // namespace
}  // namespace sluice::onnx
