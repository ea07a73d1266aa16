#include "launch/interop/huggingface.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "launch/interop/huggingface_names.h"

namespace longhaul {
namespace {

namespace fs = std::filesystem;

/// [rows, columns] -> [columns, rows], in tiles that fit the cache.
Tensor transpose(const Tensor& matrix) {
  constexpr int64_t kTile = 32;
  const int64_t rows = matrix.size(0), columns = matrix.size(1);
  const Tensor result = Tensor::empty({columns, rows}, matrix.dtype());
  dispatch_float("transpose", matrix.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* const from = matrix.data<T>();
    T* const to = result.data<T>();
    for (int64_t row0 = 0; row0 < rows; row0 += kTile) {
      for (int64_t column0 = 0; column0 < columns; column0 += kTile) {
        for (int64_t row = row0; row < std::min(rows, row0 + kTile); ++row) {
          for (int64_t column = column0; column < std::min(columns, column0 + kTile); ++column) {
            to[column * rows + row] = from[row * columns + column];
          }
        }
      }
    }
  });
  return result;
}

/// All tensors of a directory: one file, or the shards of an index.
class TensorDirectory {
 public:
  explicit TensorDirectory(const fs::path& directory) : directory_(directory) {
    const fs::path single = directory / "model.safetensors", index = directory / "model.safetensors.index.json";
    if (fs::exists(single)) {
      add_file(single);
    } else if (fs::exists(index)) {
      for (const std::string& file : files_of(index)) add_file(directory / file);
    } else {
      throw user_error("{}: neither model.safetensors nor model.safetensors.index.json; save the model as safetensors",
                       directory.string());
    }
  }

  /// The stored name of `name`: files of the base model leave out the leading "transformer." or "model.", and a file
  /// may count the norms before blocks 1, 2, ... from 0.
  std::optional<std::string> stored_name(const std::string& given) const {
    const bool from_zero = place_.contains(std::string(kPreNorms) + "0.weight");
    const std::string name = from_zero ? counted_from_zero(given) : given;
    if (place_.contains(name)) return name;
    const std::string base = name.substr(name.find('.') + 1);
    if (base != name && place_.contains(base)) return base;
    return std::nullopt;
  }
  Tensor read(const std::string& stored) const { return files_[place_.at(stored)].read(stored); }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& [name, file] : place_) names.insert(name);
    return names;
  }
  const fs::path& path() const { return directory_; }

 private:
  static constexpr const char* kPreNorms = "amor_pre_norms.";

  /// amor_pre_norms.N of the AMOR export as amor_pre_norms.N-1; other names as they are.
  static std::string counted_from_zero(const std::string& name) {
    if (!name.starts_with(kPreNorms)) return name;
    const std::string rest = name.substr(std::string(kPreNorms).size());
    return kPreNorms + std::to_string(std::stoll(rest) - 1) + rest.substr(rest.find('.'));
  }
  static std::set<std::string> files_of(const fs::path& index) {
    std::set<std::string> files;
    try {
      const nlohmann::json json = nlohmann::json::parse(read_file(index));
      for (const auto& [name, file] : json.at("weight_map").items()) files.insert(file.get<std::string>());
    } catch (const nlohmann::json::exception&) {
      throw user_error("{}: expected a JSON object with weight_map: tensor name to file name", index.string());
    }
    for (const std::string& file : files) {
      if (fs::path(file).filename() != file) {
        throw user_error("{}: weight_map names '{}'; expected a file of the same directory", index.string(), file);
      }
    }
    return files;
  }
  void add_file(const fs::path& path) {
    files_.push_back(SafetensorsFile::open(path));
    for (const auto& [name, entry] : files_.back().entries()) {
      if (!place_.emplace(name, files_.size() - 1).second) {
        throw user_error("{}: tensor '{}' stands in another shard too", path.string(), name);
      }
    }
  }

  fs::path directory_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t> place_;
};

/// The shape there of rows of ours.
Shape stored_shape(const Shape& ours, TensorLayout layout) {
  if (layout == TensorLayout::kTransposed) return {ours[1], ours[0]};
  if (layout == TensorLayout::kDepthwise) return {ours[0], 1, ours[1]};
  return ours;
}

