// Module: a node in the tree of a model. A child names its parent in its constructor, so a network
// is a struct whose members are its layers and whose parameters have PyTorch's names:
//
//   struct Network : nn::Module {
//     nn::Conv2d conv1{*this, "conv1", 1, 10, 5};
//     nn::Linear fc1{*this, "fc1", 320, 10};
//     Tensor forward(Tensor x) { return fc1(flatten(relu(maxPool2d(conv1(x), 4)), 1)); }
//   };
//
// Modules stay where they are made: they can be neither copied nor moved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/nn/parameter.h"
#include "sluice/nn/state_link.h"
#include "sluice/nn/tensor.h"

namespace sluice::nn {

/// What BeginBlock (block.h) leaves on a module.
struct BlockMark {
  std::string id;  ///< empty: numbered in each trace
  std::optional<std::int64_t> device;
};

class Module {
 public:
  Module() : link_(std::make_shared<StateLink>()) {}
  /// A child; throws InvalidArgument for a name that is empty, taken or has a dot.
  Module(Module& parent, std::string name);
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// What summary() calls it.
  virtual std::string kind() const { return "Module"; }
  const std::string& name() const { return name_; }
  /// "encoder.0.fc"; empty for the root.
  std::string path() const;
  std::span<Module* const> children() const { return children_; }
  const Module& root() const;
  /// Null for the root.
  const Module* parent() const { return parent_; }

  /// The module's own weights and buffers, without those of its children.
  std::span<const std::unique_ptr<Parameter>> ownParameters() const { return own_; }
  /// All weights below, a module's own before its children's, in the order they were made.
  std::vector<Parameter*> parameters() const;
  std::vector<Parameter*> buffers() const;
  /// A weight or buffer by its name as seen from here ("conv1.weight"); nullptr if there is none.
  Parameter* find(std::string_view name) const;
  /// Elements of all weights below.
  std::int64_t numParameters() const;

  /// Dropout and batch norm act as in training only where this is set and a training model is
  /// traced. Recursive.
  void train(bool training = true);
  void eval() { train(false); }
  bool isTraining() const { return training_; }
  /// Frozen weights get no gradient and no update in models traced from now on. Recursive.
  void freeze(bool frozen = true);

  /// Float weights and buffers are of this type in models made from now on, but for the running
  /// statistics of batch norm, which stay float32. Recursive. Throws InvalidArgument for a type
  /// that is no float, and while a model holds the values.
  Module& to(DType dtype);
  Module& half() { return to(DType::F16); }
  Module& bfloat16() { return to(DType::BF16); }

  /// Whether autocast (autocast.h) is on while this module is applied; not set: as around it.
  Module& autocast(bool enabled = true);
  std::optional<bool> autocastSetting() const { return autocast_; }

  /// The block that begins where this module is applied; null: none.
  const BlockMark* blockMark() const { return blockMark_ ? &*blockMark_ : nullptr; }
  void setBlockMark(std::optional<BlockMark> mark) { blockMark_ = std::move(mark); }

  /// How often modules, weights or buffers came or went in the whole tree.
  std::uint64_t changes() const { return root().changes_; }

  /// Seed of the initial values. Only on the root, else InvalidArgument.
  void setSeed(std::uint64_t seed);
  std::uint64_t seed() const { return root().seed_; }

  /// A table of modules, parameter shapes and counts.
  std::string summary() const;

  /// Where the models of this tree keep its parameters; null: there are none.
  std::shared_ptr<StateStore> store() const;
  /// What models keep of the tree and may outlive it. Only of the root, else InvalidArgument.
  const std::shared_ptr<StateLink>& link() const;

 protected:
  Parameter& addParameter(std::string name, TensorType type, ir::Initializer initializer);
  Parameter& addBuffer(std::string name, TensorType type, ir::Initializer initializer);
  /// Whether to behave as in training, in the current trace.
  bool tracesTraining() const;
  /// "Linear 'fc1'", for messages.
  std::string description() const;

 private:
  Parameter& add(std::string name, TensorType type, ir::VariableRole role, ir::Initializer init);
  void requireFreeName(std::string_view name) const;
  void requireRoot(std::string_view what) const;
  void noteChange();
  template <class Visit>
  void visit(const Visit& visit) const;

  Module* parent_ = nullptr;
  std::string name_;
  std::vector<Module*> children_;
  std::vector<std::unique_ptr<Parameter>> own_;  // weights and buffers; stable addresses
  bool training_ = true;
  std::optional<BlockMark> blockMark_;
  std::optional<bool> autocast_;
  std::uint64_t seed_ = 0;           // of the root
  std::uint64_t changes_ = 0;        // of the root
  std::shared_ptr<StateLink> link_;  // of the root; null: was a child when it was made
};

/// A module from one tensor to one tensor, as the layers of modules.h are.
class Layer : public Module {
 public:
  using Module::Module;
  virtual Tensor forward(const Tensor& x) = 0;
  /// Applies forward under the module's name scope; errors say in which module they happened.
  Tensor operator()(const Tensor& x);
};

/// A list of modules of one type, its children "0", "1", ...
template <class T>
class ModuleList : public Module {
 public:
  using Module::Module;
  std::string kind() const override { return "ModuleList"; }

  template <class... Args>
  T& emplace(Args&&... args) {
    items_.push_back(
        std::make_unique<T>(*this, std::to_string(items_.size()), std::forward<Args>(args)...));
    return *items_.back();
  }
  std::size_t size() const { return items_.size(); }
  T& operator[](std::size_t i) { return *items_.at(i); }

 private:
  std::vector<std::unique_ptr<T>> items_;
};

/// Layers applied one after the other, its children "0", "1", ...
class Sequential : public Layer {
 public:
  using Layer::Layer;
  std::string kind() const override { return "Sequential"; }

  /// seq.add<Linear>(10, 20).add<ReLU>()
  template <class T, class... Args>
  Sequential& add(Args&&... args) {
    layers_.push_back(
        std::make_unique<T>(*this, std::to_string(layers_.size()), std::forward<Args>(args)...));
    return *this;
  }
  std::size_t size() const { return layers_.size(); }
  Layer& operator[](std::size_t i) { return *layers_.at(i); }
  Tensor forward(const Tensor& x) override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace sluice::nn
