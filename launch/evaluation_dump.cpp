#include "launch/evaluation_dump.h"

#include <nlohmann/json.hpp>

#include "core/io/safetensors.h"
#include "launch/interop/huggingface.h"

namespace longhaul {
namespace {

/// Every token predicts the next one of its document.
Batch batch_of(const DumpRow& row, int64_t number) {
  std::vector<int32_t> ids, targets, starts;
  for (const std::vector<int32_t>& document : row.documents) {
    const auto start = static_cast<int32_t>(ids.size());
    for (size_t i = 0; i < document.size(); ++i) {
      ids.push_back(document[i]);
      targets.push_back(i + 1 < document.size() ? document[i + 1] : -1);
      starts.push_back(start);
    }
  }
  const auto length = static_cast<int64_t>(ids.size());
  return make_batch(1, length, std::move(ids), std::move(targets), std::move(starts), {number});
}

/// "entropy.ROW.BLOCK" and "fired.ROW.BLOCK" of every token.
void append_gates(std::vector<NamedTensor>& tensors, const GateRecord& record, size_t row) {
  for (size_t i = 0; i < record.blocks.size(); ++i) {
    const GateRecord::Block& block = record.blocks[i];
    std::vector<int32_t> fired;
    for (float entropy : block.entropies.span<float>()) fired.push_back(entropy > block.threshold ? 1 : 0);
    const std::string place = std::to_string(row) + "." + std::to_string(i);
    tensors.push_back({"entropy." + place, block.entropies});
    tensors.push_back({"fired." + place, Tensor::from<int32_t>(block.entropies.shape(), fired)});
  }
}

/// Objective summed over the rows, its gradients in `flat`; then scaled to the mean.
void accumulate_gradients(LanguageModel& model, const std::vector<DumpRow>& rows, int64_t valid_targets) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const Batch batch = batch_of(rows[i], static_cast<int64_t>(i));
    Tape tape;
    ForwardContext context{tape, batch};
    tape.backward(model.loss(context).objective, 1.0 / static_cast<double>(valid_targets));
  }
  model.parameters().zero_absent_gradients();
}

std::vector<NamedTensor> named_gradients(LanguageModel& model, const std::vector<DumpRow>& rows,
                                         int64_t valid_targets) {
  if (valid_targets == 0) throw user_error("the given ids hold no target: give a document of two or more tokens");
  const DType gradient_type = model.parameters().dtype() == DType::f64 ? DType::f64 : DType::f32;
  model.parameters().bind_gradients(model.parameters().make_flat_buffer(gradient_type));
  accumulate_gradients(model, rows, valid_targets);
  std::vector<NamedTensor> tensors = huggingface_gradients(model);
  for (NamedTensor& entry : tensors) entry.name = "gradient." + entry.name;
  return tensors;
}

}  // namespace

std::vector<DumpRow> read_dump_rows(const std::filesystem::path& path) {
  using Documents = std::vector<std::vector<int32_t>>;
  std::vector<DumpRow> rows;
  try {
    const nlohmann::json json = nlohmann::json::parse(read_file(path));
    for (const nlohmann::json& row : json.get<std::vector<nlohmann::json>>()) {
      const bool packed = !row.empty() && row.front().is_array();
      rows.push_back({packed ? row.get<Documents>() : Documents{row.get<std::vector<int32_t>>()}});
    }
  } catch (const nlohmann::json::exception&) {
    throw user_error("{}: row {} is not a list of token ids; expected [[1, 2], ...] or, packed, [[[1, 2], [3]], ...]",
                     path.string(), rows.size());
  }
  if (rows.empty()) throw user_error("{}: holds no rows of token ids", path.string());
  for (size_t i = 0; i < rows.size(); ++i) {
    for (const auto& document : rows[i].documents) {
      if (document.empty()) throw user_error("{}: row {} holds an empty document", path.string(), i);
    }
  }
  return rows;
}

void write_evaluation_dump(LanguageModel& model, const std::vector<DumpRow>& rows, bool gradients,
                           const std::filesystem::path& path) {
  std::vector<NamedTensor> tensors;
  double cross_entropy = 0;
  int64_t valid_targets = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Batch batch = batch_of(rows[i], static_cast<int64_t>(i));
    Tape tape(Tape::Mode::off);
    GateRecord record;
    ForwardContext context{.tape = tape, .batch = batch, .gates = &record};
    const LossSums loss = model.loss(context);
    append_gates(tensors, record, i);
    cross_entropy += loss.cross_entropy;
    valid_targets += loss.valid_targets;
    tensors.push_back({"logits." + std::to_string(i), model.logits(model.hidden(context).value())});
  }
  tensors.push_back({"cross_entropy", Tensor::from<double>({1}, {cross_entropy})});
  tensors.push_back({"valid_targets", Tensor::from<int64_t>({1}, {valid_targets})});
  if (gradients) {
    for (NamedTensor& entry : named_gradients(model, rows, valid_targets)) tensors.push_back(std::move(entry));
  }
  write_safetensors(path, std::move(tensors));
}

}  // namespace longhaul
