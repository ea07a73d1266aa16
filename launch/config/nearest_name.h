// "did you mean ...?": the known name closest to a mistyped one.
#pragma once

#include <string>
#include <vector>

namespace longhaul {

/// Edit distance (insert, delete, replace, swap of neighbours each cost 1; '-', '_' and case do not count).
int edit_distance(const std::string& a, const std::string& b);
/// The closest of `names`; empty when none is near (more than a third of the letters differ).
std::string nearest_name(const std::string& name, const std::vector<std::string>& names);
/// "; did you mean 'x'?" or "".
std::string did_you_mean(const std::string& name, const std::vector<std::string>& names);

}  // namespace longhaul
