#pragma once

namespace plumbline::reference {

/// Registers "reference" (double precision) and "reference-wide" (the same body in 80-bit long double, the check of
/// double precision itself). Calling it again changes nothing.
void register_reference_implementations();

}  // namespace plumbline::reference
