#include "eager/argument_checks.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <c10/core/ScalarType.h>

#include <map>
#include <string_view>

namespace torch_tpu::eager {
namespace {

using c10::ScalarType;

// The arguments of a call, by name.
class Arguments {
 public:
  Arguments(const OpPlan& plan, const c10::IValue* values) : plan_(plan), values_(values) {}

  // Null where the schema has no such argument or it is None.
  const c10::IValue* find(const std::string& name) const {
    const auto i = plan_.op.schema().argumentIndexWithName(name);
    if (!i || values_[*i].isNone()) return nullptr;
    return &values_[*i];
  }
  // Undefined where there is none.
  at::Tensor tensor(const std::string& name) const {
    const c10::IValue* v = find(name);
    return v != nullptr && v->isTensor() ? v->toTensor() : at::Tensor();
  }
  // An int[] argument; a single int counts as a list of one.
  std::vector<int64_t> ints(const std::string& name) const {
    const c10::IValue* v = find(name);
    if (v == nullptr) return {};
    if (v->isInt()) return {v->toInt()};
    return v->toIntVector();
  }
  // Visits every defined tensor with its place in the schema.
  template <typename Visit>
  void for_each_tensor(const Visit& visit) const {
    for (size_t i = 0; i < plan_.args.size(); ++i) {
      const c10::IValue& v = values_[i];
      if (v.isTensor()) {
        if (v.toTensor().defined()) visit(v.toTensor(), plan_.args[i]);
      } else if (v.isTensorList() || v.isOptionalTensorList()) {
        for (const c10::IValue& item : v.toListRef()) {
          if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor(), plan_.args[i]);
        }
      }
    }
  }
  bool has_out() const { return plan_.is_out_variant; }

 private:
  const OpPlan& plan_;
  const c10::IValue* values_;
};

// --- memory

// Operators that read elsewhere than they write.
void check_no_overlap(const Arguments& args) {
  args.for_each_tensor([&](const at::Tensor& written, const ArgPlan& target) {
    if (!target.mutated) return;
    at::assert_no_internal_overlap(written);
    args.for_each_tensor([&](const at::Tensor& read, const ArgPlan& source) {
      if (!source.mutated && read.device() == written.device())
        at::assert_no_overlap(written, read);
    });
  });
}

void check_indices(const Arguments& args) {
  const c10::IValue* indices = args.find("indices");
  if (indices == nullptr || !(indices->isTensorList() || indices->isOptionalTensorList())) return;
  for (const c10::IValue& item : indices->toListRef()) {
    if (!item.isTensor() || !item.toTensor().defined()) continue;
    const ScalarType type = item.toTensor().scalar_type();
    TORCH_CHECK_INDEX(type == ScalarType::Long || type == ScalarType::Int ||
                          type == ScalarType::Byte || type == ScalarType::Bool,
                      "tensors used as indices must be long, int, byte or bool tensors");
  }
}

void check_index_put(const Arguments& args) {
  check_indices(args);
  check_no_overlap(args);
}

void check_masked_scatter(const Arguments& args) {
  const at::Tensor mask = args.tensor("mask");
  TORCH_CHECK(mask.scalar_type() == ScalarType::Bool,
              "masked_scatter_ only supports boolean masks, but got mask with dtype ",
              mask.scalar_type());
}

void check_cat(const Arguments& args) {
  int64_t position = 0;
  const at::Tensor out = args.tensor("out");
  for (const c10::IValue& item : args.find("tensors")->toListRef()) {
    const at::Tensor& t = item.toTensor();
    TORCH_CHECK(t.dim() > 0, "zero-dimensional tensor (at position ", position,
                ") cannot be concatenated");
    ++position;
    TORCH_CHECK_TYPE(!out.defined() || c10::canCast(t.scalar_type(), out.scalar_type()),
                     "torch.cat(): input types can't be cast to the desired output type ",
                     out.scalar_type());
  }
  check_no_overlap(args);
}

// --- types

// Two real floating tensors of one type that make a complex one.
void check_complex(const Arguments& args, const at::Tensor& x, const at::Tensor& y) {
  auto real = [](const at::Tensor& t) {
    return t.scalar_type() == ScalarType::Half || t.scalar_type() == ScalarType::Float ||
           t.scalar_type() == ScalarType::Double;
  };
  TORCH_CHECK(real(x) && real(y),
              "Expected both inputs to be Half, Float or Double tensors but got ", x.scalar_type(),
              " and ", y.scalar_type());
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "Expected object of scalar type ",
              x.scalar_type(), " but got scalar type ", y.scalar_type(), " for second argument");
  const at::Tensor out = args.tensor("out");
  const ScalarType result = c10::toComplexType(x.scalar_type());
  TORCH_CHECK(!out.defined() || out.scalar_type() == result, "Expected object of scalar type ",
              result, " but got scalar type ", out.defined() ? out.scalar_type() : result,
              " for argument 'out'");
}

