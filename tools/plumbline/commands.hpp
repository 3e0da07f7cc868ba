#pragma once
#include <CLI/CLI.hpp>

namespace plumbline::tools {

/// For options whose value may not be empty.
inline CLI::Validator not_empty() {
  return {[](std::string& text) {
            return text.empty() ? std::string("got an empty text, allowed: a value") : std::string();
          },
          ""};
}

// Each adds one subcommand to the program. A subcommand's callback stores the process exit code in `exit_code`
// (contract::exit_code of what happened; 0 when all that was asked holds).
void add_verify_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_bench_command(CLI::App& app, int& exit_code);
void add_golden_command(CLI::App& app, int& exit_code);
void add_list_command(CLI::App& app, int& exit_code);
void add_explain_command(CLI::App& app, int& exit_code);
void add_jacobian_command(CLI::App& app, int& exit_code);
void add_env_command(CLI::App& app, int& exit_code);

}  // namespace plumbline::tools
