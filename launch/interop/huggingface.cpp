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

  /// The stored name of `name`: files of the base model leave out the leading "transformer." or "model.".
  std::optional<std::string> stored_name(const std::string& name) const {
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

/// Reads one part into its rows of the parameter.
void load_part(const TensorDirectory& directory, const std::string& stored, const HuggingFacePart& part,
               const Parameter& parameter) {
  const Tensor target = parameter.variable.value().rows(part.begin, part.end);
  Tensor source = directory.read(stored);
  if (source.dtype() == DType::i32 || source.dtype() == DType::i64) {
    throw user_error("{}: tensor '{}' holds integers; expected floating-point numbers", directory.path().string(),
                     stored);
  }
  const Shape expected = part.transposed ? Shape{target.size(1), target.size(0)} : target.shape();
  if (source.shape() != expected) {
    throw user_error("{}: tensor '{}' has shape {}; config.json asks for {}", directory.path().string(), stored,
                     source.shape().text(), expected.text());
  }
  if (source.dtype() == DType::bf16) source = source.to(DType::f32);  // transposed and converted on from there
  if (part.transposed) source = transpose(source);
  target.copy_from(source.to(target.dtype()));
}

/// Values or gradients of all parameters in Hugging Face form.
template <typename Select>
std::vector<NamedTensor> translate(const LanguageModel& model, Select select) {
  std::vector<NamedTensor> tensors;
  for (const Parameter& parameter : model.parameters().parameters()) {
    for (const HuggingFacePart& part : huggingface_parts(model.config(), parameter)) {
      const Tensor rows = select(parameter).rows(part.begin, part.end).to(DType::f32);
      tensors.push_back({part.name, part.transposed ? transpose(rows) : rows});
    }
  }
  return tensors;
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
  write_safetensors(directory / "model.safetensors", huggingface_tensors(model), {{"format", "pt"}});
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
  check_nothing_left(source, unused, config.tie_embeddings);
  return model;
}

}  // namespace longhaul
