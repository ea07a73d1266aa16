#include "launch/training/stop_signal.h"

#include <array>
#include <csignal>
#include <cstring>

#include "kernels/error.h"

namespace longhaul {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR2};

// A signal handler can reach nothing but a static variable.
volatile std::sig_atomic_t received = 0;

extern "C" void remember_signal(int number) {
  if (received == 0) received = number;
}

void install(void (*handler)(int)) {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;  // file writes in flight are not disturbed
  for (const int number : kSignals) {
    if (sigaction(number, &action, nullptr) != 0) throw system_error("sigaction({}): {}", number, std::strerror(errno));
  }
}

}  // namespace

StopSignal::StopSignal() { install(remember_signal); }

int StopSignal::number() const { return received; }

}  // namespace longhaul
