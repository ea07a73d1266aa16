// Fitted routers on disk: one safetensors file beside the checkpoint that they belong to, RUN/checkpoints/step_N.router
// for step_N. The checkpoint itself is never touched.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/models/gate_router.h"
#include "core/models/language_model.h"

namespace longhaul {

struct RouterSet {
  std::vector<GateRouter> routers;  ///< by gate
  std::string weights;              ///< "raw", "ema" or "swa": of the model they were fitted to
};

std::filesystem::path router_path(const std::filesystem::path& checkpoint);

/// Durable; replaces an older file. The file names the checkpoint by the checksum of its manifest.
void write_routers(const std::filesystem::path& checkpoint, const RouterSet& set);

/// user_error naming the file when there is none, it is damaged, or it belongs to another checkpoint or other weights.
RouterSet read_routers(const std::filesystem::path& checkpoint, const std::string& weights);

/// --router: the model of that checkpoint decides its gates by the fitted routers from now on. user_error as
/// read_routers, and for models without gates.
void use_routers(LanguageModel& model, const std::filesystem::path& checkpoint, const std::string& weights);

}  // namespace longhaul
