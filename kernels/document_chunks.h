// Cuts the documents of packed rows into chunks for the chunked recurrent kernels. A chunk never spans two documents
// and is counted from its document's start, so state, decay and window need no masks inside a chunk and a packed
// document gets the same bits as one alone.
#pragma once

#include <cstdint>
#include <vector>

namespace longhaul::kernels {

/// Tokens [begin, begin + length) of the flat [batch * row_length] token axis.
struct DocumentChunk {
  int64_t begin;
  int64_t length;        ///< 1 .. chunk size
  bool starts_document;  ///< the recurrent state is zero before this chunk
};

/// Chunks in token order. document_start [batch, row_length] is the row position at which each token's document begins
/// (core/nn/batch.h); null: one document per row.
inline std::vector<DocumentChunk> document_chunks(const int32_t* document_start, int64_t batch, int64_t row_length,
                                                  int64_t chunk_size) {
  std::vector<DocumentChunk> chunks;
  for (int64_t row = 0; row < batch; ++row) {
    const auto start_of = [&](int64_t t) -> int64_t {
      return document_start ? document_start[row * row_length + t] : 0;
    };
    for (int64_t begin = 0; begin < row_length;) {
      int64_t end = begin + 1;
      while (end < row_length && end - begin < chunk_size && start_of(end) == start_of(begin)) ++end;
      chunks.push_back({row * row_length + begin, end - begin, begin == 0 || start_of(begin) == begin});
      begin = end;
    }
  }
  return chunks;
}

}  // namespace longhaul::kernels
