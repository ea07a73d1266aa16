#include "launch/metrics/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace longhaul {

std::string duration_text(double seconds) {
  const int64_t whole = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  const int64_t days = whole / 86400, hours = whole / 3600 % 24, minutes = whole / 60 % 60, rest = whole % 60;
  if (days > 0) return fmt::format("{} d {}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

std::string progress_bar(const std::string& title, int64_t done, int64_t total, double seconds) {
  constexpr int64_t kWidth = 20;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const auto filled = static_cast<size_t>(share * kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  return fmt::format("{} [{}] {:3.0f} %  {} left", title, bar, 100 * share, duration_text(left));
}

Progress::Progress(std::string title, int64_t total, std::FILE* stream)
    : title_(std::move(title)), total_(total), stream_(stream), terminal_(isatty(fileno(stream)) == 1) {}

Progress::~Progress() {
  if (drawn_ && terminal_) std::fputs("\n", stream_);
}

void Progress::show(int64_t done) {
  if (total_ <= 0) return;
  const double now = watch_.seconds();
  const int64_t tenth = 10 * done / total_;
  const bool due = terminal_ ? now - last_drawn_ >= 0.1 || done == total_ : tenth > last_tenth_ && now >= 1;
  if (!due) return;
  last_drawn_ = now;
  last_tenth_ = tenth;
  draw(done);
}

void Progress::draw(int64_t done) {
  drawn_ = true;
  const std::string bar = progress_bar(title_, done, total_, watch_.seconds());
  fmt::print(stream_, "{}{}{}", terminal_ ? "\r" : "", bar, terminal_ ? "" : "\n");
  std::fflush(stream_);
}

}  // namespace longhaul
