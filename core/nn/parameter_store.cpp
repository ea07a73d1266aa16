#include "core/nn/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/philox.h"

namespace longhaul {
namespace {

constexpr uint32_t kInitializationStream = 0x494E4954;  // "INIT": no layer number of a model comes near

/// FNV-1a, 64 bits: the part of the random key that belongs to the parameter's name.
uint64_t hash_name(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3ull;
  return hash;
}

int64_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = std::exchange(row[0], static_cast<int64_t>(i));
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row.back();
}

double uniform(uint32_t bits) { return static_cast<double>(kernels::uniform_from_bits(bits)); }

/// Two independent standard normal numbers from two draws (Box & Muller 1958).
void box_muller(uint32_t bits0, uint32_t bits1, double out[2]) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(bits0)));  // 1 - u lies in (0, 1]
  const double angle = 2.0 * std::numbers::pi * uniform(bits1);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

/// The values of elements [4 * group, 4 * group + 4).
void draw_four(const Initialization& initialization, const kernels::RandomKey& key, int64_t group, double out[4]) {
  using Kind = Initialization::Kind;
  if (initialization.kind == Kind::constant) {
    std::fill(out, out + 4, initialization.value);
    return;
  }
  uint32_t bits[4];
  kernels::random_bits4(key, 0, static_cast<uint64_t>(group), bits);
  if (initialization.kind == Kind::normal) {
    box_muller(bits[0], bits[1], out);
    box_muller(bits[2], bits[3], out + 2);
    for (int i = 0; i < 4; ++i) out[i] *= initialization.value;
  } else {
    for (int i = 0; i < 4; ++i) out[i] = initialization.element(4 * group + i, uniform(bits[i]));
  }
}

template <typename T>
void store(T& target, double value) {
  if constexpr (std::is_same_v<T, double>) {
    target = value;
  } else {
    target = T(static_cast<float>(value));
  }
}

template <typename T>
void initialize_parameter(const Parameter& parameter, uint64_t seed) {
  const kernels::RandomKey key{seed, hash_name(parameter.name), kInitializationStream};
  T* values = parameter.variable.value().data<T>();
  const int64_t count = parameter.count();
  const int64_t groups = (count + 3) / 4;
#pragma omp parallel for schedule(static) if (groups > 4096)
  for (int64_t group = 0; group < groups; ++group) {
    double draws[4];
    const int64_t end = std::min(count - 4 * group, int64_t{4});
    draw_four(parameter.initialization, key, group, draws);
    for (int64_t i = 0; i < end; ++i) store(values[4 * group + i], draws[i]);
  }
}

Tensor flat_view(const Tensor& flat, const Parameter& parameter) {
  return flat.rows(parameter.offset, parameter.offset + parameter.count()).view(parameter.shape());
}

}  // namespace

Variable ParameterStore::add(const std::string& name, Shape shape, WeightDecay decay, Initialization initialization) {
  if (finalized_) throw internal_error("parameter {}: added after the layout was fixed", name);
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) throw internal_error("parameter {}: the name is used twice", name);
  }
  // Shape and type are known from here on; the memory comes with finalize().
  Variable variable(Tensor::wrap(nullptr, shape, dtype_, nullptr), true);
  parameters_.push_back({name, variable, decay, std::move(initialization), 0});
  return variable;
}

void ParameterStore::finalize() {
  if (finalized_) throw internal_error("parameters: the layout is fixed already");
  finalized_ = true;
  std::reverse(parameters_.begin(), parameters_.end());
  for (size_t index = 0; index < parameters_.size(); ++index) {
    Parameter& parameter = parameters_[index];
    parameter.offset = flat_count_;
    const int64_t count = parameter.count();
    for (int64_t begin = 0; begin < count; begin += kBlockElements) {
      blocks_.push_back({static_cast<int>(index), begin, std::min(kBlockElements, count - begin), flat_count_ + begin});
    }
    flat_count_ = (flat_count_ + count + kAlignment - 1) / kAlignment * kAlignment;
  }
  flat_values_ = Tensor::zeros({flat_count_}, dtype_);
  for (const Parameter& parameter : parameters_) parameter.variable.set_value(flat_view(flat_values_, parameter));
}

void ParameterStore::initialize(uint64_t seed) {
  if (!finalized_) throw internal_error("parameters: initialised before the layout was fixed");
  for (const Parameter& parameter : parameters_) {
    switch (dtype_) {
      case DType::f32:
        initialize_parameter<float>(parameter, seed);
        break;
      case DType::f64:
        initialize_parameter<double>(parameter, seed);
        break;
      case DType::bf16:
        initialize_parameter<bf16>(parameter, seed);
        break;
      default:
        throw internal_error("parameters: cannot be stored as {}", name_of(dtype_));
    }
  }
}

Tensor ParameterStore::make_flat_buffer(DType dtype) const { return Tensor::zeros({flat_count_}, dtype); }

void ParameterStore::bind_gradients(const Tensor& flat) {
  if (!(flat.shape() == Shape{flat_count_})) {
    throw internal_error("parameters: gradient buffer {} for {} flat elements", flat.shape().text(), flat_count_);
  }
  for (const Parameter& parameter : parameters_) parameter.variable.bind_gradient(flat_view(flat, parameter));
}

void ParameterStore::zero_absent_gradients() {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.variable.grad().defined()) parameter.variable.sink().tensor.zero();
  }
}

const Parameter& ParameterStore::find(const std::string& name) const {
  const Parameter* nearest = nullptr;
  int64_t nearest_distance = 0;
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return parameter;
    const int64_t distance = edit_distance(name, parameter.name);
    if (nearest == nullptr || distance < nearest_distance) {
      nearest = &parameter;
      nearest_distance = distance;
    }
  }
  if (nearest == nullptr) throw user_error("parameter '{}' does not exist: the model has none", name);
  throw user_error("parameter '{}' does not exist; the nearest name is '{}'", name, nearest->name);
}

int64_t ParameterStore::parameter_count() const {
  int64_t total = 0;
  for (const Parameter& parameter : parameters_) total += parameter.count();
  return total;
}

}  // namespace longhaul
