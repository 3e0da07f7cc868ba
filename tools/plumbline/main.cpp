#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <system_error>

#include "reference/contract/result.hpp"
#include "reference/implementations.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/interrupt.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace plumbline;
  reference::register_reference_implementations();
  tools::install_interrupt_handler();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file size limit is then an error like any other
  CLI::App app{"Plumbline: the conformance suite for DeepSeek-V4 hybrid attention", "plumbline"};
  app.set_version_flag("--version", std::string("plumbline ") + PLUMBLINE_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n  plumbline verify\n  plumbline list stages\n  plumbline explain exit-codes");
  int exit_code = 0;
  tools::add_verify_command(app, exit_code);
  tools::add_compare_command(app, exit_code);
  tools::add_bench_command(app, exit_code);
  tools::add_golden_command(app, exit_code);
  tools::add_list_command(app, exit_code);
  tools::add_explain_command(app, exit_code);
  tools::add_jacobian_command(app, exit_code);
  tools::add_env_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    return tools::report_error(
        contract::usage_error("command line", std::string(error.what()) + "; see plumbline --help"));
  }
  return exit_code;
}

/// Names the exception in flight as an error; called where one is.
int report_exception() {
  using plumbline::contract::ErrorCode;
  using plumbline::tools::report_error;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return report_error({ErrorCode::kMemory, "ran out of memory", "plumbline"});
  } catch (const std::system_error& error) {  // fmt's, when standard output cannot be written
    return report_error({ErrorCode::kFile, error.what(), "standard output"});
  } catch (const std::exception& error) {
    return report_error(
        {ErrorCode::kInternal, std::string(error.what()) + ". This is a bug: please report it.", "plumbline"});
  }
}

/// For exceptions that no caller of this program's can catch, as those in a parallel region.
[[noreturn]] void on_terminate() {
  const int code = std::current_exception()
                       ? report_exception()
                       : plumbline::tools::report_error({plumbline::contract::ErrorCode::kInternal,
                                                         "terminated. This is a bug: please report it.", "plumbline"});
  std::_Exit(code);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(on_terminate);
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (...) {
    code = report_exception();
  }
  if (std::fflush(stdout) != 0)
    return plumbline::tools::report_error(
        {plumbline::contract::ErrorCode::kFile, "cannot be written", "standard output"});
  return code;
}
