// Parameter: a named tensor of a module. A weight is trained; a buffer, such as a running mean, is
// written by the model itself. Inside a trace a Parameter converts to the Tensor that reads it.
// Outside, its value can be read and set, in the model that holds it or, if there is none yet, on
// the host.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "sluice/ir/value.h"
#include "sluice/nn/tensor.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

class Module;

/// Holds the variables of compiled models. The code that compiles a model implements it.
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
  /// Sets the start value in models made from now on. Throws InvalidArgument for a tensor of
  /// another type, and for a buffer that a model already holds, because the value there would not
  /// change.
  void setInitializer(ir::Initializer initializer);
  ir::VariableRole role() const { return role_; }
  bool isBuffer() const { return role_ == ir::VariableRole::Buffer; }
  /// Always false for a buffer.
  bool trainable() const { return trainable_; }
  /// Takes effect in models traced from now on. Throws InvalidArgument for a buffer.
  void setTrainable(bool trainable);
  /// Sets the type of the parameter and its initial value in models made from now on. Throws
  /// InvalidArgument unless both the old and the new type are float types, and while a model holds
  /// the parameter.
  void to(DType dtype);
  /// Makes Module::to leave the parameter as it is.
  void keepType() { keepsType_ = true; }
  bool keepsType() const { return keepsType_; }
  /// Throws InvalidArgument if the type is not a float type or a model holds the parameter.
  void requireConvertible(DType dtype) const;
  /// The variable as a graph declares it.
  ir::Variable variable() const;

  /// The current value in the model, or the one that the parameter will start with.
  HostTensor value() const;
  /// Sets the value in the model that holds the parameter, or else its start value. Throws
  /// InvalidArgument unless the type is the parameter's.
  void setValue(const HostTensor& value);
  /// Sets the start value. A model that is about to give up the value calls it.
  void startFrom(HostTensor value);

  /// The value in the current trace. Throws InvalidArgument outside a trace.
  Tensor use() const;
  operator Tensor() const { return use(); }  // NOLINT(google-explicit-constructor)

  /// Writes a buffer in the current trace. Later uses in the trace see the new value, and the next
  /// run starts with the value that the last run left. Throws InvalidArgument for a weight and for
  /// another type.
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

// Initial values of parameters. As in PyTorch, the fan-in of a weight [out, in, kernel...] is `in`
// times the number of kernel elements, and the fan-out is `out` times that number.

namespace sluice::nn::init {

ir::Initializer constant(double value);
ir::Initializer zeros();
ir::Initializer ones();
ir::Initializer uniform(double low, double high);
ir::Initializer normal(double mean, double deviation);

/// The shape must have rank 2 or more; others throw InvalidArgument.
std::int64_t fanIn(const Shape& shape);
std::int64_t fanOut(const Shape& shape);

/// `gain` is that of the activation after the layer: sqrt(2) for ReLU.
ir::Initializer kaimingUniform(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer kaimingNormal(const Shape& shape, double gain = 1.4142135623730951);
ir::Initializer xavierUniform(const Shape& shape, double gain = 1.0);
ir::Initializer xavierNormal(const Shape& shape, double gain = 1.0);

/// PyTorch's default for the weights and biases of linear and convolution layers: U(-1/sqrt(fanIn),
/// 1/sqrt(fanIn)), which is Kaiming's with a = sqrt(5).
ir::Initializer layerDefault(std::int64_t fanIn);

}  // namespace sluice::nn::init

#pragma GCC visibility pop
