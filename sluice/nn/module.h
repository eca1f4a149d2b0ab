// Module: a node in the tree of a model. A child names its parent in its constructor, so a network
// is a struct whose members are its layers and whose parameters have PyTorch's names:
//
//   struct Network : nn::Module {
//     nn::Conv2d conv1{*this, "conv1", 1, 10, 5};
//     nn::Linear fc1{*this, "fc1", 320, 10};
//     Tensor forward(Tensor x) { return fc1(flatten(relu(maxPool2d(conv1(x), 4)), 1)); }
//   };
//
// Modules can be neither copied nor moved.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/ir/value.h"
#include "sluice/nn/parameter.h"
#include "sluice/nn/tensor.h"
#include "sluice/tensor/host_tensor.h"

#pragma GCC visibility push(default)

namespace sluice::nn {

// StateLink: what a tree of modules, or a Builder, shares with the models made from it: where its
// state is kept, and whether the tree or Builder itself still exists. Models keep the link, so they
// may outlive the tree. Any thread may use it.

class StateStore;

class StateLink {
 public:
  using StorePtr = std::shared_ptr<StateStore>;

  /// The store; null if no model holds the state.
  StorePtr store() const {
    const std::scoped_lock lock(mutex_);
    return store_;
  }
  void setStore(StorePtr store) {
    const std::scoped_lock lock(mutex_);
    store_.swap(store);  // the old store is destroyed after the lock is released
  }
  /// The store. If there is none, `make` makes it first.
  StorePtr storeOr(const std::function<StorePtr()>& make) {
    const std::scoped_lock lock(mutex_);
    if (store_ == nullptr) {
      store_ = make();
    }
    return store_;
  }

  /// Whether the tree or Builder still exists.
  bool isAlive() const {
    const std::scoped_lock lock(mutex_);
    return alive_;
  }
  /// Called when the tree or Builder is destroyed. Its models continue to use the store.
  void end() {
    const std::scoped_lock lock(mutex_);
    alive_ = false;
  }

 private:
  mutable std::mutex mutex_;  // guards the members below
  StorePtr store_;
  bool alive_ = true;
};

/// The mark that BeginBlock (block.h) sets on a module.
struct BlockMark {
  std::string id;  ///< empty: numbered in each trace
  std::optional<std::int64_t> device;
};

class Module {
 public:
  Module() : link_(std::make_shared<StateLink>()) {}
  /// Makes a child. Throws InvalidArgument for a name that is empty, taken or contains a dot.
  Module(Module& parent, std::string name);
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The name of the module's kind in summary().
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
  /// All weights of the module and those below it, in the order they were made; a module's own come
  /// before its children's.
  std::vector<Parameter*> parameters() const;
  std::vector<Parameter*> buffers() const;
  /// A weight or buffer by its name as seen from here ("conv1.weight"); nullptr if there is none.
  Parameter* find(std::string_view name) const;
  /// The number of elements of all these weights.
  std::int64_t numParameters() const;

  /// Sets training mode, recursively. Dropout and batch norm behave as in training only in this
  /// mode and while a training model is traced.
  void train(bool training = true);
  void eval() { train(false); }
  bool isTraining() const { return training_; }
  /// Freezes the weights, recursively. Frozen weights get no gradient and no update in models
  /// traced from now on.
  void freeze(bool frozen = true);

  /// Sets the type of float weights and buffers in models made from now on, recursively. The
  /// running statistics of batch norm stay float32. Throws InvalidArgument for a type that is not a
  /// float type, and while a model holds the values.
  Module& to(DType dtype);
  Module& half() { return to(DType::F16); }
  Module& bfloat16() { return to(DType::BF16); }

  /// Sets whether autocast (autocast.h) is on while this module is applied. By default it is as in
  /// the surrounding code.
  Module& autocast(bool enabled = true);
  std::optional<bool> autocastSetting() const { return autocast_; }

  /// The block that begins when this module is applied; null: none.
  const BlockMark* blockMark() const { return blockMark_ ? &*blockMark_ : nullptr; }
  void setBlockMark(std::optional<BlockMark> mark) { blockMark_ = std::move(mark); }

  /// How many times modules, weights or buffers were added or removed in the whole tree.
  std::uint64_t changes() const { return root().changes_; }

  /// Sets the seed of the initial values. Throws InvalidArgument if the module is not the root.
  void setSeed(std::uint64_t seed);
  std::uint64_t seed() const { return root().seed_; }

  /// A table of modules, parameter shapes and counts.
  std::string summary() const;

  /// Where the models of this tree keep its parameters; null if there are no models.
  std::shared_ptr<StateStore> store() const;
  /// The link that models keep to the tree; it may outlive the tree. Throws InvalidArgument if the
  /// module is not the root.
  const std::shared_ptr<StateLink>& link() const;

 protected:
  Parameter& addParameter(std::string name, TensorType type, ir::Initializer initializer);
  Parameter& addBuffer(std::string name, TensorType type, ir::Initializer initializer);
  /// Whether the module behaves as in training in the current trace.
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
  std::uint64_t seed_ = 0;           // used in the root only
  std::uint64_t changes_ = 0;        // used in the root only
  std::shared_ptr<StateLink> link_;  // set in the root only; null: was made as a child
};

/// A module from one tensor to one tensor, such as the layers in modules.h.
class Layer : public Module {
 public:
  using Module::Module;
  virtual Tensor forward(const Tensor& x) = 0;
  /// Applies forward in the module's name scope. Errors name the module in which they happened.
  Tensor operator()(const Tensor& x);
};

/// A list of modules of one type; its children are named "0", "1", ...
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

/// Layers that are applied one after the other; its children are named "0", "1", ...
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

// State dictionaries: the weights and buffers of a module by PyTorch's names ("conv1.weight",
// "norm.running_mean"), for saving, loading and exchange. The whole dictionary is checked before
// anything is set: if loading throws, the module is unchanged.

/// Whether names that only one side has are an error.
enum class Strict : std::uint8_t { No, Yes };

/// Names that only one side has.
struct UnmatchedNames {
  std::vector<std::string> missing;     ///< not in the dictionary
  std::vector<std::string> unexpected;  ///< not in the module
};

/// Throws InvalidArgument for an empty dictionary, for a tensor whose shape or type differs from
/// the variable's and, if strict, for names that only one side has; the message lists them.
UnmatchedNames requireStateDict(std::span<const ir::Variable> variables,
                                const NamedTensors& state,
                                Strict strict = Strict::Yes);

/// All weights and buffers of the module and those below it, by their names relative to the module.
NamedTensors stateDict(const Module& module);
/// Sets the weights and buffers, in the model that holds them or else as their start values.
UnmatchedNames loadStateDict(Module& module,
                             const NamedTensors& state,
                             Strict strict = Strict::Yes);

/// Converts a dictionary from PyTorch for these variables: removes prefixes that wrappers add to
/// all names ("module.", "_orig_mod.") and converts floats to the variables' types.
NamedTensors importTorch(std::span<const ir::Variable> variables, const NamedTensors& torch);
/// Converts a dictionary for PyTorch. Names and layouts are the same; unsigned integers of 16 to 64
/// bits, which PyTorch does not have, become signed ones.
NamedTensors exportTorch(NamedTensors state);

}  // namespace sluice::nn

#pragma GCC visibility pop
