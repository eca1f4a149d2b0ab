// Compares what two runs wrote, value by value: the first op, micro-batch and tensor in which they
// differ. Values are found by op, name, variable, output, step, micro-batch and replica, so the
// runs may have different strategies, devices or machines. A program that is compiled to be traced
// tells ops of one name apart (transforms/number_names.h); where names repeat all the same, values
// that differ are compared only if both runs wrote as many. A pure function of two Traces.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/profile/trace.h"

namespace sluice::profile {

struct CompareOptions {
  /// Elements may differ by absolute + relative * |the second's|; 0 and 0: bits are compared.
  double absolute = 0;
  double relative = 0;
  std::size_t elements = 8;  ///< the number of elements that are shown

  bool exact() const { return absolute == 0 && relative == 0; }
};

struct ElementDifference {
  std::int64_t index = 0;
  double first = 0;
  double second = 0;
};

struct ValueDifference {
  std::string op;
  std::string name;
  std::string tensor;  ///< the variable that was written; empty: none
  std::int32_t output = 0;
  std::string firstType;
  std::string secondType;
  std::int32_t step = 0;
  std::int64_t microBatch = -1;  ///< -1: once per round
  std::int32_t round = 0;
  std::int32_t replica = 0;
  std::int64_t differing = 0;            ///< elements; 0 if only hashes are known
  std::vector<ElementDifference> worst;  ///< those that differ most, the largest first

  /// "matmul 'fc1/matmul' of micro-batch 3 in step 0"
  std::string str() const;
};

struct ValueComparison {
  std::int64_t compared = 0;
  std::int64_t different = 0;
  std::int64_t onlyFirst = 0;   ///< values without a counterpart: other copies, other fusion
  std::int64_t onlySecond = 0;  ///< the same the other way round
  std::optional<ValueDifference> first;  ///< the first that differs, in the order of the first run
};

/// Copies between devices are compared by their bytes: not with a tolerance, nor if the devices
/// have other layouts. What they carry is compared where it is made. Throws InvalidArgument if a
/// trace has no values, if nothing can be compared, or if a tolerance is asked for and a trace has
/// only hashes.
ValueComparison compareValues(const Trace& first,
                              const Trace& second,
                              const CompareOptions& options = {});

/// For people; the names are those of the runs.
std::string comparisonText(const ValueComparison& comparison,
                           const std::string& first,
                           const std::string& second);
std::string comparisonJson(const ValueComparison& comparison);

}  // namespace sluice::profile
