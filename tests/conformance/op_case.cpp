#include "tests/conformance/op_case.h"

#include <map>
#include <ostream>

namespace sluice::testing {

std::vector<OpCase> allCases() {
  std::vector<OpCase> all;
  for (const auto family : {attentionCases,
                            controlCases,
                            elementwiseCases,
                            indexingCases,
                            linearCases,
                            mathCases,
                            normCases,
                            shapeCases,
                            vendorCases}) {
    for (OpCase& c : family()) {
      all.push_back(c);
    }
  }
  // Cases of one op without a label of their own get a number.
  std::map<std::string, int> seen;
  for (OpCase& c : all) {
    const int count = seen[caseName(c)]++;
    if (count > 0) {
      c.label += (c.label.empty() ? "" : "_") + std::to_string(count + 1);
    }
  }
  return all;
}

std::string caseName(const OpCase& c) {
  return std::string(c.def.name) + (c.label.empty() ? "" : "_" + c.label);
}

void PrintTo(const OpCase& c, std::ostream* stream) {
  *stream << caseName(c);
}

}  // namespace sluice::testing
