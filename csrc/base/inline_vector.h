#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace torch_tpu {

// A vector whose first kInline elements need no allocation; for trivially copyable elements.
template <typename T, size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T>);
  static_assert(kInline > 0);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  InlineVector() = default;
  explicit InlineVector(size_t count, const T& value = T()) { resize(count, value); }
  InlineVector(std::initializer_list<T> items) { append(items.begin(), items.size()); }
  explicit InlineVector(std::span<const T> items) { append(items.data(), items.size()); }
  template <std::forward_iterator It>
  InlineVector(It first, It last) {
    reserve(static_cast<size_t>(std::distance(first, last)));
    for (; first != last; ++first) push_back(*first);
  }
  InlineVector(const InlineVector& other) { append(other.data(), other.size()); }
  InlineVector(InlineVector&& other) noexcept { steal(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) {
      clear();
      append(other.data(), other.size());
    }
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) steal(other);
    return *this;
  }
  ~InlineVector() = default;

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  bool is_inline() const { return heap_ == nullptr; }
  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }

  void push_back(T item) {
    if (size_ == capacity_) [[unlikely]]
      grow(size_ + 1);
    data()[size_++] = item;
  }
  void pop_back() { --size_; }
  // Keeps the capacity.
  void clear() { size_ = 0; }
  void reserve(size_t count) {
    if (count > capacity_) grow(count);
  }
  void resize(size_t count, const T& value = T()) {
    const T copy = value;
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, copy);
    size_ = count;
  }
  // The items must not lie in this vector.
  void append(const T* items, size_t count) {
    reserve(size_ + count);
    if (count != 0) std::memcpy(data() + size_, items, count * sizeof(T));
    size_ += count;
  }
  void append(std::span<const T> items) { append(items.data(), items.size()); }
  iterator insert(const_iterator position, T item) {
    const size_t index = static_cast<size_t>(position - data());
    push_back(item);
    std::rotate(begin() + index, end() - 1, end());
    return begin() + index;
  }
  iterator erase(const_iterator position) {
    const size_t index = static_cast<size_t>(position - data());
    std::copy(begin() + index + 1, end(), begin() + index);
    --size_;
    return begin() + index;
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  void grow(size_t at_least) {
    const size_t capacity = std::max(at_least, 2 * capacity_);
    auto heap = std::make_unique_for_overwrite<T[]>(capacity);
    if (size_ != 0) std::memcpy(heap.get(), data(), size_ * sizeof(T));
    heap_ = std::move(heap);
    capacity_ = capacity;
  }
  void steal(InlineVector& other) {
    heap_ = std::move(other.heap_);
    capacity_ = std::exchange(other.capacity_, kInline);
    size_ = std::exchange(other.size_, 0);
    if (!heap_ && size_ != 0) std::memcpy(inline_, other.inline_, size_ * sizeof(T));
  }

  size_t size_ = 0;
  size_t capacity_ = kInline;
  std::unique_ptr<T[]> heap_;
  T inline_[kInline];
};

}  // namespace torch_tpu
