#include "sluice/api/executable_bytes.h"

#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "sluice/compile/compiled_bytes.h"
#include "sluice/ir/byte_form.h"
#include "sluice/ir/parser.h"
#include "sluice/ir/printer.h"
#include "sluice/ops/op_list.h"

namespace sluice {
namespace {

constexpr int kMostNested = 64;
constexpr std::int64_t kMostCount = 1 << 20;  // the product of three fits

template <class List, class Write>
void writeEach(ByteWriter& out, const List& list, const Write& write) {
  out.number(std::uint64_t{list.size()});
  for (const auto& item : list) {
    write(item);
  }
}

template <class Read>
void readEach(ByteReader& in, std::string_view what, const Read& read) {
  const std::size_t count = in.count(what);
  for (std::size_t i = 0; i < count; ++i) {
    read();
  }
}

template <class L, class Write>
void writeStructure(ByteWriter& out, const Structure<L>& structure, const Write& leaf) {
  out.number(static_cast<std::int32_t>(structure.kind()));
  if (structure.kind() == StructureKind::Tensor) {
    leaf(structure.tensor());
  }
  out.number(std::uint64_t{structure.size()});
  for (std::size_t i = 0; i < structure.size(); ++i) {
    if (structure.kind() == StructureKind::Named) {
      out.text(structure.names()[i]);
    }
    writeStructure(out, structure[i], leaf);
  }
}

template <class L, class Read>
Structure<L> readStructure(ByteReader& in, const Read& leaf, int depth = 0) {
  if (depth > kMostNested) {
    in.fail("a structure is nested too deeply");
  }
  const auto kind = static_cast<StructureKind>(in.index(0, 4, "the kind of a structure"));
  Structure<L> result;
  if (kind == StructureKind::Tensor) {
    result = Structure<L>(leaf());
  }
  std::vector<Structure<L>> parts;
  std::map<std::string, Structure<L>> named;
  readEach(in, "parts", [&] {
    if (kind == StructureKind::Named) {
      std::string name = in.text();
      named.insert_or_assign(std::move(name), readStructure<L>(in, leaf, depth + 1));
    } else {
      parts.push_back(readStructure<L>(in, leaf, depth + 1));
    }
  });
  if (kind == StructureKind::List) {
    return Structure<L>::list(std::move(parts));
  }
  if (kind == StructureKind::Named) {
    return Structure<L>::named(std::move(named));
  }
  if (!parts.empty()) {
    in.fail("something without parts has parts");
  }
  return result;
}

void writeLayout(ByteWriter& out, const BatchLayout& layout) {
  out.number(layout.microBatch);
  out.number(layout.deviceIterations);
  out.number(layout.gradientAccumulation);
  out.number(layout.replicationFactor);
  out.number(layout.inputGroupSize);
  out.number(static_cast<std::int32_t>(layout.inputGroupType));
  out.number(static_cast<std::int32_t>(layout.outputMode));
  out.number(layout.outputPeriod);
}

BatchLayout readLayout(ByteReader& in) {
  const auto count = [&](std::string_view what) { return in.within(1, kMostCount, what); };
  BatchLayout layout;
  layout.microBatch =
      in.within(0, std::numeric_limits<std::int64_t>::max(), "the rows of a micro-batch");
  layout.deviceIterations = count("deviceIterations");
  layout.gradientAccumulation = count("gradientAccumulation");
  layout.replicationFactor = count("replicationFactor");
  layout.inputGroupSize = count("the size of an input group");
  layout.inputGroupType = static_cast<CommGroupType>(
      in.index(0, std::int64_t{EnumText<CommGroupType>::kNames.size()}, "a group type"));
  layout.outputMode = static_cast<OutputMode>(
      in.index(0, static_cast<std::int64_t>(OutputMode::Default), "an output mode"));
  layout.outputPeriod = count("the period of outputs");
  return layout;
}

void writeAttributes(ByteWriter& out, const optim::AttributeRecord& record) {
  writeEach(out, record.values, [&](const auto& each) {
    out.text(each.first);
    out.real(each.second);
  });
  writeEach(out, record.constant, [&](const auto& each) {
    out.text(each.first);
    out.flag(each.second);
  });
}

optim::AttributeRecord readAttributes(ByteReader& in) {
  optim::AttributeRecord record;
  readEach(in, "attributes", [&] {
    std::string name = in.text();
    record.values.insert_or_assign(std::move(name), in.real());
  });
  readEach(in, "marks", [&] {
    std::string name = in.text();
    record.constant.insert_or_assign(std::move(name), in.flag());
  });
  return record;
}

void writeDType(ByteWriter& out, std::optional<DType> type) {
  out.number(type ? static_cast<std::int32_t>(*type) : -1);
}

std::optional<DType> readDType(ByteReader& in) {
  const std::int32_t number = in.index(-1, kNumDTypes, "a type of elements");
  return number < 0 ? std::nullopt : std::optional(static_cast<DType>(number));
}

}  // namespace

void writeInfo(ByteWriter& out, const ExecutableContent& content) {
  out.text(content.target.library);
  out.text(content.target.devices);
  writeEach(out, content.target.descriptions, [&](const std::string& each) { out.text(each); });
  out.fixed(content.target.tuning, 8);
  out.flag(content.training);
  out.flag(content.madeOfModule);
  out.flag(content.constantWeights);
  out.fixed(content.seed, 8);
  writeEach(out, content.options, [&](const SetterCall& call) {
    out.text(call.setter);
    out.text(call.arguments);
  });
  writeEach(out, content.customOps, [&](const CustomOpRecord& each) {
    out.text(each.op);
    out.text(each.library);
    out.number(std::int64_t{each.abi});
  });
  writeEach(out, content.inputs, [&](const Input& input) {
    out.text(input.name);
    out.flag(input.byDefault.has_value());
    if (input.byDefault) {
      writeStructure(out, *input.byDefault, [&](const HostTensor& t) { ir::writeTensor(out, t); });
    }
  });
  writeEach(
      out, content.variables, [&](const ir::Variable& each) { ir::writeVariable(out, each); });
}

void readInfo(ByteReader& in, ExecutableContent& content) {
  content.target.library = in.text();
  content.target.devices = in.text();
  readEach(in, "devices", [&] { content.target.descriptions.push_back(in.text()); });
  content.target.tuning = in.fixed(8);
  content.training = in.flag();
  content.madeOfModule = in.flag();
  content.constantWeights = in.flag();
  content.seed = in.fixed(8);
  readEach(in, "options", [&] {
    SetterCall& call = content.options.emplace_back();
    call.setter = in.text();
    call.arguments = in.text();
  });
  readEach(in, "custom ops", [&] {
    CustomOpRecord& each = content.customOps.emplace_back();
    each.op = in.text();
    each.library = in.text();
    each.abi = static_cast<std::uint32_t>(
        in.within(0, std::numeric_limits<std::uint32_t>::max(), "a version"));
  });
  readEach(in, "inputs", [&] {
    Input& input = content.inputs.emplace_back(in.text());
    if (in.flag()) {
      input.byDefault = readStructure<HostTensor>(in, [&] { return ir::readTensor(in); });
    }
  });
  readEach(in, "variables", [&] { content.variables.push_back(ir::readVariable(in)); });
  in.end();
}

void writeOptimizer(ByteWriter& out, const optim::OptimizerRecord& record) {
  out.text(record.rule);
  writeAttributes(out, {record.settings, {}});
  writeEach(out, record.groups, [&](const optim::AttributeRecord& group) {
    writeAttributes(out, group);
  });
  writeAttributes(out, record.common);
  writeEach(out, record.groupOf, [&](const auto& each) {
    out.text(each.first);
    out.number(each.second);
  });
  writeDType(out, record.accumType);
  out.flag(record.accumulation.has_value());
  if (record.accumulation) {
    writeEach(out, *record.accumulation, [&](const auto& each) {
      out.text(each.first);
      writeDType(out, each.second);
    });
  }
  out.flag(record.castGradients);
}

optim::OptimizerRecord readOptimizer(ByteReader& in) {
  optim::OptimizerRecord record;
  record.rule = in.text();
  record.settings = readAttributes(in).values;
  readEach(in, "groups", [&] { record.groups.push_back(readAttributes(in)); });
  record.common = readAttributes(in);
  readEach(in, "weights", [&] {
    std::string weight = in.text();
    record.groupOf.insert_or_assign(std::move(weight), in.index(1, kMostCount, "a group"));
  });
  record.accumType = readDType(in);
  if (in.flag()) {
    record.accumulation.emplace();
    readEach(in, "weights", [&] {
      std::string weight = in.text();
      record.accumulation->insert_or_assign(std::move(weight), readDType(in));
    });
  }
  record.castGradients = in.flag();
  in.end();
  return record;
}

void writeStored(ByteWriter& out, const StoredProgram& program) {
  writeStructure(out, program.signature, [&](const TensorType& t) { ir::writeType(out, t); });
  writeLayout(out, program.layout);
  out.number(std::uint64_t{program.outputs});
  writeStructure(out, program.result, [&](std::size_t i) { out.number(std::uint64_t{i}); });
  compiler::writeCompiled(out, program.compiled);
}

StoredProgram readStored(ByteReader& in) {
  StoredProgram program{
      .signature = readStructure<TensorType>(in, [&] { return ir::readType(in); }),
      .layout = readLayout(in),
      .outputs = static_cast<std::size_t>(in.number()),
      .result =
          readStructure<std::size_t>(in, [&] { return static_cast<std::size_t>(in.number()); }),
      .compiled = compiler::readCompiled(in, ops::opSet())};
  in.end();
  return program;
}

void writeTraced(ByteWriter& out, const TracedGraph& traced) {
  ir::Graph graph = traced.graph;
  for (const ir::Variable& variable : traced.graph.variables()) {
    if (variable.initializer.kind == ir::Initializer::Kind::Tensor) {
      ir::Variable without = variable;
      without.initializer = ir::Initializer::constant(0);
      graph.replaceVariable(std::move(without));
    }
  }
  out.text(ir::print(graph));
  out.number(std::uint64_t{traced.outputs});
  out.number(std::uint64_t{traced.loss});
  out.flag(traced.cutIntoStages);
  writeStructure(out, traced.result, [&](std::size_t i) { out.number(std::uint64_t{i}); });
  std::unordered_map<ir::OpId, std::size_t> place;
  for (const ir::OpId id : graph.order()) {
    place.emplace(id, place.size());
  }
  writeEach(out, traced.tensors, [&](const NamedTensor& tensor) {
    out.text(tensor.name);
    out.number(std::uint64_t{place.at(tensor.value.op)});
    out.number(std::int64_t{tensor.value.out});
  });
  writeEach(out, traced.warnings, [&](const std::string& text) { out.text(text); });
}

TracedGraph readTraced(ByteReader& in) {
  TracedGraph traced{ir::parse(in.view(), ops::opSet())};
  const ir::Graph& graph = traced.graph;
  traced.outputs = static_cast<std::size_t>(in.number());
  traced.loss = static_cast<std::size_t>(in.number());
  if (traced.outputs > graph.outputs().size() || traced.loss >= graph.outputs().size()) {
    in.fail(fmt::format("output {} of {} is the loss", traced.loss, graph.outputs().size()));
  }
  traced.cutIntoStages = in.flag();
  traced.result =
      readStructure<std::size_t>(in, [&] { return static_cast<std::size_t>(in.number()); });
  for (const std::size_t output : traced.result.leaves()) {
    if (output >= traced.outputs) {
      in.fail(fmt::format("the result has output {} of {}", output, traced.outputs));
    }
  }
  readEach(in, "tensors", [&] {
    NamedTensor& tensor = traced.tensors.emplace_back();
    tensor.name = in.text();
    const std::uint64_t place = in.number();
    if (place >= graph.order().size()) {
      in.fail(fmt::format("tensor '{}' is made by op {}", tensor.name, place));
    }
    const ir::Op& op = graph.op(graph.order()[place]);
    tensor.value = op.out(static_cast<std::size_t>(
        in.index(0, static_cast<std::int64_t>(op.outputs.size()), "a result of an op")));
  });
  readEach(in, "warnings", [&] { traced.warnings.push_back(in.text()); });
  in.end();
  return traced;
}

}  // namespace sluice
