// Module::summary: one row per module, one line per parameter.
#include <algorithm>

#include <fmt/format.h>

#include "sluice/nn/module.h"

namespace sluice::nn {
namespace {

struct Row {
  std::string path;
  std::string kind;
  std::string shape;
  std::string count;
};

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto i = static_cast<std::int64_t>(text.size()) - 3; i > 0; i -= 3) {
    text.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return text;
}

void addRows(const Module& module, std::vector<Row>& rows) {
  const std::string path = module.path();
  Row row{path.empty() ? "(root)" : path, module.kind(), "", ""};
  for (const auto& parameter : module.ownParameters()) {
    std::string_view mark = parameter->trainable() ? "" : " (frozen)";
    if (parameter->isBuffer()) {
      mark = " (buffer)";
    }
    row.shape = fmt::format("{} {}{}", parameter->name(), parameter->type().shape.str(), mark);
    row.count = grouped(parameter->type().shape.elements());
    rows.push_back(std::exchange(row, {}));
  }
  if (module.ownParameters().empty()) {
    rows.push_back(std::move(row));
  }
  for (const Module* child : module.children()) {
    addRows(*child, rows);
  }
}

}  // namespace

std::string Module::summary() const {
  std::vector<Row> rows = {{"Module", "Kind", "Parameter", "Elements"}};
  addRows(*this, rows);
  std::size_t path = 0;
  std::size_t type = 0;
  std::size_t shape = 0;
  std::size_t count = 0;
  for (const Row& row : rows) {
    path = std::max(path, row.path.size());
    type = std::max(type, row.kind.size());
    shape = std::max(shape, row.shape.size());
    count = std::max(count, row.count.size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}",
                                   row.path,
                                   path,
                                   row.kind,
                                   type,
                                   row.shape,
                                   shape,
                                   row.count,
                                   count);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  std::int64_t trainable = 0;
  for (const Parameter* parameter : parameters()) {
    trainable += parameter->trainable() ? parameter->type().shape.elements() : 0;
  }
  return text + fmt::format("Total {} parameters, {} trainable, {} frozen\n",
                            grouped(numParameters()),
                            grouped(trainable),
                            grouped(numParameters() - trainable));
}

}  // namespace sluice::nn
