// Who may write a dataset directory: one writer at a time, and never over a finished dataset or foreign files.
#pragma once

#include <filesystem>
#include <string>

#include "core/io/file.h"

namespace longhaul {

/// Takes the directory for writing; the lock ends with the process, however it ends.
/// - no directory: it is made; an empty one is taken
/// - a manifest.json: refused, the dataset is finished
/// - only files a writer leaves (shards, *.tmp, tokenizer.bin, the lock) and no manifest: a leftover, removed
/// - anything else in it: refused, naming the first foreign file; another live writer: refused
/// File systems without locks are used without one.
class WriterLock {
 public:
  explicit WriterLock(const std::filesystem::path& directory);
  void release();  ///< removes the lock file once the manifest stands

  /// Throws what the constructor would for a finished dataset or foreign files, before any work is done.
  static void require_free(const std::filesystem::path& directory);
  /// True for names that only a dataset writer makes: "train-00000.h5", "tokenizer.bin", "....tmp", the lock file.
  static bool is_writer_file(const std::string& name);

 private:
  File file_;
};

}  // namespace longhaul
