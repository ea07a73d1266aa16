#include "parallel/text_exchange.h"

#include <span>

namespace longhaul {

std::vector<std::string> texts_of_all(Communicator& group, const std::string& text) {
  std::vector<std::string> texts;
  for (const auto& bytes : group.gather_all(std::as_bytes(std::span(text.data(), text.size())))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string text_from_root(Communicator& group, const std::string& text) {
  return texts_of_all(group, group.is_root() ? text : "").front();
}

}  // namespace longhaul
