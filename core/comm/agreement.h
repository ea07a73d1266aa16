// Makes one rank's failure everyone's failure before the next collective, so that nothing hangs.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "core/comm/communicator.h"
#include "kernels/error.h"

namespace longhaul {

/// An Error that every rank of the group throws at the same place: each may unwind and end in the ordinary way. Every
/// other exception is known to its own rank alone, which must then abort the whole job.
class AgreedError : public Error {
 public:
  AgreedError(Fault fault, const std::string& message, int rank) : Error(fault, message), rank_(rank) {}
  /// The lowest rank on which it happened: the one that should print it.
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// Runs `action` on every rank, then agrees: if it threw on any rank, every rank throws an AgreedError with the message
/// (and fault) of the lowest failing rank, prefixed by "rank N: " when the group has several. Collective. `action` must
/// not itself communicate. `phase` is put in front of the messages of exceptions that are not an Error.
void agree(Communicator& group, const std::string& phase, const std::function<void()>& action);

/// Compares key -> value over the ranks (configuration, build, data manifest). Collective. user_error on every rank, as
/// an AgreedError, naming `what`, the first differing key, and who has which value.
void require_equal(Communicator& group, const std::string& what, const std::map<std::string, std::string>& values);

}  // namespace longhaul
