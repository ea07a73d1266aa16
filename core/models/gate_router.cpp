#include "core/models/gate_router.h"

#include <cmath>

#include "kernels/matmul.h"

namespace longhaul {

GateRouter::GateRouter(int64_t d_model, int64_t hidden_units) {
  flat_ = Tensor::zeros({d_model + 1 + hidden_units * (d_model + 2)}, DType::f32);
  int64_t at = 0;
  const auto part = [&](Shape shape) {
    const int64_t begin = at;
    at += shape.count();
    return flat_.rows(begin, at).view(shape);
  };
  linear_ = part({d_model});
  bias_ = part({1});
  hidden_weight_ = part({hidden_units, d_model});
  hidden_bias_ = part({hidden_units});
  output_ = part({hidden_units});
}

Tensor GateRouter::predict(const Tensor& u) const {
  if (u.shape().rank() != 2 || u.size(1) != d_model()) {
    throw internal_error("router: input {} for {} channels", u.shape().text(), d_model());
  }
  const int64_t rows = u.size(0), width = d_model(), units = hidden_units();
  const Tensor hidden = Tensor::empty({rows, units}, DType::f32), result = Tensor::empty({rows}, DType::f32);
  const float* const inputs = u.data<float>();
  float* const products = hidden.data<float>();
  kernels::matmul<float>(kernels::Cpu{}, products, units, {inputs, width}, {hidden_weight_.data<float>(), width, true},
                         rows, units, width, 1, 0);
#pragma omp parallel for schedule(static) if (rows > 8)
  for (int64_t row = 0; row < rows; ++row) {
    double sum = bias_.data<float>()[0];
    for (int64_t i = 0; i < width; ++i) sum += double{linear_.data<float>()[i]} * inputs[row * width + i];
    for (int64_t j = 0; j < units; ++j) {
      const float z = products[row * units + j] + hidden_bias_.data<float>()[j];
      sum += double{output_.data<float>()[j]} * (z / (1 + std::exp(-z)));
    }
    result.data<float>()[row] = static_cast<float>(sum);
  }
  return result;
}

}  // namespace longhaul
