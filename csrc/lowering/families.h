#pragma once

namespace torch_tpu::lowering {

class OperatorTable;

// One function per family; each adds the rules of its file.
void register_pointwise(OperatorTable& table);
void register_comparison(OperatorTable& table);
void register_reduction(OperatorTable& table);
void register_shape(OperatorTable& table);
void register_creation(OperatorTable& table);
void register_matmul(OperatorTable& table);
void register_convolution(OperatorTable& table);
void register_pooling(OperatorTable& table);
void register_normalisation(OperatorTable& table);
void register_activation(OperatorTable& table);
void register_loss(OperatorTable& table);
void register_attention(OperatorTable& table);
void register_rnn(OperatorTable& table);
void register_indexing(OperatorTable& table);
void register_scatter(OperatorTable& table);
void register_sort(OperatorTable& table);
void register_scan(OperatorTable& table);
void register_random(OperatorTable& table);
void register_foreach(OperatorTable& table);
void register_optimizer(OperatorTable& table);
void register_linalg(OperatorTable& table);
void register_fft(OperatorTable& table);
void register_resample(OperatorTable& table);
void register_special(OperatorTable& table);

// Parts of the families above, added by them.
void register_extremum(OperatorTable& table);
void register_distance(OperatorTable& table);
void register_diagonals(OperatorTable& table);
void register_padding(OperatorTable& table);
void register_view_copies(OperatorTable& table);
void register_unfold(OperatorTable& table);
void register_data_dependent(OperatorTable& table);
void register_embedding(OperatorTable& table);
void register_histogram(OperatorTable& table);
void register_segment_reduce(OperatorTable& table);
void register_order_statistics(OperatorTable& table);
void register_search(OperatorTable& table);

}  // namespace torch_tpu::lowering