void check_heaviside(const Arguments& args) {
  bool same = true;
  const ScalarType type = args.tensor("self").scalar_type();
  args.for_each_tensor(
      [&](const at::Tensor& t, const ArgPlan&) { same &= t.scalar_type() == type; });
  TORCH_CHECK(same, "heaviside is not yet implemented for tensors with different dtypes.");
}

// --- reductions without an identity

// `dims` of an empty tensor must say what to reduce, and not name an empty dimension.
template <typename OnMissing>
void check_reducible(const Arguments& args, const std::string& name, const OnMissing& missing) {
  const at::Tensor self = args.tensor("self");
  if (self.numel() != 0) return;
  const std::vector<int64_t> dims = args.ints("dim");
  if (dims.empty()) missing();
  for (const int64_t dim : dims) {
    const int64_t d = at::maybe_wrap_dim(dim, self.dim());
    TORCH_CHECK_INDEX(self.size(d) != 0, name, ": Expected reduction dim ", dim,
                      " to have non-zero size.");
  }
}

template <const char* kName>
void check_extremum(const Arguments& args) {
  check_reducible(args, kName, [] {
    TORCH_CHECK(false, kName,
                ": Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument.");
  });
}

template <const char* kName>
void check_argument_of_extremum(const Arguments& args) {
  check_reducible(args, kName, [] {
    TORCH_CHECK_INDEX(false, kName,
                      ": Expected reduction dim to be specified for input.numel() == 0.");
  });
}

void check_aminmax(const Arguments& args) {
  check_reducible(args, "aminmax", [] {
    TORCH_CHECK(false,
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has "
                "no identity.");
  });
  const at::Tensor self = args.tensor("self");
  for (const char* name : {"min", "max"}) {
    const at::Tensor out = args.tensor(name);
    TORCH_CHECK(!out.defined() || out.scalar_type() == self.scalar_type(),
                "Expected out tensor to have dtype ", self.dtype(), ", but got ",
                out.defined() ? out.dtype() : self.dtype(), " instead");
  }
}

// --- the rest

void check_convolution(const Arguments& args) {
  auto any_below = [&](const char* name, int64_t least) {
    for (const int64_t v : args.ints(name)) {
      if (v < least) return true;
    }
    return false;
  };
  TORCH_CHECK(!any_below("padding", 0), "negative padding is not supported");
  TORCH_CHECK(!any_below("output_padding", 0), "negative output_padding is not supported");
  TORCH_CHECK(!any_below("stride", 1), "non-positive stride is not supported");
  TORCH_CHECK(!any_below("dilation", 1), "dilation should be greater than zero");
  const c10::IValue* groups = args.find("groups");
  const at::Tensor weight = args.tensor("weight");
  if (groups == nullptr || !groups->isInt() || !weight.defined() || weight.dim() == 0) return;
  const int64_t n = groups->toInt();
  TORCH_CHECK(n > 0, "non-positive groups is not supported");
  TORCH_CHECK(weight.size(0) >= n, "Given groups=", n, ", expected weight to be at least ", n,
              " at dimension 0, but got weight of size ", weight.sizes(), " instead");
}

