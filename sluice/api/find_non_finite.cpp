// Model::findFirstNonFinite: the next call, run by a checked program and then undone.
#include <limits>

#include <fmt/format.h>

#include "sluice/api/compile_progress.h"
#include "sluice/api/model_core.h"

namespace sluice {
namespace {

std::string problemOf(const runtime::FiniteCheck& check, const HostTensor& tensor) {
  const std::int64_t at = check.first();
  return fmt::format("is {} at element {} of {}", tensor.at(at), at, tensor.shape().elements());
}

std::optional<NonFinite> badInput(std::span<const HostTensor> inputs, std::int64_t microBatch) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const HostTensor& input = inputs[i];
    const runtime::FiniteCheck check = runtime::checkFinite(input.type(), input.bytes());
    if (!check.finite()) {
      const std::int64_t rows = input.shape().rank() == 0 ? 1 : input.shape()[0];
      const std::int64_t row = check.first() / (input.shape().elements() / rows);
      return NonFinite{.op = fmt::format("input {}", i),
                       .problem = problemOf(check, input),
                       .part = {},
                       .microBatch = row / microBatch};
    }
  }
  return std::nullopt;
}

std::optional<NonFinite> badVariable(const Session::Values& values) {
  for (const auto& replica : values) {
    for (const auto& [name, value] : replica) {
      const runtime::FiniteCheck check = runtime::checkFinite(value.type(), value.bytes());
      if (!check.finite()) {
        return NonFinite{.op = fmt::format("variable '{}'", name),
                         .problem = problemOf(check, value),
                         .part = {}};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NonFinite> ModelCore::findFirstNonFinite(std::span<const HostTensor> inputs) {
  const runtime::Turn::Hold turn = enter();
  const Signature signature = signatureOf(arranged(inputs), layout_);
  requireRows(signature);
  Options checked = options_;
  checked.precision.enableFloatingPointExceptions(true);
  CompileProgress progress(false);
  Entry entry = makeEntry(signature, layout_, checked, progress);
  if (auto bad = badInput(inputs, rowsOf(signature)); bad && !synthetic()) {
    return bad;
  }
  const std::shared_ptr<Step> step = prepare({inputs.begin(), inputs.end()}, entry);
  const Session::Values before = alive().copyValues();
  if (auto bad = badVariable(before)) {
    return bad;
  }
  runtime::StepArgs args = argsOf(*step, entry);
  args.undoBytes = std::numeric_limits<std::size_t>::max();  // the session undoes what fails
  std::optional<NonFinite> found;
  try {
    alive().run(entry.compiled.program, args);
  } catch (const FloatingPointError& error) {
    found = error.found();
  }
  if (alive().engine().isIdle()) {  // else the session does it later
    alive().restoreValues(before);
  }
  return found;
}

}  // namespace sluice
