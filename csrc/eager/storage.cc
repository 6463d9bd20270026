#include "eager/storage.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <mutex>
#include <vector>

#include "eager/device_index.h"

namespace torch_tpu::eager {
namespace {

constexpr int kMaxDevices = 64;
constexpr int kMinShift = 6;  // addresses are 64-byte aligned
constexpr int kNumClasses = 64 - kMinShift;

// Addresses of one device: power-of-two blocks of an inaccessible range, recycled by size class.
class Arena {
 public:
  void* take(int64_t bytes) {
    const int cls = class_of(bytes);
    std::lock_guard lock(mutex_);
    auto& free = free_[static_cast<size_t>(cls)];
    if (!free.empty()) {
      void* p = free.back();
      free.pop_back();
      return p;
    }
    const size_t size = size_t{1} << (cls + kMinShift);
    TORCH_CHECK_WITH(OutOfMemoryError, next_ + size <= end_, "tpu: out of address space for ",
                     bytes, " bytes");
    void* p = reinterpret_cast<void*>(next_);
    next_ += size;
    return p;
  }
  void give(void* p, int64_t bytes) {
    std::lock_guard lock(mutex_);
    free_[static_cast<size_t>(class_of(bytes))].push_back(p);
  }
  void set_range(uintptr_t begin, uintptr_t end) {
    next_ = begin;
    end_ = end;
  }

 private:
  static int class_of(int64_t bytes) {
    const auto n = static_cast<uint64_t>(bytes < 64 ? 64 : bytes);
    return std::bit_width(n - 1) - kMinShift;
  }
  std::mutex mutex_;
  std::array<std::vector<void*>, kNumClasses> free_;
  uintptr_t next_ = 0;
  uintptr_t end_ = 0;
};

struct AddressSpace {
  uintptr_t begin = 0;
  size_t per_device = 0;
  std::array<Arena, kMaxDevices> arenas;

  AddressSpace() {
    // As much as the system gives: nothing is committed.
    for (int shift = 46; shift >= 36; --shift) {
      const size_t size = size_t{1} << shift;
      void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (p == MAP_FAILED) continue;
      begin = reinterpret_cast<uintptr_t>(p);
      per_device = size / kMaxDevices;
      for (int i = 0; i < kMaxDevices; ++i) {
        const uintptr_t start = begin + static_cast<size_t>(i) * per_device;
        arenas[static_cast<size_t>(i)].set_range(start, start + per_device);
      }
      return;
    }
    TORCH_CHECK(false, "tpu: cannot reserve address space for storages");
  }
};

AddressSpace& space() {
  static auto* s = new AddressSpace();
  return *s;
}

void delete_cell(void* context) {
  auto* cell = static_cast<Cell*>(context);
  if (cell->address() != nullptr)
    space().arenas[static_cast<size_t>(cell->device())].give(cell->address(), cell->bytes());
  delete cell;
}

}  // namespace

c10::DataPtr make_cell(int64_t bytes, int device) {
  TORCH_CHECK(bytes >= 0, "tpu: a storage can't have ", bytes, " bytes");
  void* address = bytes == 0 ? nullptr : space().arenas[static_cast<size_t>(device)].take(bytes);
  auto cell = std::make_unique<Cell>(address, bytes, device);
  return {address, cell.release(), &delete_cell,
          c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device))};
}

bool is_tpu_storage(const c10::StorageImpl& storage) {
  return storage.data_ptr().get_deleter() == &delete_cell;
}

int device_of_address(const void* address) {
  const auto p = reinterpret_cast<uintptr_t>(address);
  const AddressSpace& s = space();
  if (p < s.begin || p >= s.begin + s.per_device * kMaxDevices) return -1;
  return static_cast<int>((p - s.begin) / s.per_device);
}

c10::intrusive_ptr<c10::StorageImpl> make_storage(int64_t bytes, int device) {
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                               make_cell(bytes, device), tpu_allocator(), true);
}

void rethrow_as_torch(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::kIndex:
      TORCH_CHECK_INDEX(false, error.what());
    case ErrorKind::kType:
      TORCH_CHECK_TYPE(false, error.what());
    case ErrorKind::kValue:
      TORCH_CHECK_VALUE(false, error.what());
    case ErrorKind::kNotImplemented:
      TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    case ErrorKind::kOutOfMemory:
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    case ErrorKind::kLinalg:
      TORCH_CHECK_LINALG(false, error.what());
    default:
      TORCH_CHECK(false, error.what());
  }
  std::abort();  // every branch throws
}

}  // namespace torch_tpu::eager