void check_multinomial(const Arguments& args) {
  const at::Tensor out = args.tensor("out");
  TORCH_CHECK(!out.defined() || out.scalar_type() == ScalarType::Long,
              "multinomial expects Long tensor out, got: ",
              out.defined() ? out.scalar_type() : ScalarType::Long);
  // float32 can't tell more categories apart.
  constexpr int64_t kMostCategories = int64_t{1} << 24;
  const at::Tensor self = args.tensor("self");
  TORCH_CHECK(self.dim() == 0 || self.size(-1) <= kMostCategories,
              "number of categories cannot exceed 2^24");
}

void check_bucketize(const Arguments& args) {
  const at::Tensor boundaries = args.tensor("boundaries");
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
}

void check_histogramdd(const Arguments& args) {
  const at::Tensor self = args.tensor("self");
  TORCH_CHECK(self.dim() >= 2, "torch.histogramdd: input tensor should have at least 2 dimensions");
  const int64_t bins = static_cast<int64_t>(args.find("bins")->toListRef().size());
  TORCH_CHECK(bins == self.size(-1),
              "histogramdd: The size of bins must be equal to the innermost dimension of the "
              "input.");
  const at::Tensor weight = args.tensor("weight");
  if (!weight.defined()) return;
  TORCH_CHECK(weight.scalar_type() == self.scalar_type(),
              "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
              "should have the same dtype");
  TORCH_CHECK(weight.sizes() == self.sizes().slice(0, static_cast<size_t>(self.dim() - 1)),
              "torch.histogramdd: if weight tensor is provided it should have the same shape as "
              "the input tensor excluding its innermost dimension");
}

using Check = void (*)(const Arguments&);

constexpr char kMax[] = "max()", kMin[] = "min()", kAmax[] = "amax()", kAmin[] = "amin()";
constexpr char kArgmax[] = "argmax()", kArgmin[] = "argmin()", kMode[] = "mode()";
constexpr char kKthValue[] = "kthvalue()";

// By the name without overload and in-place underscore.
const std::map<std::string_view, Check>& checks() {
  static const std::map<std::string_view, Check> table = {
      {"aten::gather", check_no_overlap},
      {"aten::take", check_no_overlap},
      {"aten::index_select", check_no_overlap},
      {"aten::scatter", check_no_overlap},
      {"aten::scatter_add", check_no_overlap},
      {"aten::scatter_reduce", check_no_overlap},
      {"aten::index_copy", check_no_overlap},
      {"aten::index_add", check_no_overlap},
      {"aten::index_reduce", check_no_overlap},
      {"aten::index_fill", check_no_overlap},
      {"aten::put", check_no_overlap},
      {"aten::index", check_indices},
      {"aten::index_put", check_index_put},
      {"aten::_index_put_impl", check_index_put},
      {"aten::masked_scatter", check_masked_scatter},
      {"aten::cat", check_cat},
      {"aten::complex",
       [](const Arguments& args) {
         check_complex(args, args.tensor("real"), args.tensor("imag"));
       }},
      {"aten::polar",
       [](const Arguments& args) {
         check_complex(args, args.tensor("abs"), args.tensor("angle"));
       }},
      {"aten::heaviside", check_heaviside},
      {"aten::max", check_extremum<kMax>},
      {"aten::min", check_extremum<kMin>},
      {"aten::amax", check_extremum<kAmax>},
      {"aten::amin", check_extremum<kAmin>},
      {"aten::argmax", check_argument_of_extremum<kArgmax>},
      {"aten::argmin", check_argument_of_extremum<kArgmin>},
      {"aten::mode", check_extremum<kMode>},
      {"aten::kthvalue", check_extremum<kKthValue>},
      {"aten::aminmax", check_aminmax},
      {"aten::convolution", check_convolution},
      {"aten::convolution_overrideable", check_convolution},
      {"aten::multinomial", check_multinomial},
      {"aten::bucketize", check_bucketize},
      {"aten::_histogramdd_bin_edges", check_histogramdd},
      {"aten::_histogramdd_from_bin_cts", check_histogramdd},
      {"aten::_histogramdd_from_bin_tensors", check_histogramdd},
  };
  return table;
}

