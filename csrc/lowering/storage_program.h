#pragma once

#include <optional>
#include <vector>

#include "lowering/lowering.h"
#include "lowering/view_algebra.h"

namespace torch_tpu::lowering {

// A program over storages: calls read and write views of numbered storages, whose contents become
// parameters where they are read before they are written, and results where they are written.
class StorageProgram {
 public:
  explicit StorageProgram(Settings settings) : builder_(settings) {}

  Lowering& builder() { return builder_; }

  // A storage of `bytes` bytes. `content` is the type its buffer has at the program's start, or
  // nothing if it was never written (then it reads as zeros).
  size_t add_storage(int64_t bytes, std::optional<TensorType> content);
  Value read(size_t storage, const View& view);
  void write(size_t storage, const View& view, Value value);
  // A 0-d operand that is not a storage.
  Value add_operand(DType dtype, size_t tag);

  bool written(size_t storage) const { return storages_[storage].written; }
  // The content a written storage ends with.
  Value content(size_t storage) const { return storages_[storage].value; }
  std::optional<size_t> parameter_of(size_t storage) const { return storages_[storage].parameter; }
  size_t num_storages() const { return storages_.size(); }

  // Where the caller takes each parameter from.
  struct Source {
    enum class Kind : uint8_t { kStorage, kOperand, kRandomState } kind;
    size_t index = 0;  // storage, or the operand's tag
  };
  std::vector<Source> parameter_sources() const;

 private:
  struct Storage {
    int64_t bytes = 0;
    std::optional<TensorType> initial;
    Value value;
    std::optional<size_t> parameter;
    bool written = false;
  };
  Value base_value(Storage& storage, DType dtype_if_unwritten);

  Lowering builder_;
  std::vector<Storage> storages_;
  std::vector<std::pair<size_t, size_t>> operands_;  // parameter, tag
};

}  // namespace torch_tpu::lowering
