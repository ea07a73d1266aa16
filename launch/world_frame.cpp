#include "launch/world_frame.h"

#include <exception>
#include <new>

#include "core/comm/agreement.h"
#include "launch/exit_codes.h"
#include "launch/program.h"

namespace longhaul {
namespace {

/// Ends every rank when there are several: the others cannot know that this one failed.
int fail_alone(World& world, const std::string& message, Fault fault) {
  if (world.group().size() > 1) world.abort(message, exit_code(fault));
  print_error(message);
  return exit_code(fault);
}

}  // namespace

int with_world(const std::function<int(World&)>& body) {
  World world;
  try {
    return body(world);
  } catch (const AgreedError& error) {
    if (error.rank() == world.group().rank()) print_error(error.what());
    world.group().barrier();  // nobody leaves (and makes the launcher end the rest) before the message is out
    return exit_code(error.fault());
  } catch (const Error& error) {
    return fail_alone(world, error.what(), error.fault());
  } catch (const std::bad_alloc&) {
    return fail_alone(world, kOutOfMemory, Fault::kSystem);
  } catch (const std::exception& error) {
    return fail_alone(world, std::string("internal error: ") + error.what(), Fault::kInternal);
  }
}

}  // namespace longhaul
