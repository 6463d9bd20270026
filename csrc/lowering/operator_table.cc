#include "lowering/operator_table.h"

#include "lowering/families.h"

namespace torch_tpu::lowering {

namespace detail {

void wrong_argument(const Lowering& b, size_t index, const char* expected) {
  fail(ErrorKind::kInternal, b.op_name(), ": the rule expects ", expected, " as argument ", index);
}

}  // namespace detail

void OperatorTable::insert(Rule rule) {
  std::string name = rule.name;
  auto [it, fresh] = rules_.emplace(std::move(name), std::move(rule));
  if (!fresh) fail(ErrorKind::kInternal, "two rules for aten::", it->first);
}

const Rule* OperatorTable::find(std::string_view name) const {
  auto it = rules_.find(name);
  return it == rules_.end() ? nullptr : &it->second;
}

const OperatorTable& operator_table() {
  static const OperatorTable table = [] {
    OperatorTable t;
    register_pointwise(t);
    register_comparison(t);
    register_reduction(t);
    register_shape(t);
    register_creation(t);
    register_matmul(t);
    register_convolution(t);
    register_pooling(t);
    register_normalisation(t);
    register_activation(t);
    register_loss(t);
    register_attention(t);
    register_rnn(t);
    register_indexing(t);
    register_scatter(t);
    register_sort(t);
    register_scan(t);
    register_random(t);
    register_optimizer(t);
    register_linalg(t);
    register_fft(t);
    register_resample(t);
    register_special(t);
    register_foreach(t);  // made from the rules above
    return t;
  }();
  return table;
}

}  // namespace torch_tpu::lowering
