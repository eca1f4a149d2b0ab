// Writes what the fuzz targets begin with: sound small files of every format, most of them by the
// library's own writers.
//
//   make_corpus <folder>     one folder of files for each target
#include <filesystem>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <zlib.h>

#include "fuzz/small_net.h"
#include "fuzz/unsealed.h"
#include "sluice/api/compiled_program.h"
#include "sluice/data/files.h"
#include "sluice/devices/cpu/kernels/tuning_options.h"
#include "sluice/devices/sim/target.h"
#include "sluice/ir/printer.h"
#include "sluice/onnx/files.h"
#include "sluice/profile/trace_file.h"
#include "sluice/program/text_form.h"
#include "tests/conformance/case_graph.h"
#include "tests/support/temp_folder.h"
#include "tests/support/two_stage_program.h"

namespace sluice::fuzz {
namespace {

namespace fs = std::filesystem;

class Corpus {
 public:
  explicit Corpus(fs::path folder) : folder_(std::move(folder)) {}

  /// Into the folder of one target.
  void add(std::string_view target, std::string_view name, std::string_view bytes) {
    const fs::path path = folder_ / target / name;
    fs::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) {
      raise<FileError>("cannot write '{}'", path.string());
    }
    ++files_;
  }
  std::size_t files() const { return files_; }

 private:
  fs::path folder_;
  std::size_t files_ = 0;
};

HostTensor numbers(DType dtype, const Shape& shape) {
  HostTensor tensor(dtype, shape);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    tensor.set(i, static_cast<double>(i % 5));
  }
  return tensor;
}

std::string bytesOf(const HostTensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes()), tensor.byteCount()};
}

enum class Stream : std::uint8_t { Gzip, Deflate };

