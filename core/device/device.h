// Which memory a tensor lies in.
#pragma once

#include <string>

namespace longhaul {

struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;  ///< CUDA ordinal; 0 for the CPU
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return kind == Kind::cpu; }
  std::string name() const;  ///< "cpu", "cuda:1"
};

}  // namespace longhaul
