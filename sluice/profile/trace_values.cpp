#include "sluice/profile/trace_values.h"

#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace sluice::profile {
namespace {

using runtime::WrittenValue;

constexpr std::int64_t kMostNumber = std::int64_t{1} << 40;
constexpr std::int64_t kMostRank = 64;

using Name = std::tuple<std::string, std::string, std::string, std::int32_t, std::string>;

Name nameOf(const WrittenValue& value) {
  return {value.op.str(), value.name.str(), value.tensor.str(), value.output, value.type.str()};
}

void writeName(ByteWriter& out, const WrittenValue& value) {
  out.text(value.op.str());
  out.text(value.name.str());
  out.text(value.tensor.str());
  out.number(value.output);
  out.number(static_cast<std::int32_t>(value.type.dtype));
  out.number(std::uint64_t{value.type.shape.dims().size()});
  for (const std::int64_t extent : value.type.shape.dims()) {
    out.number(extent);
  }
}

WrittenValue readName(ByteReader& in) {
  WrittenValue value;
  value.op = in.text();
  value.name = in.text();
  value.tensor = in.text();
  value.output = in.index(0, kMostNumber, "an output");
  value.type.dtype = static_cast<DType>(in.index(0, kNumDTypes, "a type of elements"));
  const std::size_t rank = in.count("extents");
  if (rank > static_cast<std::size_t>(kMostRank)) {
    in.fail("a shape has too many axes");
  }
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(in.within(0, kMostNumber, "an extent"));
  }
  try {
    value.type.shape = Shape(std::move(dims));
  } catch (const Error& error) {
    in.fail(error.message());
  }
  return value;
}

}  // namespace

void writeValues(ByteWriter& out, const std::vector<StepWrites>& steps) {
  std::map<Name, std::uint64_t> numbers;
  std::vector<const WrittenValue*> distinct;
  for (const StepWrites& step : steps) {
    for (const WrittenValue& value : step) {
      if (numbers.try_emplace(nameOf(value), distinct.size()).second) {
        distinct.push_back(&value);
      }
    }
  }
  out.number(std::uint64_t{distinct.size()});
  for (const WrittenValue* value : distinct) {
    writeName(out, *value);
  }
  for (const StepWrites& step : steps) {
    out.number(std::uint64_t{step.size()});
    for (const WrittenValue& value : step) {
      out.number(static_cast<std::int64_t>(numbers.at(nameOf(value))));
      out.number(value.microBatch);
      out.number(value.round);
      out.number(value.replica);
      out.fixed(value.hash, 8);
      out.text({reinterpret_cast<const char*>(value.values.data()), value.values.size()});
    }
  }
}

std::vector<StepWrites> readValues(ByteReader& in, std::size_t steps) {
  std::vector<WrittenValue> distinct(in.count("values"));
  std::set<Name> names;
  for (WrittenValue& value : distinct) {
    value = readName(in);
    if (!names.insert(nameOf(value)).second) {
      in.fail("a value is listed twice");
    }
  }
  std::size_t used = 0;  // the list is in the order of first use
  std::vector<StepWrites> all(distinct.empty() ? 0 : steps);
  for (std::size_t s = 0; s < steps; ++s) {
    const std::size_t count = in.count("written values");
    for (std::size_t i = 0; i < count; ++i) {
      const std::int32_t number =
          in.index(0, static_cast<std::int64_t>(distinct.size()), "a value");
      if (static_cast<std::size_t>(number) > used) {
        in.fail("values are not listed in the order of their use");
      }
      used += static_cast<std::size_t>(number) == used ? 1 : 0;
      WrittenValue value = distinct[static_cast<std::size_t>(number)];
      value.microBatch = in.within(-1, kMostNumber, "a micro-batch");
      value.round = in.index(0, kMostNumber, "a round");
      value.replica = in.index(0, kMostNumber, "a replica");
      value.hash = in.fixed(8);
      const std::string elements = in.text();
      if (!elements.empty() && elements.size() != value.type.bytes()) {
        in.fail(fmt::format(
            "{} has {} bytes, got {}", value.type.str(), value.type.bytes(), elements.size()));
      }
      value.values.resize(elements.size());
      if (!elements.empty()) {
        std::memcpy(value.values.data(), elements.data(), elements.size());
      }
      all[s].push_back(std::move(value));
    }
  }
  if (used != distinct.size()) {
    in.fail("a value is listed and never written");
  }
  return all;
}

}  // namespace sluice::profile
