#include "launch/world_frame.h"

#include "launch/exit_codes.h"

namespace longhaul {

int with_world(const std::function<int(World&)>& body) {
  World world;
  return world.run([&] { return body(world); }, exit_code);
}

}  // namespace longhaul