std::string packed(std::string_view bytes, Stream kind) {
  z_stream z{};
  deflateInit2(&z, 9, Z_DEFLATED, kind == Stream::Gzip ? 16 + MAX_WBITS : -MAX_WBITS, 8, 0);
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // NOLINT: zlib's way
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

// --- data files --------------------------------------------------------------

std::string littleEndian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

struct Member {
  std::string name;
  std::string bytes;
  bool deflated = false;
};

/// A zip archive, as NumPy writes it.
std::string archive(const std::vector<Member>& members) {
  std::string local;
  std::string central;
  for (const Member& member : members) {
    const std::string stored =
        member.deflated ? packed(member.bytes, Stream::Deflate) : member.bytes;
    const auto crc = crc32(0,
                           reinterpret_cast<const Bytef*>(member.bytes.data()),
                           static_cast<uInt>(member.bytes.size()));
    const std::string common = littleEndian(20, 2) + littleEndian(0, 2) +
                               littleEndian(member.deflated ? 8 : 0, 2) + littleEndian(0, 4) +
                               littleEndian(crc, 4) + littleEndian(stored.size(), 4) +
                               littleEndian(member.bytes.size(), 4) +
                               littleEndian(member.name.size(), 2) + littleEndian(0, 2);
    central += "PK\x01\x02" + littleEndian(20, 2) + common + littleEndian(0, 2) +
               littleEndian(0, 4) + littleEndian(0, 4) + littleEndian(local.size(), 4) +
               member.name;
    local += "PK\x03\x04" + common + member.name + stored;
  }
  const std::string end = "PK\x05\x06" + littleEndian(0, 4) + littleEndian(members.size(), 2) +
                          littleEndian(members.size(), 2) + littleEndian(central.size(), 4) +
                          littleEndian(local.size(), 4) + littleEndian(0, 2);
  return local + central + end;
}

/// An archive of one member, with the end of one that has more than 4 GiB.
std::string with64Bits(std::string archive) {
  const std::size_t end = archive.rfind("PK\x05\x06");
  const std::size_t directory = archive.find("PK\x01\x02");
  const std::string one = littleEndian(1, 8);
  const std::string record = "PK\x06\x06" + littleEndian(44, 8) + std::string(12, '\0') + one +
                             one + littleEndian(end - directory, 8) + littleEndian(directory, 8);
  const std::string place =
      "PK\x06\x07" + littleEndian(0, 4) + littleEndian(end, 8) + littleEndian(1, 4);
  archive.replace(end + 8, 12, 12, '\xff');
  return archive.insert(end, record + place);
}

std::string idx(char type, const std::vector<char>& dims, std::size_t bytes) {
  std::string file = {0, 0, type, static_cast<char>(dims.size())};
  for (const char dim : dims) {
    file += {0, 0, 0, dim};
  }
  return file + std::string(bytes, '\1');
}

void addDataFiles(Corpus& corpus) {
  corpus.add("fuzz_idx", "images", idx(8, {2, 3, 3}, 18));
  corpus.add("fuzz_idx", "floats", idx(13, {4}, 16));
  corpus.add("fuzz_idx", "packed", packed(idx(8, {40, 40}, 1600), Stream::Gzip));
  corpus.add("fuzz_csv", "named", "a,b\n1,2\n-3.5,\"4\"\n");
  corpus.add("fuzz_csv", "plain", "1e3,2,nan\r\n\r\n4,5,6\r\n");
  const std::string floats = data::npyBytes(numbers(DType::F32, Shape{2, 3}));
  const std::string whole = data::npyBytes(numbers(DType::I64, Shape{}));
  corpus.add("fuzz_npy", "floats", floats);
  corpus.add("fuzz_npy", "bools", data::npyBytes(numbers(DType::Bool, Shape{3})));
  corpus.add("fuzz_npy", "archive", archive({{"a.npy", floats, false}, {"b.npy", whole, true}}));
  corpus.add("fuzz_npy", "archive64", with64Bits(archive({{"a.npy", floats, false}})));
  const std::string options{3, 2, 2, 6, 0, 0};  // see tokens_fuzz.cpp
  corpus.add("fuzz_tokens", "windows", options + bytesOf(numbers(DType::U16, Shape{11})));
  corpus.add("fuzz_tokens", "vocabulary", std::string{2, 0, 0, 4, 1, 4} + std::string(9, '\3'));
  data::Loader loader(smallDataset(), smallLoading());
  corpus.add("fuzz_loader", "begin", loader.state());
  while (loader.next()) {
    corpus.add("fuzz_loader", fmt::format("batch{}", loader.position()), loader.state());
  }
  data::Loader stream(data::Stream{data::iterate(smallDataset())}, {.batchSize = 2, .seed = 7});
  stream.next();
  corpus.add("fuzz_loader", "stream", stream.state());
}

// --- state and settings ------------------------------------------------------

void addStates(Corpus& corpus) {
  SmallNet net;
  auto model = trained(net);
  const std::string torch =
      serializeSafeTensors({.tensors = flattened(exportTorch(model)), .metadata = {}});
  corpus.add("fuzz_torch_state", "adamw", torch);
  corpus.add("fuzz_safetensors", "torch", torch);
  SafeTensors types{.tensors = {}, .metadata = {{"made", "here"}}};
  for (const DType dtype : {DType::F16, DType::BF16, DType::F64, DType::I8, DType::Bool}) {
    types.tensors.emplace(std::string(name(dtype)), numbers(dtype, Shape{1, 2}));
  }
  corpus.add("fuzz_safetensors", "types", serializeSafeTensors(types));

  const data::Loader loader(smallDataset(), smallLoading());
  Checkpoint checkpoint{model.trainingState(), model.updates(), loader.state()};
  const testing::TempFolder folder;
  const fs::path path = folder / "checkpoint";
  for (const bool replicas : {false, true}) {
    if (replicas) {
      checkpoint.state.replicas.push_back(
          {{"norm.running_mean", checkpoint.state.model.at("norm.running_mean")}});
    }
    writeCheckpoint(path, checkpoint);
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    corpus.add("fuzz_checkpoint", replicas ? "replicas" : "plain", bytes);
  }
}

/// For every op of the model that has alternatives, each of them.
void addTuning(Corpus& corpus) {
  TunedNet net;
  auto model = trainingModel(net, Options().randomSeed(4), optim::SGD(0.1));
  model.compile(std::vector{TunedNet::input()});
  std::map<std::string, std::string> tables;  // by the number of the alternative
  std::set<std::string> seen;
  for (const program::Segment& segment : model.program().segments) {
    for (const device::KernelCall& call : segment.calls) {
      const auto options = devices::cpu::tuningOptions(call.view());
      if (!options || !seen.insert(options->key).second) {
        continue;
      }
      for (std::size_t i = 0; i < options->values.size(); ++i) {
        tables[fmt::format("alternative{}", i)] +=
            fmt::format("{} {}\n", options->key, options->values[i]);
      }
    }
  }
  for (const auto& [name, text] : tables) {
    corpus.add("fuzz_tuning", name, "# key value\n" + text);
  }
}

void addOptions(Corpus& corpus) {
  corpus.add("fuzz_options", "call", "training.gradientAccumulation(4)");
  corpus.add("fuzz_options",
             "json",
             R"({"randomSeed": 4, "training.gradientAccumulation": 2, "tuningTable": "t"})");
}

/// An argument per line.
void addCommandLines(Corpus& corpus) {
  const std::map<std::string, std::string> lines = {
      {"schedule", "schedule\n--stages\n4\n--micro-batches\n8\n--schedule\n1f1b\n--width\n60"},
      {"costs",
       "schedule\n--micro-batches=3\n--costs\n1,2,1;2,3.5,1\n--bytes\n2,1\n--memory-cap\n9,9\n"
       "--schedule\nzb-h1\n--json"},
      {"cycles", "schedule\n--stages\n3\n--micro-batches\n2\n--view\ncycles\n--inference"},
      {"slots",
       "schedule\n--stages\n4\n--micro-batches\n4\n--devices\n0,1,1,0\n--slots\n0,1,1,2\n--copies\n"
       "1,2\n--svg\nout.svg"},
      {"ops", "ops\n--markdown\n--onnx"},
      {"completion", "completion\nbash"},
      {"cache", "cache\nlist\n--folder\nsome"},
      {"version", "version"},
      {"help", "train\n--help"},
      {"inspect", "inspect\nmodel.onnx\n--dim\nN=4\n--program\n--device\nfar*3"},
      {"convert", "convert\na.onnx\nb.txt\n--exact\n--dim\nbatch=2"},
      {"run", "run\nnet.slx\n--input\nx=x.npy\n--output\ny.npy\n--refuse-other-target"},
      {"train", "train\nmodel.onnx\n--epochs\n3\n--batch-size\n4\n--lr\n0.1\n--cut\nauto"},
      {"plan", "plan\nmodel.onnx\n--devices\n2\n--memory\n4MiB\n--json"},
      {"report", "report\na.slt\nb.slt\n--width\n80\n-o\nout.html"},
      {"diff", "diff\na.slt\nb.slt\n--absolute\n1e-3\n--elements\n4"},
      {"launch", "launch\n-n\n2\n--\nprogram\n--flag"},
  };
  for (const auto& [name, text] : lines) {
    corpus.add("fuzz_command_line", name, text);
  }
}

// --- graphs ------------------------------------------------------------------

std::string fromText(const std::string& graph, const std::string& domains = "") {
  ::onnx::ModelProto model;
  const std::string text =
      fmt::format("<ir_version: 8, opset_import: [\"\" : 17{}]>\n", domains) + graph;
  const auto status = ::onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) {
    raise<InvalidArgument>("{}: {}", graph, status.ErrorMessage());
  }
  return model.SerializeAsString();
}

