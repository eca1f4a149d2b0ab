// AiOnnx: recurrent layers, signals and n-grams.
#include "sluice/base/error.h"
#include "sluice/frontends/popart/builder.h"
#include "sluice/frontends/popart/op_attrs.h"
#include "sluice/onnx/node.h"

namespace sluice {
namespace {

OpOperand scalarOrNothing(std::optional<std::int64_t> number) {
  return number ? OpOperand(HostTensor::scalar(*number)) : OpOperand();
}

}  // namespace

AiOnnx::Ids AiOnnx::recurrent(std::string_view op,
                              const TensorId& x,
                              const RecurrentTensors& tensors,
                              const RecurrentOptions& options) {
  const bool lstm = op == "LSTM";
  Ids inputs = {x, tensors.w, tensors.r, tensors.b, tensors.lengths, tensors.initialH};
  if (lstm) {
    inputs.push_back(tensors.initialC);
    inputs.push_back(tensors.peepholes);
  } else if (!tensors.initialC.empty() || !tensors.peepholes.empty()) {
    raise<InvalidArgument>("{}: only LSTM has cell states and peepholes", op);
  }
  std::vector<ir::NamedAttr> attrs = given({{"direction", options.direction},
                                            {"layout", options.batchFirst},
                                            {"activations", options.activations},
                                            {"activation_alpha", options.activationAlpha},
                                            {"activation_beta", options.activationBeta}});
  if (options.clip != 0.0) {
    attrs.emplace_back("clip", options.clip);
  }
  if (options.inputForget) {
    attrs.emplace_back("input_forget", true);
  }
  if (options.linearBeforeReset) {
    attrs.emplace_back("linear_before_reset", true);
  }
  return node(op, inputs, std::move(attrs), lstm ? 3 : 2);
}

AiOnnx::Ids AiOnnx::gru(const TensorId& x,
                        const RecurrentTensors& tensors,
                        const RecurrentOptions& options) {
  return recurrent("GRU", x, tensors, options);
}

AiOnnx::Ids AiOnnx::lstm(const TensorId& x,
                         const RecurrentTensors& tensors,
                         const RecurrentOptions& options) {
  return recurrent("LSTM", x, tensors, options);
}

AiOnnx::Ids AiOnnx::rnn(const TensorId& x,
                        const RecurrentTensors& tensors,
                        const RecurrentOptions& options) {
  return recurrent("RNN", x, tensors, options);
}

TensorId AiOnnx::window(std::string_view op, std::int64_t size, const WindowOptions& options) {
  return one(
      op,
      {HostTensor::scalar(size)},
      {{"periodic", options.periodic}, {"output_datatype", onnx::onnxTypeOf(options.dtype)}});
}

TensorId AiOnnx::blackmanwindow(std::int64_t size, const WindowOptions& options) {
  return window("BlackmanWindow", size, options);
}

TensorId AiOnnx::hammingwindow(std::int64_t size, const WindowOptions& options) {
  return window("HammingWindow", size, options);
}

TensorId AiOnnx::hannwindow(std::int64_t size, const WindowOptions& options) {
  return window("HannWindow", size, options);
}

TensorId AiOnnx::dft(const TensorId& x, const DftOptions& options) {
  return one(
      "DFT",
      {x, scalarOrNothing(options.length)},
      {{"axis", options.axis}, {"inverse", options.inverse}, {"onesided", options.onesided}});
}

TensorId AiOnnx::stft(const TensorId& x, const StftOptions& options) {
  return one("STFT",
             {x,
              HostTensor::scalar(options.frameStep),
              options.window,
              scalarOrNothing(options.frameLength)},
             {{"onesided", options.onesided}});
}

TensorId AiOnnx::melweightmatrix(const MelWeightOptions& options) {
  return one("MelWeightMatrix",
             {HostTensor::scalar(options.bins),
              HostTensor::scalar(options.dftLength),
              HostTensor::scalar(options.sampleRate),
              HostTensor::scalar(static_cast<float>(options.lowerEdge)),
              HostTensor::scalar(static_cast<float>(options.upperEdge))},
             {{"output_datatype", onnx::onnxTypeOf(options.dtype)}});
}

TensorId AiOnnx::tfidfvectorizer(const TensorId& x, const TfIdfOptions& options) {
  return one("TfIdfVectorizer",
             {x},
             given({{"mode", options.mode},
                    {"min_gram_length", options.minGramLength},
                    {"max_gram_length", options.maxGramLength},
                    {"max_skip_count", options.maxSkipCount},
                    {"pool_int64s", options.pool},
                    {"ngram_counts", options.ngramCounts},
                    {"ngram_indexes", options.ngramIndexes},
                    {"weights", options.weights}}));
}

}  // namespace sluice
