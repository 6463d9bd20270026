// Sliding blocks: im2col and col2im.
#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

struct Blocks {
  int64_t kernel_h, kernel_w, dilation_h, dilation_w, pad_h, pad_w, stride_h, stride_w;
  int64_t height, width;  // of the image, without padding
  int64_t rows, cols;     // of block positions

  Blocks(const IntList& kernel, const IntList& dilation, const IntList& padding,
         const IntList& stride, int64_t h, int64_t w)
      : height(h), width(w) {
    auto pair = [](const IntList& v, int64_t& y, int64_t& x) {
      y = v.front();
      x = v.back();
    };
    pair(kernel, kernel_h, kernel_w);
    pair(dilation, dilation_h, dilation_w);
    pair(padding, pad_h, pad_w);
    pair(stride, stride_h, stride_w);
    rows = (h + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1;
    cols = (w + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1;
  }
};

// [N, C, H, W] -> [N, C * kh * kw, rows * cols]: the pixel (i, j) of every block, stacked.
Value im2col(Lowering& b, Value x, IntList kernel, IntList dilation, IntList padding,
             IntList stride) {
  const bool batched = x.rank() == 4;
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks k(kernel, dilation, padding, stride, x.dim(2), x.dim(3));
  const int64_t edge[] = {0, 0, k.pad_h, k.pad_w};
  Value padded = b.pad(x, b.constant(x.dtype(), 0), edge, edge);
  Values pixels;
  for (int64_t i = 0; i < k.kernel_h; ++i) {
    for (int64_t j = 0; j < k.kernel_w; ++j) {
      const int64_t top = i * k.dilation_h;
      const int64_t left = j * k.dilation_w;
      Value rows = b.slice_dim(padded, 2, top, top + (k.rows - 1) * k.stride_h + 1, k.stride_h);
      Value pixel = b.slice_dim(rows, 3, left, left + (k.cols - 1) * k.stride_w + 1, k.stride_w);
      pixels.push_back(b.reshape(pixel, {x.dim(0), x.dim(1), 1, k.rows * k.cols}));
    }
  }
  return b.reshape(b.concatenate(pixels, 2), b.out().shape);
}

// The transpose: blocks are added into the image where they overlap.
Value col2im(Lowering& b, Value x, IntList size, IntList kernel, IntList dilation, IntList padding,
             IntList stride) {
  const bool batched = x.rank() == 3;
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks k(kernel, dilation, padding, stride, size.front(), size.back());
  const int64_t pixels = k.kernel_h * k.kernel_w;
  const int64_t n = x.dim(0);
  const int64_t channels = x.dim(1) / pixels;
  const int64_t padded_h = k.height + 2 * k.pad_h;
  const int64_t padded_w = k.width + 2 * k.pad_w;
  Value blocks = b.reshape(x, {n, channels, pixels, k.rows, k.cols});
  Value image = b.constant(x.dtype(), 0, {n, channels, padded_h, padded_w});
  if (x.numel() == 0) return b.constant(x.dtype(), 0, b.out().shape);
  for (int64_t i = 0; i < k.kernel_h; ++i) {
    for (int64_t j = 0; j < k.kernel_w; ++j) {
      const int64_t at = i * k.kernel_w + j;
      Value pixel = b.squeeze_dim(b.slice_dim(blocks, 2, at, at + 1), 2);
      const int64_t top = i * k.dilation_h;
      const int64_t left = j * k.dilation_w;
      const int64_t low[] = {0, 0, top, left};
      const int64_t high[] = {0, 0, padded_h - top - ((k.rows - 1) * k.stride_h + 1),
                              padded_w - left - ((k.cols - 1) * k.stride_w + 1)};
      const int64_t interior[] = {0, 0, k.stride_h - 1, k.stride_w - 1};
      image = b.badd(image, b.pad(pixel, b.constant(x.dtype(), 0), low, high, interior));
    }
  }
  image = b.slice_dim(b.slice_dim(image, 2, k.pad_h, k.pad_h + k.height), 3, k.pad_w,
                      k.pad_w + k.width);
  return b.reshape(image, b.out().shape);
}

}  // namespace

void register_unfold(OperatorTable& table) {
  table.add("im2col", im2col);
  table.add("col2im", col2im, {.opmath = true});
}

}  // namespace torch_tpu::lowering
