#include "core/device/device.h"

namespace longhaul {

std::string Device::name() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }

}  // namespace longhaul
