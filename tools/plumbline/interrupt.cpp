#include "tools/plumbline/interrupt.hpp"

#include <csignal>

namespace plumbline::tools {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_signal(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void install_interrupt_handler() {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace plumbline::tools
