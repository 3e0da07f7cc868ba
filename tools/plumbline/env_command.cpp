#include <fmt/format.h>

#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/report.hpp"

namespace plumbline::tools {

void add_env_command(CLI::App& app, int& exit_code) {
  auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("env", "Print versions, compiler, processor, threads and memory");
  command->add_flag("--json", *as_json, "As JSON");
  command->footer("Examples:\n  plumbline env");
  command->callback([as_json, &exit_code] {
    nlohmann::ordered_json environment = environment_json();
    environment["available_memory"] = human_bytes(available_memory_bytes());
    if (*as_json) {
      fmt::print("{}\n", environment.dump(2));
    } else {
      TextTable table({"what", "value"});
      for (const auto& [name, value] : environment.items())
        table.add({name, value.is_string() ? value.get<std::string>() : value.dump()});
      fmt::print("{}", table.plain());
    }
    exit_code = 0;
  });
}

}  // namespace plumbline::tools
