// The group of one: every collective is the identity.
#include <memory>

#include "core/comm/communicator.h"
#include "kernels/error.h"

namespace longhaul {
namespace {

class SingleCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void sum(std::span<int64_t>) override {}
  void max(std::span<int64_t>) override {}
  void min(std::span<int64_t>) override {}
  void assemble(std::span<double>) override {}
  void broadcast(std::span<std::byte>, int root) override {
    if (root != 0) throw internal_error("broadcast from rank {} in a group of one", root);
  }
  std::vector<std::vector<std::byte>> gather_all(std::span<const std::byte> mine) override {
    return {std::vector<std::byte>(mine.begin(), mine.end())};
  }
  std::unique_ptr<Transfer> send(std::span<const std::byte>, int to, int) override {
    throw internal_error("send to rank {} in a group of one", to);
  }
  std::unique_ptr<Transfer> receive(std::span<std::byte>, int from, int) override {
    throw internal_error("receive from rank {} in a group of one", from);
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single_communicator() { return std::make_unique<SingleCommunicator>(); }

}  // namespace longhaul
