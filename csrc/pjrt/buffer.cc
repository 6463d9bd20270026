#include "pjrt/buffer.h"

#include <algorithm>

#include "base/inline_vector.h"
#include "base/log.h"

namespace torch_tpu::pjrt {

void Buffer::delete_contents() {
  TT_PJRT_ARGS(PJRT_Buffer_Delete, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_Delete(&args), "deletion of a buffer");
}

std::span<const int64_t> Buffer::dims() const {
  TT_PJRT_ARGS(PJRT_Buffer_Dimensions, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_Dimensions(&args), "dimensions of a buffer");
  return {args.dims, args.num_dims};
}

std::span<const int64_t> Buffer::unpadded_dims() const {
  TT_PJRT_ARGS(PJRT_Buffer_UnpaddedDimensions, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_UnpaddedDimensions(&args), "dimensions of a buffer");
  return {args.unpadded_dims, args.num_dims};
}

PJRT_Buffer_Type Buffer::element_type() const {
  TT_PJRT_ARGS(PJRT_Buffer_ElementType, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_ElementType(&args), "element type of a buffer");
  return args.type;
}

size_t Buffer::size_bytes() const {
  TT_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_OnDeviceSizeInBytes(&args), "size of a buffer");
  return args.on_device_size_in_bytes;
}

PJRT_Device* Buffer::device() const {
  TT_PJRT_ARGS(PJRT_Buffer_Device, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_Device(&args), "device of a buffer");
  return args.device;
}

PJRT_Memory* Buffer::memory() const {
  TT_PJRT_ARGS(PJRT_Buffer_Memory, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_Memory(&args), "memory of a buffer");
  return args.memory;
}

size_t Buffer::host_size_bytes() const {
  TT_PJRT_ARGS(PJRT_Buffer_ToHostBuffer, args);
  args.src = raw_;
  raise_if(api_, api_->PJRT_Buffer_ToHostBuffer(&args), "host size of a buffer");
  return args.dst_size;
}

Event Buffer::to_host(void* dst, size_t size) const {
  // A null destination would be taken as a question for the size.
  TT_CHECK(dst != nullptr || size == 0, kInvalidArgument, "copy to the host: no destination");
  if (dst == nullptr) return ready_event();
  // Without a layout the plugin keeps the device's, which need not be row-major.
  InlineVector<int64_t, 8> minor_to_major(dims().size());
  for (size_t i = 0; i < minor_to_major.size(); ++i) {
    minor_to_major[i] = static_cast<int64_t>(minor_to_major.size() - 1 - i);
  }
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  TT_PJRT_ARGS(PJRT_Buffer_ToHostBuffer, args);
  args.src = raw_;
  args.host_layout = &layout;
  args.dst = dst;
  args.dst_size = size;
  raise_if(api_, api_->PJRT_Buffer_ToHostBuffer(&args), "copy to the host");
  return Event(api_, args.event);
}

Event Buffer::copy_raw_to_host(void* dst, int64_t offset, int64_t size) const {
  TT_PJRT_REQUIRE(api_, PJRT_Buffer_CopyRawToHost);
  TT_PJRT_ARGS(PJRT_Buffer_CopyRawToHost, args);
  args.buffer = raw_;
  args.dst = dst;
  args.offset = offset;
  args.transfer_size = size;
  raise_if(api_, api_->PJRT_Buffer_CopyRawToHost(&args), "raw copy to the host");
  return Event(api_, args.event);
}

Buffer Buffer::copy_to_device(PJRT_Device* device) const {
  TT_PJRT_ARGS(PJRT_Buffer_CopyToDevice, args);
  args.buffer = raw_;
  args.dst_device = device;
  raise_if(api_, api_->PJRT_Buffer_CopyToDevice(&args), "copy to a device");
  return Buffer(api_, args.dst_buffer);
}

Buffer Buffer::copy_to_memory(PJRT_Memory* memory) const {
  TT_PJRT_REQUIRE(api_, PJRT_Buffer_CopyToMemory);
  TT_PJRT_ARGS(PJRT_Buffer_CopyToMemory, args);
  args.buffer = raw_;
  args.dst_memory = memory;
  raise_if(api_, api_->PJRT_Buffer_CopyToMemory(&args), "copy to a memory");
  return Buffer(api_, args.dst_buffer);
}

void Buffer::increase_external_reference_count() const {
  TT_PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_IncreaseExternalReferenceCount(&args),
           "external reference to a buffer");
}

void Buffer::decrease_external_reference_count() const {
  TT_PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount, args);
  args.buffer = raw_;
  raise_if(api_, api_->PJRT_Buffer_DecreaseExternalReferenceCount(&args),
           "release of an external reference to a buffer");
}

ExternalReference::~ExternalReference() {
  if (buffer_ == nullptr) return;
  try {
    buffer_->decrease_external_reference_count();
  } catch (const Error& error) {
    TT_LOG(kWarning, error.what());
  }
}

}  // namespace torch_tpu::pjrt
