// Types, tensors, attributes and variables as bytes, for executables. Readers throw FileError for
// whatever the writers do not write; other errors (a type that cannot exist, an attribute that an
// op does not have) are those of the functions that check the values.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "sluice/base/byte_code.h"
#include "sluice/ir/graph.h"
#include "sluice/ir/op_def.h"
#include "sluice/ir/value.h"

namespace sluice::ir {

void writeType(ByteWriter& out, const TensorType& type);
TensorType readType(ByteReader& in);
void writeTensor(ByteWriter& out, const HostTensor& tensor);
HostTensor readTensor(ByteReader& in);

void writeAttrs(ByteWriter& out, const Attrs& attrs);

/// Reads attributes. Equal bodies of ops become one graph.
class AttrReader {
 public:
  explicit AttrReader(const OpSet& ops) : ops_(ops) {}

  /// The attributes of an op, checked against its schema.
  Attrs read(ByteReader& in, const OpDef& def);

 private:
  Attr readAttr(ByteReader& in);
  GraphRef graphOf(std::string_view text);

  const OpSet& ops_;
  std::map<std::string, GraphRef, std::less<>> graphs_;  // by their texts
};

/// An initial value that is a tensor is left out: the file has the value of the variable itself, or
/// whoever reads it has.
void writeVariable(ByteWriter& out, const Variable& variable);
/// A variable whose initial value was left out starts at 0.
Variable readVariable(ByteReader& in);

}  // namespace sluice::ir