void addModel(Corpus& corpus, const std::string& name, const std::string& bytes) {
  for (const char* target : {"fuzz_onnx", "fuzz_onnx_run", "fuzz_onnx_export"}) {
    corpus.add(target, name, bytes);
  }
}

void addOnnx(Corpus& corpus) {
  addModel(corpus, "shapes", fromText(R"(
    shapes (float[2, 6] x) => (float[N] y) {
      s = Shape(x)
      i = Constant<value_int: int = 1>()
      n = Gather(s, i)
      axis = Constant<value_ints: ints = [0]>()
      u = Unsqueeze(n, axis)
      r = Reshape(x, u)
      y = ReduceSum<keepdims = 0>(r, axis)
    })"));
  addModel(corpus, "choice", fromText(R"(
    choice (float[3] x, bool c) => (float[3] y) {
      y = If(c)<then_branch = a () => (float[3] p) { p = Relu(x) },
                else_branch = b () => (float[3] q) { q = Neg(x) }>
    })"));
  addModel(corpus, "loop", fromText(R"(
    loop (float[2] x) => (float[2] y) {
      n = Constant<value_int: int = 3>()
      y = Loop(n, , x)<body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
        { d = Identity(c) w = Add(v, v) }>
    })"));
  addModel(corpus,
           "calls",
           fromText(R"(
    calls (float[2] x) => (float[2] y) {
      a = o.shift(x)
      y = o.shift(a)
    }
    <domain: "o", opset_import: ["" : 17]>
    shift (v) => (r) {
      c = Constant<value: tensor = float[2] {1, 2}>()
      r = Add(v, c)
    })",
                    ", \"o\" : 1"));
  addModel(corpus, "lstm", fromText(R"(
    lstm (float[2, 1, 3] x, float[1, 8, 3] w, float[1, 8, 2] r) => (float[2, 1, 1, 2] y) {
      y = LSTM<hidden_size = 2>(x, w, r)
    })"));
  addModel(corpus, "image", fromText(R"(
    image (float[1, 2, 4, 4] x, float[2, 2, 3, 3] w) => (float[1, 8] y) {
      c = Conv<pads = [1, 1, 1, 1]>(x, w)
      p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
      y = Flatten(p)
    })"));
}

bool hasBody(const testing::OpCase& c) {
  return std::ranges::any_of(c.attrs, [](const ir::NamedAttr& attr) {
    return kindOf(attr.value) == ir::AttrKind::Subgraph;
  });
}

void addSimTargets(Corpus& corpus) {
  for (const std::string& name : devices::sim::builtInTargets()) {
    corpus.add("fuzz_sim_target", name, print(devices::sim::findTarget(name)));
  }
  corpus.add("fuzz_sim_target", "small", R"({"name": "a", "clockHz": 5, "kernels": {"k": 1e-6}})");
}

/// Bodies of trace files; the target adds the header.
void addTraces(Corpus& corpus) {
  constexpr std::size_t kHeader = 28;
  profile::Trace trace(profile::twoStageProgram());
  corpus.add("fuzz_trace", "empty", profile::traceBytes(trace).substr(kHeader));
  trace.addStep(profile::twoStageTimes());
  corpus.add("fuzz_trace", "step", profile::traceBytes(trace).substr(kHeader));
  runtime::WriteLog log(true);
  const std::vector<float> values = {1, 2};
  log.add({.op = "add", .name = "a", .type = {DType::F32, Shape{2}}, .values = {}},
          device::Layout::plain(),
          std::as_bytes(std::span(values)));
  trace.writes.push_back(log.take());
  trace.simulated = "ipu2";
  corpus.add("fuzz_trace", "values", profile::traceBytes(trace).substr(kHeader));
}

/// The sections of executables, and the texts of programs.
void addExecutables(Corpus& corpus) {
  const testing::TempFolder folder;
  const auto add = [&](const Model& model, std::string_view name) {
    model.save(folder / "a.slx");
    const SectionFile file(folder / "a.slx", {.magic = kExecutableMagic, .what = "executable"});
    corpus.add("fuzz_executable", name, unsealed(file));
    corpus.add("fuzz_program", name, program::toText(model.program()));
  };
  SmallNet net;
  const auto training = trained(net);
  add(training, "training");
  TunedNet tuned;
  auto inference = inferenceModel(tuned, Options().randomSeed(4));
  inference.compile(std::vector{TunedNet::input()});
  add(inference, "inference");
  corpus.add("fuzz_program", "two_stages", program::toText(profile::twoStageProgram()));
}

/// The first conformance case of every op, as text and as a model.
void addOps(Corpus& corpus) {
  std::set<std::string_view> seen;
  for (const testing::OpCase& c : testing::allCases()) {
    if (!seen.insert(c.def.name).second) {
      continue;
    }
    const ir::Graph graph = testing::caseGraph(c);
    corpus.add("fuzz_parser", caseName(c), print(graph));
    if (!hasBody(c) && !c.def.traits.effect) {
      addModel(corpus, caseName(c), onnx::exportModelBytes(graph));
      addModel(corpus,
               caseName(c) + "_exact",
               onnx::exportModelBytes(graph, {.exact = onnx::Exact::Yes}));
    }
  }
}

}  // namespace
}  // namespace sluice::fuzz

int main(int argc, char** argv) {
  using namespace sluice::fuzz;
  if (argc != 2) {
    fmt::print(stderr, "make_corpus <folder>\n");
    return 2;
  }
  try {
    Corpus corpus(argv[1]);
    for (const auto part : {addDataFiles,
                            addStates,
                            addTuning,
                            addOptions,
                            addCommandLines,
                            addSimTargets,
                            addTraces,
                            addExecutables,
                            addOnnx,
                            addOps}) {
      part(corpus);
    }
    fmt::print("{}: {} files\n", argv[1], corpus.files());
  } catch (const sluice::Error& error) {
    fmt::print(stderr, "make_corpus: {}\n", error.what());
    return 1;
  }
  return 0;
}