/// Reads one part into its rows of the parameter.
void load_part(const TensorDirectory& directory, const std::string& stored, const HuggingFacePart& part,
               const Parameter& parameter) {
  const Tensor target = parameter.variable.value().rows(part.begin, part.end);
  Tensor source = directory.read(stored);
  if (source.dtype() == DType::i32 || source.dtype() == DType::i64) {
    throw user_error("{}: tensor '{}' holds integers; expected floating-point numbers", directory.path().string(),
                     stored);
  }
  const Shape expected = stored_shape(target.shape(), part.layout);
  if (source.shape() != expected) {
    throw user_error("{}: tensor '{}' has shape {}; config.json asks for {}", directory.path().string(), stored,
                     source.shape().text(), expected.text());
  }
  if (source.dtype() == DType::bf16) source = source.to(DType::f32);  // transposed and converted on from there
  if (part.layout == TensorLayout::kTransposed) source = transpose(source);
  target.copy_from(source.view(target.shape()).to(target.dtype()));
}

/// Values or gradients of all parameters in Hugging Face form.
template <typename Select>
std::vector<NamedTensor> translate(const LanguageModel& model, Select select) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters().parameters()) {
    for (const HuggingFacePart& part : huggingface_parts(model.config(), parameter)) {
      const Tensor rows = select(parameter).rows(part.begin, part.end).to(DType::f32);
      const bool transposed = part.layout == TensorLayout::kTransposed;
      tensors.push_back({part.name, transposed ? transpose(rows) : rows.view(stored_shape(rows.shape(), part.layout))});
    }
  }
  return tensors;
}

/// Running median and deviation of entropy gate `block`: names of the published AMOR code.
std::pair<std::string, std::string> gate_names(size_t block) {
  const std::string gate = "amor_blocks." + std::to_string(block) + ".gate.";
  return {gate + "running_threshold", gate + "running_std"};
}

/// What the published AMOR code keeps besides our parameters: the state of the entropy gates, as scalars, and the
/// output matrix also when it is the embedding.
std::vector<NamedTensor> amor_tensors(const LanguageModel& model) {
  std::vector<NamedTensor> tensors;
  for (size_t block = 0; block < model.gates().size(); ++block) {
    const auto [mean, deviation] = gate_names(block);
    tensors.push_back({mean, Tensor::from<double>({}, {model.gates()[block].state().mean})});
    tensors.push_back({deviation, Tensor::from<double>({}, {model.gates()[block].state().deviation})});
  }
  if (model.config().family == "amor" && model.config().tie_embeddings) {
    tensors.push_back({"lm_head.weight", model.output_weight().value().to(DType::f32)});
  }
  return tensors;
}

/// The only element of tensor `name`, which leaves `unused`.
double read_scalar(const TensorDirectory& directory, const std::string& name, std::set<std::string>& unused) {
  if (unused.erase(name) == 0) throw user_error("{}: tensor '{}' is missing", directory.path().string(), name);
  const Tensor value = directory.read(name);
  if (value.count() != 1) {
    throw user_error("{}: tensor '{}' has shape {}; expected one number", directory.path().string(), name,
                     value.shape().text());
  }
  return value.to(DType::f64).item<double>();
}

void load_gates(const TensorDirectory& directory, LanguageModel& model, std::set<std::string>& unused) {
  for (size_t block = 0; block < model.gates().size(); ++block) {
    const auto [mean, deviation] = gate_names(block);
    const double median = read_scalar(directory, mean, unused);
    model.gates()[block].set_state({median, read_scalar(directory, deviation, unused)});
  }
}

constexpr const char* kPriorTemperature = "prior.temperature";
constexpr const char* kPriorWarm = "prior.warm";

/// Names of what the prior memory holds of one trained length.
struct PriorNames {
  explicit PriorNames(int64_t length)
      : memberships(fmt::format("prior.memberships.{}", length)),
        alignment(fmt::format("prior.alignment.{}", length)),
        updates(fmt::format("prior.updates.{}", length)) {}
  std::string memberships, alignment, updates;
};

/// What the length-aware prior remembers, in f64, and the two values it is used with.
std::vector<NamedTensor> prior_tensors(const LanguageModel& model) {
  const PriorMemory* const memory = model.prior_memory();
  if (!memory) return {};
  std::vector<NamedTensor> tensors = {{kPriorTemperature, Tensor::from<double>({}, {memory->control().temperature})},
                                      {kPriorWarm, Tensor::from<double>({}, {memory->control().warm})}};
  for (const auto& [length, entry] : memory->entries()) {
    const PriorNames names(length);
    tensors.push_back({names.memberships, entry.memberships});
    tensors.push_back({names.alignment, entry.alignment});
    tensors.push_back({names.updates, Tensor::from<double>({}, {static_cast<double>(entry.updates)})});
  }
  return tensors;
}

