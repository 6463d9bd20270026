#pragma once

namespace torch_tpu::lowering {

class OperatorTable;

// The fused inference operators of torch.nn.MultiheadAttention and TransformerEncoderLayer.
void register_native_transformer(OperatorTable& table);

}  // namespace torch_tpu::lowering
