#include "launch/router_file.h"

#include <utility>

#include "core/io/checksum.h"
#include "core/io/safetensors.h"
#include "core/models/amor_model.h"
#include "kernels/error.h"
#include "parallel/checkpoint_directory.h"
#include "parallel/checkpoint_manifest.h"

namespace longhaul {
namespace {

std::string manifest_checksum(const std::filesystem::path& checkpoint) {
  return digest_file(checkpoint / CheckpointManifest::kFileName).checksum;
}

/// The tensors of one router under the names they have in the file.
std::vector<NamedTensor> named_tensors(const GateRouter& router, size_t gate) {
  const std::string prefix = "gates." + std::to_string(gate) + ".";
  return {{prefix + "linear", router.linear()},
          {prefix + "bias", router.bias()},
          {prefix + "hidden_weight", router.hidden_weight()},
          {prefix + "hidden_bias", router.hidden_bias()},
          {prefix + "output", router.output()}};
}

std::string values_checksum(const std::vector<GateRouter>& routers) {
  Checksum checksum;
  for (const GateRouter& router : routers) {
    checksum.update(std::as_bytes(router.flat().span<float>()));
  }
  return checksum.hex();
}

std::string entry_of(const SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

}  // namespace

std::filesystem::path router_path(const std::filesystem::path& checkpoint) {
  const std::filesystem::path directory =
      checkpoint.has_filename() ? checkpoint : checkpoint.parent_path();  // "step_20/"
  return directory.string() + kRouterSuffix;
}

void write_routers(const std::filesystem::path& checkpoint, const RouterSet& set) {
  std::vector<NamedTensor> tensors;
  for (size_t gate = 0; gate < set.routers.size(); ++gate) {
    for (NamedTensor& tensor : named_tensors(set.routers[gate], gate)) tensors.push_back(std::move(tensor));
  }
  write_safetensors(router_path(checkpoint), std::move(tensors),
                    {{"checkpoint", manifest_checksum(checkpoint)},
                     {"weights", set.weights},
                     {"gates", std::to_string(set.routers.size())},
                     {"values", values_checksum(set.routers)}});
}

RouterSet read_routers(const std::filesystem::path& checkpoint, const std::string& weights) {
  const std::filesystem::path path = router_path(checkpoint);
  if (!std::filesystem::exists(path)) {
    throw user_error("{}: there is no fitted router; make one with `longhaul fit-router --checkpoint {}`",
                     path.string(), checkpoint.string());
  }
  const SafetensorsFile file = SafetensorsFile::open(path);
  if (entry_of(file, "checkpoint") != manifest_checksum(checkpoint)) {
    throw user_error("{}: belongs to another checkpoint than {}; fit it again", path.string(), checkpoint.string());
  }
  RouterSet set{{}, entry_of(file, "weights")};
  if (set.weights != weights) {
    throw user_error("{}: was fitted to the {} weights, not to the {} ones; fit it again", path.string(), set.weights,
                     weights);
  }
  for (size_t gate = 0; file.contains("gates." + std::to_string(gate) + ".hidden_weight"); ++gate) {
    const Tensor weight = file.read("gates." + std::to_string(gate) + ".hidden_weight");
    if (weight.shape().rank() != 2) throw user_error("{}: gate {} is misshapen; fit it again", path.string(), gate);
    set.routers.emplace_back(weight.size(1), weight.size(0));
    for (const NamedTensor& part : named_tensors(set.routers.back(), gate)) {
      const Tensor stored = file.read(part.name);
      if (!(stored.shape() == part.tensor.shape()) || stored.dtype() != DType::f32) {
        throw user_error("{}: {} is {}, expected f32 {}; fit it again", path.string(), part.name, stored.shape().text(),
                         part.tensor.shape().text());
      }
      part.tensor.copy_from(stored);
    }
  }
  if (entry_of(file, "gates") != std::to_string(set.routers.size()) ||
      entry_of(file, "values") != values_checksum(set.routers)) {
    throw user_error("{}: its values do not have the checksum it states; it is damaged, fit it again", path.string());
  }
  return set;
}

void use_routers(LanguageModel& model, const std::filesystem::path& checkpoint, const std::string& weights) {
  auto* const amor = dynamic_cast<AmorModel*>(&model);
  if (amor == nullptr) {
    throw user_error("--router: family {} has no entropy gates to decide; leave it out", model.config().family);
  }
  amor->set_routers(read_routers(checkpoint, weights).routers);
}

}  // namespace longhaul
