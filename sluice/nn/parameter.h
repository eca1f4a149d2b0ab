// Parameter: one named tensor of a module, trained (a weight) or written by the model itself (a
// buffer, such as a running mean). Inside a trace it converts to the Tensor that reads it; outside
// its value is read and set, in the model that holds it or, before there is one, on the host.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/ir/variable.h"
#include "sluice/nn/tensor.h"

namespace sluice::nn {

class Module;

/// Where the variables of a compiled model live; made by whoever compiles it.
class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual HostTensor read(std::string_view variable) = 0;
  virtual void write(std::string_view variable, const HostTensor& value) = 0;
  virtual bool contains(std::string_view variable) = 0;
};

class Parameter {
 public:
  Parameter(const Module& owner,
            std::string name,
            TensorType type,
            ir::VariableRole role,
            ir::Initializer initializer);
  ~Parameter() = default;
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }
  /// The variable's name: "encoder.0.weight".
  std::string fullName() const;
  const TensorType& type() const { return type_; }
  const ir::Initializer& initializer() const { return initializer_; }
  /// What it starts from in models made from now on; throws InvalidArgument for a tensor of another
  /// type, and for a buffer that a model has already: it would not be replaced there.
  void setInitializer(ir::Initializer initializer);
  ir::VariableRole role() const { return role_; }
  bool isBuffer() const { return role_ == ir::VariableRole::Buffer; }
  /// Buffers never are.
  bool trainable() const { return trainable_; }
  /// Takes effect in models traced from now on. Throws InvalidArgument for a buffer.
  void setTrainable(bool trainable);
  /// Its type, and that of its initial value, in models made from now on. Throws InvalidArgument
  /// unless it and the type are floats, and while a model holds it.
  void to(DType dtype);
  /// Module::to leaves it alone.
  void keepType() { keepsType_ = true; }
  bool keepsType() const { return keepsType_; }
  /// Throws InvalidArgument if the type is no float or a model holds the parameter.
  void requireConvertible(DType dtype) const;
  /// As it is declared in a graph.
  ir::Variable variable() const;

  /// The model's current value, or the one it will start from.
  HostTensor value() const;
  /// Sets it in the model that holds it, or as what it starts from; throws InvalidArgument unless
  /// the type is the parameter's.
  void setValue(const HostTensor& value);
  /// For the model that holds the value and will not much longer: what it starts from then.
  void startFrom(HostTensor value);

  /// The value in the current trace; throws InvalidArgument outside of one.
  Tensor use() const;
  operator Tensor() const { return use(); }  // NOLINT(google-explicit-constructor)

  /// Writes a buffer in the current trace: later uses in it see the new value, and the next run
  /// starts from what the last one left. Throws InvalidArgument for a weight or another type.
  void assign(const Tensor& value);
  Parameter& operator+=(const Tensor& x);
  Parameter& operator+=(double x);
  Parameter& operator*=(double x);

 private:
  std::shared_ptr<StateStore> storeWithValue() const;

  const Module& owner_;
  std::string name_;
  TensorType type_;
  ir::VariableRole role_;
  bool trainable_;
  bool keepsType_ = false;
  ir::Initializer initializer_;
};

}  // namespace sluice::nn
