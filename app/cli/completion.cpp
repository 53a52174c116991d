#include "app/cli/completion.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/choices.h"
#include "app/cli/command.h"
#include "app/cli/command_tree.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope::cli {
namespace {

/// A word that can be typed, and what it is.
struct Offer {
  std::string word;
  std::string help;
};

/// The words that may follow those that call a command.
struct CommandOffers {
  std::string name;  ///< "foxscope eval loss"
  std::vector<Offer> commands;
  std::vector<Offer> options;
};

/// The words that an option chooses from.
struct ValueOffers {
  std::string name;  ///< "foxscope run --dtype"
  std::vector<std::string> words;
};

struct Offers {
  std::vector<CommandOffers> commands;
  std::vector<ValueOffers> values;
};

Offers offersOf(const CLI::App& program) {
  Offers all;
  std::vector<CommandOffers> helped;
  for (const auto& [name, command] : everyCommand(program)) {
    CommandOffers offers{name, {}, {}};
    for (const CLI::App* sub : commandsOf(*command))
      offers.commands.push_back({sub->get_name(), sub->get_description()});
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      const Choice choice = choiceOf(*option);
      for (const std::string& word : shownNames(*option)) {
        offers.options.push_back({word, option->get_description()});
        if (!choice.words.empty()) all.values.push_back({name + ' ' + word, choice.words});
      }
    }
    // The words after `help` are those that call a command.
    const std::string called = program.get_name() + " help" + name.substr(program.get_name().size());
    if (!offers.commands.empty()) helped.push_back({called, offers.commands, {}});
    if (name != program.get_name() + " help") all.commands.push_back(std::move(offers));
  }
  std::ranges::move(helped, std::back_inserter(all.commands));
  return all;
}

/// In single quotes, as all three shells take it.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char character : text) word += character == '\'' || character == '\\' ? ' ' : character;
  return word + '\'';
}

std::string wordsOf(const std::vector<Offer>& offers) {
  std::vector<std::string> words;
  for (const Offer& offer : offers) words.push_back(offer.word);
  return fmt::format("{}", fmt::join(words, " "));
}

/// The tables of bash and zsh, which have the same words for them: commands, options and values by what was typed.
struct ShellTables {
  std::string steps;
  std::string offers;
  std::string values;
};

ShellTables tablesOf(const Offers& all) {
  ShellTables tables;
  for (const CommandOffers& command : all.commands) {
    if (command.name.find(' ') != std::string::npos)
      tables.steps += fmt::format("      {}) ;;\n", quoted(command.name));
    tables.offers += fmt::format("    {}) commands=({}) options=({}) ;;\n", quoted(command.name),
                                 wordsOf(command.commands), wordsOf(command.options));
  }
  for (const auto& [name, words] : all.values) {
    tables.values += fmt::format("    {}) values=({}) ;;\n", quoted(name), fmt::join(words, " "));
  }
  return tables;
}

std::string bashOf(const std::string& program, const Offers& all) {
  const ShellTables tables = tablesOf(all);
  return fmt::format(R"(# bash completion of {0}
_{0}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command={0} word done commands=() options=() values=()
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
{1}      *) continue ;;
    esac
    command="$command $word"
  done
  case "$command" in
{2}  esac
  case "$command $before" in
{3}  esac
  if [[ ${{#values[@]}} -gt 0 ]]; then
    done=${{current%"${{current##*,}}"}}
    mapfile -t COMPREPLY < <(compgen -P "$done" -W "${{values[*]}}" -- "${{current##*,}}")
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "${{options[*]}}" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "${{commands[*]}}" -- "$current" || :; compgen -f -- "$current")
  fi
}}
complete -o filenames -F _{0} {0}
)",
                     program, tables.steps, tables.offers, tables.values);
}

std::string zshOf(const std::string& program, const Offers& all) {
  const ShellTables tables = tablesOf(all);
  return fmt::format(R"(#compdef {0}
_{0}() {{
  local current=${{words[CURRENT]}} before=${{words[CURRENT - 1]}} command={0} word
  local -a commands options values
  if [[ $current == --*=* ]]; then
    before=${{current%%=*}} current=${{current#*=}}
    compset -P '*='
  fi
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$command $word" in
{1}      *) continue ;;
    esac
    command="$command $word"
  done
  case "$command" in
{2}  esac
  case "$command $before" in
{3}  esac
  if (( ${{#values}} )); then
    compset -P '*,'
    compadd -a values
  elif [[ $current == -* ]]; then
    compadd -a options
  else
    compadd -a commands
    _files
  fi
}}
_{0} "$@"
)",
                     program, tables.steps, tables.offers, tables.values);
}

std::string fishOffers(const std::vector<Offer>& offers) {
  std::string lines;
  for (const Offer& offer : offers) {
    fmt::format_to(std::back_inserter(lines), "        printf '%s\\t%s\\n' {} {}\n", offer.word, quoted(offer.help));
  }
  return lines;
}

std::string fishOf(const std::string& program, const Offers& all) {
  std::string steps;
  std::string values;
  std::string options;
  std::string commands;
  for (const CommandOffers& command : all.commands) {
    const std::string name = quoted(command.name);
    if (command.name.find(' ') != std::string::npos) steps += ' ' + name;
    if (!command.options.empty()) options += fmt::format("      case {}\n{}", name, fishOffers(command.options));
    if (!command.commands.empty()) commands += fmt::format("      case {}\n{}", name, fishOffers(command.commands));
  }
  for (const auto& [name, words] : all.values) {
    values += fmt::format("    case {}\n      printf '%s\\n' \"$done\"{}\n      return\n", quoted(name),
                          fmt::join(words, " \"$done\""));
  }
  return fmt::format(R"(# fish completion of {0}
function __{0}_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l before $words[-1]
  set -l done (string replace -r '[^,=]*$' '' -- "$current")
  if string match -q -- '--*=*' "$current"
    set before (string replace -r '=.*' '' -- $current)
  end
  set -l command {0}
  set -e words[1]
  for word in $words
    switch "$command $word"
      case{1}
        set command "$command $word"
    end
  end
  switch "$command $before"
{2}  end
  if string match -q -- '-*' "$current"
    switch $command
{3}    end
  else
    switch $command
{4}    end
    __fish_complete_path "$current"
  end
end
complete -c {0} -f -a '(__{0}_complete)'
)",
                     program, steps, values, options, commands);
}

}  // namespace

std::string completionOf(const CLI::App& program, const std::string& shell) {
  const Offers all = offersOf(program);
  const std::string& name = program.get_name();
  if (shell == "bash") return bashOf(name, all);
  if (shell == "zsh") return zshOf(name, all);
  if (shell == "fish") return fishOf(name, all);
  const std::vector<std::string> known = {"bash", "zsh", "fish"};
  throw UsageError(fmt::format("--completion {}: {}use bash, zsh or fish", shell, did_you_mean(shell, known)));
}

}  // namespace foxscope::cli