/// Tensor `name` of `expected` shape in f64; it leaves `unused`.
Tensor read_memory(const TensorDirectory& directory, const std::string& name, const Shape& expected,
                   std::set<std::string>& unused) {
  if (unused.erase(name) == 0) throw user_error("{}: tensor '{}' is missing", directory.path().string(), name);
  const Tensor value = directory.read(name);
  if (value.shape() != expected) {
    throw user_error("{}: tensor '{}' has shape {}; expected {}", directory.path().string(), name, value.shape().text(),
                     expected.text());
  }
  return value.to(DType::f64);
}

void load_prior(const TensorDirectory& directory, LanguageModel& model, std::set<std::string>& unused) {
  PriorMemory* const memory = model.prior_memory();
  if (!memory) return;
  const double temperature = read_scalar(directory, kPriorTemperature, unused);
  memory->set_control({.temperature = temperature, .warm = read_scalar(directory, kPriorWarm, unused)});
  const int64_t layers = memory->options().layers, regimes = memory->options().regimes;
  for (int64_t length = 1; length <= model.config().context_length; ++length) {
    const PriorNames names(length);
    if (!unused.contains(names.memberships)) continue;
    PriorMemory::Entry& entry = memory->entry(length);
    entry.memberships.copy_from(read_memory(directory, names.memberships, {layers, length, regimes}, unused));
    entry.alignment.copy_from(read_memory(directory, names.alignment, {layers, regimes, regimes}, unused));
    entry.updates = static_cast<int64_t>(read_scalar(directory, names.updates, unused));
  }
}

void check_nothing_left(const TensorDirectory& directory, const std::set<std::string>& unused, bool tied) {
  for (const std::string& name : unused) {
    const bool tied_head = tied && name == "lm_head.weight";  // a copy of the embedding
    if (!is_huggingface_buffer(name) && !tied_head) {
      throw user_error("{}: tensor '{}' belongs to no parameter of the model that config.json describes",
                       directory.path().string(), name);
    }
  }
}

}  // namespace

std::vector<NamedTensor> huggingface_tensors(const LanguageModel& model) {
  return translate(model, [](const Parameter& parameter) { return parameter.variable.value(); });
}

std::vector<NamedTensor> huggingface_gradients(const LanguageModel& model) {
  return translate(model, [](const Parameter& parameter) { return parameter.variable.grad(); });
}

void export_huggingface(const LanguageModel& model, const fs::path& directory, int64_t eos_token_id) {
  if (fs::exists(directory) && (!fs::is_directory(directory) || !fs::is_empty(directory))) {
    throw user_error("{}: exists already; name a new or empty directory", directory.string());
  }
  create_directories_durably(directory);
  std::vector<NamedTensor> tensors = huggingface_tensors(model);
  for (auto more : {amor_tensors, prior_tensors}) {
    for (NamedTensor& entry : more(model)) tensors.push_back(std::move(entry));
  }
  write_safetensors(directory / "model.safetensors", std::move(tensors), {{"format", "pt"}});
  nlohmann::ordered_json generation = {{"do_sample", true}};
  if (eos_token_id >= 0) generation["eos_token_id"] = eos_token_id;
  write_file_durably(directory / "generation_config.json", generation.dump(2) + "\n");
  // Last, because nothing loads a directory without it.
  write_file_durably(directory / "config.json", huggingface_config_text(model.config(), eos_token_id));
}

std::unique_ptr<LanguageModel> import_huggingface(const fs::path& directory, DType dtype) {
  const ModelConfig config = read_huggingface_config(directory);
  const TensorDirectory source(directory);
  std::unique_ptr<LanguageModel> model = make_model(config, 0, dtype);
  std::set<std::string> unused = source.names();
  for (const Parameter& parameter : model->parameters().parameters()) {
    for (const HuggingFacePart& part : huggingface_parts(config, parameter)) {
      const std::optional<std::string> stored = source.stored_name(part.name);
      if (!stored) throw user_error("{}: tensor '{}' is missing", directory.string(), part.name);
      load_part(source, *stored, part, parameter);
      unused.erase(*stored);
    }
  }
  load_gates(source, *model, unused);
  load_prior(source, *model, unused);
  check_nothing_left(source, unused, config.tie_embeddings);
  return model;
}

}  // namespace longhaul
