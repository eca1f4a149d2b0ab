#include "tests/torch/function_cases.h"

namespace sluice::testing {
namespace {

/// A layer of one input.
template <class T, class... Args>
FunctionCase layer(std::string module, const HostTensor& x, Args... args) {
  return {"m(x0)",
          {x},
          [args...](nn::Module& parent) -> Call {
            auto made = std::make_shared<T>(parent, "m", args...);
            return [made](const List& in) { return (*made)(in[0]); };
          },
          std::move(module)};
}

/// A module that is called by f(module, inputs).
template <class T, class F, class... Args>
FunctionCase module(
    std::string torch, std::string call, std::vector<HostTensor> inputs, F f, Args... args) {
  return {std::move(call),
          std::move(inputs),
          [f, args...](nn::Module& parent) -> Call {
            auto made = std::make_shared<T>(parent, "m", args...);
            return [made, f](const List& in) { return f(*made, in); };
          },
          std::move(torch)};
}

HostTensor padding(const Shape& shape, std::initializer_list<int> values) {
  HostTensor mask(DType::Bool, shape);
  std::int64_t i = 0;
  for (const int value : values) {
    mask.set(i++, value);
  }
  return mask;
}

std::vector<FunctionCase> activationCases() {
  const HostTensor x = numbers({3, 4, 5}, -3, 3);
  return {
      layer<nn::CELU>("torch.nn.CELU(0.7)", x, 0.7),
      layer<nn::ELU>("torch.nn.ELU()", x),
      layer<nn::GELU>("torch.nn.GELU('tanh')", x, "tanh"),
      layer<nn::GLU>("torch.nn.GLU(1)", x, 1),
      layer<nn::Hardshrink>("torch.nn.Hardshrink()", x),
      layer<nn::Hardsigmoid>("torch.nn.Hardsigmoid()", x),
      layer<nn::Hardswish>("torch.nn.Hardswish()", x),
      layer<nn::Hardtanh>("torch.nn.Hardtanh()", x),
      layer<nn::Identity>("torch.nn.Identity()", x),
      layer<nn::LeakyReLU>("torch.nn.LeakyReLU(0.3)", x, 0.3),
      layer<nn::LogSigmoid>("torch.nn.LogSigmoid()", x),
      layer<nn::LogSoftmax>("torch.nn.LogSoftmax(1)", x, 1),
      layer<nn::Mish>("torch.nn.Mish()", x),
      layer<nn::PReLU>("torch.nn.PReLU(4)", x, 4),
      layer<nn::ReLU6>("torch.nn.ReLU6()", x),
      layer<nn::SELU>("torch.nn.SELU()", x),
      layer<nn::Softmax>("torch.nn.Softmax(1)", x, 1),
      layer<nn::Softmin>("torch.nn.Softmin(1)", x, 1),
      layer<nn::Softplus>("torch.nn.Softplus()", x),
      layer<nn::Softshrink>("torch.nn.Softshrink()", x),
      layer<nn::Softsign>("torch.nn.Softsign()", x),
      layer<nn::Tanhshrink>("torch.nn.Tanhshrink()", x),
      layer<nn::Threshold>("torch.nn.Threshold(0.1, 2)", x, 0.1, 2.0),
  };
}

std::vector<FunctionCase> windowCases() {
  const HostTensor line = numbers({2, 4, 9});
  const HostTensor image = numbers({2, 4, 7, 6});
  const HostTensor cube = numbers({1, 2, 5, 4, 6});
  using Transposed = nn::ConvTransposeLayerOptions;
  return {
      layer<nn::ConvTranspose1d>(
          "torch.nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)",
          line,
          4,
          6,
          3,
          Transposed{.stride = {2}, .padding = {1}, .outputPadding = {1}}),
      layer<nn::ConvTranspose2d>("torch.nn.ConvTranspose2d(4, 6, (3, 2), groups=2, dilation=2)",
                                 image,
                                 4,
                                 6,
                                 nn::Extents{3, 2},
                                 Transposed{.dilation = {2}, .groups = 2}),
      layer<nn::ConvTranspose3d>("torch.nn.ConvTranspose3d(2, 3, 2, bias=False)",
                                 cube,
                                 2,
                                 3,
                                 2,
                                 Transposed{.bias = false}),
      layer<nn::MaxPool1d>("torch.nn.MaxPool1d(3, 2)", line, 3, nn::PoolLayerOptions{.stride = 2}),
      layer<nn::MaxPool3d>("torch.nn.MaxPool3d(2)", cube, 2),
      layer<nn::AvgPool1d>("torch.nn.AvgPool1d(2)", line, 2),
      layer<nn::AvgPool2d>(
          "torch.nn.AvgPool2d((2, 3), ceil_mode=True, count_include_pad=False)",
          image,
          nn::PoolWindow{.kernel = {2, 3}, .ceilMode = true, .countIncludePad = false}),
      layer<nn::AdaptiveAvgPool2d>("torch.nn.AdaptiveAvgPool2d((3, 4))", image, nn::Extents{3, 4}),
      layer<nn::AdaptiveMaxPool3d>("torch.nn.AdaptiveMaxPool3d(3)", cube, 3),
      layer<nn::InstanceNorm1d>("torch.nn.InstanceNorm1d(4)", line, 4),
      layer<nn::InstanceNorm2d>("torch.nn.InstanceNorm2d(4, affine=True)",
                                image,
                                4,
                                nn::InstanceNormOptions{.affine = true}),
      layer<nn::Upsample>("torch.nn.Upsample(scale_factor=2, mode='bilinear')",
                          image,
                          nn::InterpolateOptions{.scaleFactor = {2}, .mode = "bilinear"}),
      layer<nn::PixelShuffle>("torch.nn.PixelShuffle(2)", image, 2),
  };
}

std::vector<FunctionCase> recurrentCases() {
  const HostTensor x = numbers({5, 2, 3});
  const HostTensor deep = numbers({18, 2, 3});  // rolled: 16 steps or more
  const HostTensor h = numbers({4, 2, 4});
  const HostTensor c = numbers({4, 2, 4});
  const nn::RecurrentOptions both{.numLayers = 2, .bidirectional = true};
  // The output, then the last states, as one row.
  const auto all = [](const nn::RecurrentOutput& y) {
    const nn::RecurrentState last = y.last();
    List parts = {y.output.flatten(), last.h.flatten()};
    if (last.c.defined()) {
      parts.push_back(last.c.flatten());
    }
    return nn::concat(parts);
  };
  const auto run = [all](nn::Recurrent& m, const List& in) { return all(m(in[0], {})); };
  const auto from = [all](nn::Recurrent& m, const List& in) {
    return all(m(in[0], {in[1], in.size() > 2 ? in[2] : nn::Tensor()}));
  };
  const std::string joined = "(lambda y, s: torch.cat([y.flatten(), s.flatten()]))";
  const std::string joinedLstm =
      "(lambda y, s: torch.cat([y.flatten(), s[0].flatten(), s[1].flatten()]))";
  std::vector<FunctionCase> cases;
  for (const HostTensor& in : {x, deep}) {
    cases.push_back(module<nn::LSTM>("torch.nn.LSTM(3, 4, 2, bidirectional=True)",
                                     joinedLstm + "(*m(x0, (x1, x2)))",
                                     {in, h, c},
                                     from,
                                     3,
                                     4,
                                     both));
    cases.push_back(module<nn::GRU>("torch.nn.GRU(3, 4, 2, bidirectional=True)",
                                    joined + "(*m(x0, x1))",
                                    {in, h},
                                    from,
                                    3,
                                    4,
                                    both));
    cases.push_back(module<nn::RNN>("torch.nn.RNN(3, 4, 2, bidirectional=True)",
                                    joined + "(*m(x0, x1))",
                                    {in, h},
                                    from,
                                    3,
                                    4,
                                    both));
  }
  cases.push_back(module<nn::LSTM>("torch.nn.LSTM(3, 4, bias=False, batch_first=True)",
                                   joinedLstm + "(*m(x0))",
                                   {x},
                                   run,
                                   3,
                                   4,
                                   nn::RecurrentOptions{.bias = false, .batchFirst = true}));
  cases.push_back(module<nn::RNN>("torch.nn.RNN(3, 4, nonlinearity='relu')",
                                  joined + "(*m(x0))",
                                  {x},
                                  run,
                                  3,
                                  4,
                                  nn::RecurrentOptions{},
                                  nn::Nonlinearity::Relu));
  cases.push_back({"m(x0)[0]",
                   {x},
                   [](nn::Module& parent) -> Call {
                     auto gru = std::make_shared<nn::GRU>(parent, "m", 3, 4);
                     return [gru](const List& in) { return (*gru)(in[0]); };
                   },
                   "torch.nn.GRU(3, 4)"});
  const auto steps = [](nn::RecurrentCell& m, const List& in) {
    return m(in[1], m(in[0], in.size() > 2 ? in[2] : nn::Tensor()));
  };
  const HostTensor one = numbers({2, 3});
  const HostTensor two = numbers({2, 3}, -2, 1);
  const HostTensor start = numbers({2, 4});
  cases.push_back(module<nn::GRUCell>(
      "torch.nn.GRUCell(3, 4)", "m(x1, m(x0, x2))", {one, two, start}, steps, 3, 4));
  cases.push_back(module<nn::GRUCell>("torch.nn.GRUCell(3, 4, bias=False)",
                                      "m(x1, m(x0))",
                                      {one, two},
                                      steps,
                                      3,
                                      4,
                                      nn::CellOptions{.bias = false}));
  cases.push_back(module<nn::RNNCell>(
      "torch.nn.RNNCell(3, 4)", "m(x1, m(x0, x2))", {one, two, start}, steps, 3, 4));
  cases.push_back(module<nn::RNNCell>("torch.nn.RNNCell(3, 4, nonlinearity='relu')",
                                      "m(x1, m(x0))",
                                      {one, two},
                                      steps,
                                      3,
                                      4,
                                      nn::CellOptions{},
                                      nn::Nonlinearity::Relu));
  const auto lstm = [](nn::LSTMCell& m, const List& in) {
    const nn::LstmState first = m(in[0], {in[2], in[2]});
    const nn::LstmState last = m(in[1], first);
    return nn::concat({last.h, last.c}, 1);
  };
  cases.push_back(module<nn::LSTMCell>("torch.nn.LSTMCell(3, 4)",
                                       "torch.cat(m(x1, m(x0, (x2, x2))), 1)",
                                       {one, two, start},
                                       lstm,
                                       3,
                                       4));
  return cases;
}

std::vector<FunctionCase> attentionCases() {
  using Attention = nn::MultiheadAttention;
  using Options = nn::MultiheadAttentionOptions;
  const HostTensor q = numbers({5, 2, 8});
  const HostTensor k = numbers({4, 2, 8});
  const HostTensor own =
      padding({5, 5}, {0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  const HostTensor late = padding({2, 4}, {0, 0, 0, 1, 0, 0, 1, 1});
  const auto cross = [](Attention& m, const List& in) {
    return m(in[0], in[1], in[1], {.keyPadding = in[2]}).output;
  };
  const auto weights = [](Attention& m, const List& in) {
    const nn::AttentionResult y = m(in[0], in[1], in[1], {.keyPadding = in[2]}, true);
    return nn::concat({y.output.flatten(), y.weights.flatten()});
  };
  const auto masked = [](Attention& m, const List& in) {
    return m(in[0], in[0], in[0], {.attention = in[1]}).output;
  };
  const auto mixed = [](Attention& m, const List& in) {
    return m(in[0], in[1], in[1], {.attention = in[3], .keyPadding = in[2]}).output;
  };
  const auto causal = [](Attention& m, const List& in) {
    return m(in[0], in[0], in[0], {.causal = true}).output;
  };
  const auto sized = [](Attention& m, const List& in) { return m(in[0], in[1], in[2]).output; };
  return {
      module<Attention>("torch.nn.MultiheadAttention(8, 2)",
                        "m(x0, x1, x1, key_padding_mask=x2, need_weights=False)[0]",
                        {q, k, late},
                        cross,
                        8,
                        2),
      module<Attention>("torch.nn.MultiheadAttention(8, 2)",
                        "torch.cat([t.flatten() for t in m(x0, x1, x1, key_padding_mask=x2)])",
                        {q, k, late},
                        weights,
                        8,
                        2),
      module<Attention>("torch.nn.MultiheadAttention(8, 2, bias=False)",
                        "m(x0, x0, x0, attn_mask=x1, need_weights=False)[0]",
                        {q, own},
                        masked,
                        8,
                        2,
                        Options{.bias = false}),
      module<Attention>("torch.nn.MultiheadAttention(8, 2)",
                        "m(x0, x1, x1, attn_mask=x3, key_padding_mask=x2, need_weights=False)[0]",
                        {q, k, late, numbers({5, 4})},
                        mixed,
                        8,
                        2),
      module<Attention>("torch.nn.MultiheadAttention(8, 2, batch_first=True)",
                        "m(x0, x0, x0, attn_mask=torch.ones(2, 2).triu(1).bool())[0]",
                        {q},
                        causal,
                        8,
                        2,
                        Options{.batchFirst = true}),
      module<Attention>("torch.nn.MultiheadAttention(8, 2, kdim=6, vdim=3)",
                        "m(x0, x1, x2)[0]",
                        {q, numbers({4, 2, 6}), numbers({4, 2, 3})},
                        sized,
                        8,
                        2,
                        Options{.kdim = 6, .vdim = 3}),
  };
}

std::vector<FunctionCase> transformerCases() {
  using Options = nn::TransformerLayerOptions;
  const HostTensor x = numbers({5, 2, 8});
  const HostTensor memory = numbers({4, 2, 8});
  const HostTensor late = padding({2, 4}, {0, 0, 0, 1, 0, 0, 1, 1});
  const Options plain{.feedforward = 16, .dropout = 0.0};
  const Options first{.feedforward = 16,
                      .dropout = 0.0,
                      .activation = nn::TransformerActivation::Gelu,
                      .batchFirst = true,
                      .normFirst = true};
  const auto encode = [](nn::TransformerEncoderLayer& m, const List& in) {
    return m(in[0], {.causal = true});
  };
  const auto decode = [](nn::TransformerDecoderLayer& m, const List& in) {
    return m(in[0], in[1], {.target = {.causal = true}, .memory = {.keyPadding = in[2]}});
  };
  const std::string angles =
      "(lambda a: (torch.cos(a), torch.sin(a)))(torch.arange(5.0)[:, None] * "
      "10000.0 ** (-torch.arange(4.0) / 4))";
  return {
      module<nn::TransformerEncoderLayer>("torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)",
                                          "m(x0, src_mask=torch.ones(5, 5).triu(1).bool())",
                                          {x},
                                          encode,
                                          8,
                                          2,
                                          plain),
      layer<nn::TransformerEncoderLayer>("torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, "
                                         "activation='gelu', batch_first=True, norm_first=True)",
                                         x,
                                         8,
                                         2,
                                         first),
      module<nn::TransformerDecoderLayer>(
          "torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0)",
          "m(x0, x1, tgt_mask=torch.ones(5, 5).triu(1).bool(), memory_key_padding_mask=x2)",
          {x, memory, late},
          decode,
          8,
          2,
          plain),
      module<nn::TransformerEncoder>(
          "torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 3, "
          "torch.nn.LayerNorm(8))",
          "m(x0, torch.ones(5, 5).triu(1).bool())",
          {x},
          [](nn::TransformerEncoder& m, const List& in) { return m(in[0], {.causal = true}); },
          3,
          8,
          2,
          nn::TransformerStackOptions{.layer = plain, .norm = true}),
      layer<nn::TransformerEncoder>(
          "torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, "
          "activation='gelu', batch_first=True, norm_first=True), 2)",
          x,
          2,
          8,
          2,
          nn::TransformerStackOptions{.layer = first}),
      module<nn::TransformerDecoder>(
          "torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2, "
          "torch.nn.LayerNorm(8))",
          "m(x0, x1, tgt_mask=torch.ones(5, 5).triu(1).bool(), memory_key_padding_mask=x2)",
          {x, memory, late},
          [](nn::TransformerDecoder& m, const List& in) {
            return m(in[0], in[1], {.target = {.causal = true}, .memory = {.keyPadding = in[2]}});
          },
          2,
          8,
          2,
          nn::TransformerStackOptions{.layer = plain, .norm = true}),
      {"(lambda c, s: torch.cat([x0[..., :4] * c - x0[..., 4:] * s, "
       "x0[..., 4:] * c + x0[..., :4] * s], -1))(*" +
           angles + ")",
       {numbers({2, 5, 8})},
       testing::plain([](const List& in) { return nn::rotaryEmbedding(in[0]); })},
      {"(lambda c, s: torch.stack([x0[..., ::2] * c - x0[..., 1::2] * s, "
       "x0[..., 1::2] * c + x0[..., ::2] * s], -1).flatten(-2))(*" +
           angles + ")",
       {numbers({2, 5, 8})},
       testing::plain(
           [](const List& in) { return nn::rotaryEmbedding(in[0], {.interleaved = true}); })},
  };
}

}  // namespace

std::vector<FunctionCase> layerCases() {
  std::vector<FunctionCase> cases;
  for (auto* part :
       {activationCases, windowCases, recurrentCases, attentionCases, transformerCases}) {
    for (FunctionCase& c : part()) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace sluice::testing
