#include "launch/program.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "launch/config/nearest_name.h"
#include "launch/exit_codes.h"

namespace longhaul {
namespace {

constexpr const char* kHelp =
    "longhaul pretrains language models on long contexts: text -> shards -> training -> samples.\n"
    "\n"
    "usage: longhaul COMMAND [OPTION]...      longhaul COMMAND --help      longhaul --version\n"
    "\n"
    "commands:\n";
constexpr const char* kExamples =
    "\n"
    "examples:\n"
    "  longhaul tokenize --input corpus.txt --out data/corpus --tokenizer bytes\n"
    "  mpirun -n 2 longhaul train --config configs/tiny.ini --set train.steps=200\n"
    "  longhaul generate --run runs/tiny --prompt 'Once upon a time'\n"
    "\n"
    "exit codes: 0 done, 1 failure of the machine or the program, 2 bad input or configuration,\n"
    "            75 stopped early with a complete checkpoint (start it again to go on)\n";

void print_help(const std::vector<Command>& commands) {
  std::fputs(kHelp, stdout);
  for (const Command& command : commands) fmt::print("  {:<10} {}\n", command.name, command.summary);
  std::fputs(kExamples, stdout);
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == name) return command;
    names.push_back(command.name);
  }
  throw user_error("'{}' is not a command{}; `longhaul --help` lists them", name, did_you_mean(name, names));
}

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h"; }

int run_words(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  if (words.empty() || asks_for_help(words[0]) || words[0] == "help") {
    print_help(commands);
    return words.empty() ? kExitUserError : kExitOk;
  }
  if (words[0] == "--version") {
    std::fputs(version_text().c_str(), stdout);
    return kExitOk;
  }
  const Command& command = find_command(commands, words[0]);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (std::any_of(rest.begin(), rest.end(), asks_for_help)) {
    fmt::print("longhaul {}: {}\n\n{}", command.name, command.summary, command.usage_examples);
    return kExitOk;
  }
  return command.run(rest);
}

}  // namespace

void print_error(const std::string& message) {
  std::fflush(stdout);
  std::string line = message;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool named = line.rfind("rank ", 0) == 0;
  if (!named && ranks && rank && std::string(ranks) != "1") line = fmt::format("rank {}: {}", rank, line);
  // One write, so that lines of several ranks do not mix.
  const std::string text = "longhaul: " + line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int run_program(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  try {
    const int code = run_words(commands, words);
    if (std::fflush(stdout) != 0) throw system_error("standard output cannot be written");
    return code;
  } catch (const Error& error) {
    print_error(error.what());
    return exit_code(error.fault());
  } catch (const std::bad_alloc&) {
    print_error(kOutOfMemory);
    return kExitFailure;
  } catch (const std::exception& error) {
    print_error(fmt::format("internal error: {}", error.what()));
    return kExitFailure;
  }
}

}  // namespace longhaul
