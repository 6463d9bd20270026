#include "lowering/storage_program.h"

namespace torch_tpu::lowering {

size_t StorageProgram::add_storage(int64_t bytes, std::optional<TensorType> content) {
  Storage storage;
  storage.bytes = bytes;
  storage.initial = std::move(content);
  storages_.push_back(std::move(storage));
  return storages_.size() - 1;
}

Value StorageProgram::base_value(Storage& storage, DType dtype_if_unwritten) {
  if (storage.value.defined()) return storage.value;
  if (storage.initial) {
    storage.parameter = builder_.num_parameters();
    storage.value = builder_.parameter(*storage.initial);
  } else {
    storage.value =
        builder_.constant(dtype_if_unwritten, 0, {storage.bytes / byte_size(dtype_if_unwritten)});
  }
  return storage.value;
}

Value StorageProgram::read(size_t index, const View& view) {
  if (numel(view.sizes) == 0) return builder_.constant(view.dtype, 0, view.sizes);
  return read_view(builder_, base_value(storages_[index], view.dtype), view);
}

void StorageProgram::write(size_t index, const View& view, Value value) {
  Storage& storage = storages_[index];
  if (numel(view.sizes) == 0) return;
  const int64_t elements = storage.bytes / byte_size(view.dtype);
  const bool whole =
      covers_densely(view, elements) && elements * byte_size(view.dtype) == storage.bytes;
  Value base = whole ? storage.value : base_value(storage, view.dtype);
  storage.value = write_view(builder_, base, storage.bytes, view, value);
  storage.written = true;
}

Value StorageProgram::add_operand(DType dtype, size_t tag) {
  operands_.emplace_back(builder_.num_parameters(), tag);
  return builder_.parameter({dtype, {}});
}

std::vector<StorageProgram::Source> StorageProgram::parameter_sources() const {
  std::vector<Source> sources(builder_.num_parameters());
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].parameter) sources[*storages_[i].parameter] = {Source::Kind::kStorage, i};
  }
  for (const auto& [parameter, tag] : operands_) sources[parameter] = {Source::Kind::kOperand, tag};
  if (builder_.random_parameter())
    sources[*builder_.random_parameter()] = {Source::Kind::kRandomState, 0};
  return sources;
}

}  // namespace torch_tpu::lowering
