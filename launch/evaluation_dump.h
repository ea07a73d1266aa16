// What a model computes for given token ids, as a safetensors file that other programs can compare with: the part of
// `longhaul eval` behind --ids and --dump.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/models/language_model.h"

namespace longhaul {

/// One row: documents packed one after another, which do not see each other.
struct DumpRow {
  std::vector<std::vector<int32_t>> documents;
};

/// A JSON array of rows. A row is an array of ids (one document) or an array of arrays of ids (packed documents):
/// [[1, 2, 3], [[4, 5], [6]]]. user_error naming the file and the row for anything else and for empty documents.
std::vector<DumpRow> read_dump_rows(const std::filesystem::path& path);

/// Writes "logits.R" [tokens, vocabulary] of every row R, "cross_entropy" f64 [1] (sum over all targets: every next
/// token within its document) and "valid_targets" i64 [1]; of models with entropy gates also "entropy.R.K" f32 and
/// "fired.R.K" i32 [tokens], the entropy and the decision of block K for every token. With `gradients` also
/// "gradient.NAME": of the mean cross-entropy (with the model's smoothing and z-loss) in the names and layouts of the
/// Hugging Face export.
void write_evaluation_dump(LanguageModel& model, const std::vector<DumpRow>& rows, bool gradients,
                           const std::filesystem::path& path);

}  // namespace longhaul
