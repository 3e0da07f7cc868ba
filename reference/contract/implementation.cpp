#include "reference/contract/implementation.hpp"

#include <utility>

namespace plumbline::contract {
namespace {

std::vector<std::unique_ptr<Implementation>>& registry() {
  static std::vector<std::unique_ptr<Implementation>> all;
  return all;
}

}  // namespace

std::vector<const Implementation*> implementations() {
  std::vector<const Implementation*> all;
  for (const auto& implementation : registry()) all.push_back(implementation.get());
  return all;
}

const Implementation* find_implementation(const std::string& name) {
  for (const auto& implementation : registry())
    if (implementation->name() == name) return implementation.get();
  return nullptr;
}

void register_implementation(std::unique_ptr<Implementation> implementation) {
  if (!find_implementation(implementation->name())) registry().push_back(std::move(implementation));
}

}  // namespace plumbline::contract