// "aten::add" of "aten::add_", for "add_.Tensor" too.
std::string_view base_name(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

// --- numbers of random draws

double number(const c10::FunctionSchema& schema, const c10::IValue* args, const char* name) {
  const auto i = schema.argumentIndexWithName(name);
  // A tensor there can't be looked at without waiting for it.
  if (!i || !args[*i].isScalar()) return std::numeric_limits<double>::quiet_NaN();
  const c10::Scalar s = args[*i].toScalar();
  return s.isComplex() ? s.toComplexDouble().real() : s.toDouble();
}

void check_uniform(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double from = number(schema, args, "from");
  const double to = number(schema, args, "to");
  const at::Tensor& self = args[0].toTensor();
  const ScalarType type = c10::toRealValueType(self.scalar_type());
  double most = std::numeric_limits<double>::max();
  if (type == ScalarType::Float) most = std::numeric_limits<float>::max();
  if (type == ScalarType::Half) most = std::numeric_limits<c10::Half>::max();
  if (type == ScalarType::BFloat16) most = std::numeric_limits<c10::BFloat16>::max();
  auto check_bound = [&](double bound, const char* name) {
    TORCH_CHECK(-most <= bound && bound <= most, name, " is out of bounds for ",
                c10::scalarTypeToTypeMeta(type));
  };
  check_bound(from, "from");
  check_bound(to, "to");
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  TORCH_CHECK(to - from <= most, "uniform_ expects to-from <= std::numeric_limits<",
              c10::toString(type), ">::max(), but found to=", to, " and from=", from,
              " which result in to-from to exceed the limit");
}

// Comparisons are such that NaN, which stands for a tensor too, is let through where PyTorch does.
void check_normal(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double std = number(schema, args, "std");
  TORCH_CHECK(!(std < 0), "normal expects std >= 0.0, but found std ", std);
}

void check_log_normal(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double std = number(schema, args, "std");
  TORCH_CHECK(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
}

void check_cauchy(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double sigma = number(schema, args, "sigma");
  TORCH_CHECK(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
}

void check_exponential(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double lambda = number(schema, args, "lambd");
  TORCH_CHECK(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
}

void check_geometric(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const double p = number(schema, args, "p");
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
}

void check_bernoulli(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const auto i = schema.argumentIndexWithName("p");
  if (!i || !args[*i].isScalar()) return;
  const double p = number(schema, args, "p");
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}

void check_random(const c10::FunctionSchema& schema, const c10::IValue* args) {
  const auto from = schema.argumentIndexWithName("from");
  const auto to = schema.argumentIndexWithName("to");
  if (!to || !args[*to].isInt()) return;
  const int64_t low = from && args[*from].isInt() ? args[*from].toInt() : 0;
  const int64_t high = args[*to].toInt();
  TORCH_CHECK(low < high, "random_ expects 'from' to be less than 'to', but got from=", low,
              " >= to=", high);
}

}  // namespace

void check_arguments(const OpPlan& plan, const c10::IValue* args) {
  const auto it = checks().find(base_name(plan.op.schema()));
  if (it != checks().end()) it->second(Arguments(plan, args));
}

NumberCheck number_check(const c10::OperatorHandle& op) {
  static const std::map<std::string_view, NumberCheck> table = {
      {"aten::uniform", check_uniform},
      {"aten::normal", check_normal},
      {"aten::normal_functional", check_normal},
      {"aten::log_normal", check_log_normal},
      {"aten::cauchy", check_cauchy},
      {"aten::exponential", check_exponential},
      {"aten::geometric", check_geometric},
      {"aten::bernoulli", check_bernoulli},
      {"aten::random", check_random},
  };
  const auto it = table.find(base_name(op.schema()));
  return it == table.end() ? nullptr : it->second;
}

}  // namespace torch_tpu::eager
