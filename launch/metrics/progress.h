// Progress of long work that is not training: a bar on a terminal, a line every ten percent elsewhere.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "launch/metrics/stopwatch.h"

namespace longhaul {

class Progress {
 public:
  /// `total` units of work; 0: unknown, then nothing is drawn until finish().
  Progress(std::string title, int64_t total, std::FILE* stream = stderr);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(int64_t done);  ///< cheap: draws at most ten times a second

 private:
  void draw(int64_t done);

  std::string title_;
  int64_t total_;
  std::FILE* stream_;
  bool terminal_;
  Stopwatch watch_;
  double last_drawn_ = 0;
  int64_t last_tenth_ = 0;
  bool drawn_ = false;
};

/// "verify [#####.....]  50 %  0:12 left".
std::string progress_bar(const std::string& title, int64_t done, int64_t total, double seconds);
/// "0:07", "12:34", "1:02:03"; "2 d 3:00:00" above a day.
std::string duration_text(double seconds);

}  // namespace longhaul
