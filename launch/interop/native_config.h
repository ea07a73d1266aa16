// config.json of the families that no Hugging Face class computes: model_type "longhaul", our own keys.
#pragma once

#include <nlohmann/json.hpp>

#include "core/models/model_config.h"
#include "launch/interop/json_config.h"

namespace longhaul {

inline constexpr const char* kNativeModelType = "longhaul";

/// {"model_type": "longhaul", "model": {...}, "gate": {...}, "rpa": {...}}: every key of those sections that belongs to
/// the model and not to its training.
nlohmann::ordered_json native_config(const ModelConfig& config);

/// The configuration such a file describes; keys that it leaves out have their defaults. user_error naming the file for
/// unknown keys and values of the wrong type.
ModelConfig read_native_config(const JsonConfig& json);

}  // namespace longhaul
