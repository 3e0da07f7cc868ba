#pragma once

namespace plumbline::tools {

/// From now on the first SIGINT or SIGTERM asks the running work to stop at its next block (`interrupted()`), a second
/// one ends the process at once.
void install_interrupt_handler();

bool interrupted();

}  // namespace plumbline::tools
