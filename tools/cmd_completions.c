/* clattn completions: what bash, zsh or fish need to complete commands, options and values, from their tables. */
#include <stdio.h>
#include <string.h>

#include "closest.h"
#include "commands.h"
#include "lesson/lesson.h"

/* ---- walking the tables ---- */

/* Calls `line` for every option of a command. */
static void each_option(const struct command *command, void (*line)(const struct command *command, enum option_id id))
{
    for (const struct option_group *group = command->groups; group->title; group++) {
        for (const enum option_id *id = group->ids; *id != OPTION_NONE; id++) {
            line(command, *id);
        }
    }
}

static int takes_file(enum option_id id)
{
    const char *value = option_value(id);
    return value && (strncmp(value, "FILE", 4) == 0 || strcmp(value, "DIR") == 0);
}

/* A word that shells take as it stands; the layout that they do not has another name too. */
static int is_plain(const char *word)
{
    return !strpbrk(word, "()");
}

static int has_words(enum option_id id)
{
    return option_words(id)[0] != NULL;
}

static void print_words(enum option_id id)
{
    const char *before = "";
    for (const char *const *word = option_words(id); *word; word++) {
        if (is_plain(*word)) {
            printf("%s%s", before, *word);
            before = " ";
        }
    }
}

static const char *const shell_names[] = { "bash", "zsh", "fish" };
enum { SHELLS = sizeof(shell_names) / sizeof(shell_names[0]) };

/* The words of which a command's operand is one; NULL after the last, and where it is a file. */
static const char *operand_word(const struct command *command, size_t index)
{
    if (command == &command_lesson) {
        return index < lesson_count ? lessons[index].name : NULL;
    }
    return command == &command_completions && index < SHELLS ? shell_names[index] : NULL;
}

static void print_operand_words(const struct command *command)
{
    for (size_t i = 0; operand_word(command, i); i++) {
        printf("%s%s", i ? " " : "", operand_word(command, i));
    }
}

/* Help texts inside single quotes: a quote ends them, stands, and begins them again. */
static void print_quoted(const char *text, const char *also_escaped)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            printf("%s%c", strchr(also_escaped, *text) ? "\\" : "", *text);
        }
    }
}

/* ---- bash ---- */

static void bash_word(const struct command *command, enum option_id id)
{
    (void)command;
    printf(" --%s", option_name(id));
}

static void bash_valued(const struct command *command, enum option_id id)
{
    (void)command;
    if (option_value(id) && !takes_file(id) && !has_words(id)) {
        printf("|--%s", option_name(id));
    }
}

static void bash_words(const struct command *command, enum option_id id)
{
    (void)command;
    if (has_words(id)) {
        printf("        --%s) values='", option_name(id));
        print_words(id);
        printf("' ;;\n");
    }
}

static void bash_file(const struct command *command, enum option_id id)
{
    (void)command;
    if (takes_file(id)) {
        printf("|--%s", option_name(id));
    }
}

/* Files are left to bash, which knows quotes and blanks, where there are no words beside them. Words are never files:
 * of a command whose name a folder has too, such as bench, bash would make "bench/". */
static void print_bash(void)
{
    printf("# bash completion of clattn; written by clattn completions bash\n"
           "_clattn()\n{\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local options= valued= files= words= values=\n"
           "    COMPREPLY=()\n"
           "    if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    if [ \"$word\" = = ]; then word=; fi\n"
           "    if [ \"$COMP_CWORD\" = 1 ] || { [ \"$COMP_CWORD\" = 2 ] && [ \"$before\" = help ]; }; then\n"
           "        COMPREPLY=($(compgen -W 'help");
    for (size_t i = 0; i < command_count; i++) {
        printf(" %s", command_table[i].command->name);
    }
    printf(" --help --version' -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i].command;
        printf("    %s)\n        options='", command->name);
        each_option(command, bash_word);
        printf("'\n        valued='");
        each_option(command, bash_valued);
        printf("|'\n        files='");
        each_option(command, bash_file);
        printf("|'\n        words='");
        print_operand_words(command);
        printf("'\n        case $before in\n");
        each_option(command, bash_words);
        printf("        esac\n        ;;\n");
    }
    printf("    esac\n"
           "    case $word in\n"
           "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
           "    *)\n"
           "        case $valued in *\"|$before|\"*) return ;; esac\n"
           "        case $files in *\"|$before|\"*) words= ;; *) words=${values:-$words} ;; esac\n"
           "        COMPREPLY=($(compgen -W \"${values:-$words}\" -- \"$word\"))\n"
           "        [ -z \"$words\" ] || return\n"
           "        if [ ${#COMPREPLY[@]} != 0 ] || ! compopt -o default 2>/dev/null; then\n"
           "            local IFS=$'\\n'\n"
           "            compopt -o filenames 2>/dev/null\n"
           "            COMPREPLY+=($(compgen -f -- \"$word\"))\n"
           "        fi\n"
           "        ;;\n"
           "    esac\n}\n"
           "complete -F _clattn clattn\n");
}

/* ---- zsh ---- */

/* What follows the name of a value. */
static void zsh_value(enum option_id id)
{
    const int both = takes_file(id) && has_words(id);
    fputs(both ? ":{_alternative \"words:word:(" : has_words(id) ? ":(" : takes_file(id) ? ":_files" : ":", stdout);
    print_words(id);
    fputs(both ? ")\" files:file:_files}" : has_words(id) ? ")" : "", stdout);
}

static void zsh_option(const struct command *command, enum option_id id)
{
    (void)command;
    printf("            '--%s%s[", option_name(id), option_value(id) ? "=" : "");
    print_quoted(option_help(id), "[]:\\");
    printf("]");
    if (option_value(id)) {
        printf(":");
        print_quoted(option_value(id), "[]:\\");
        zsh_value(id);
    }
    printf("' \\\n");
}

static void print_zsh(void)
{
    printf("#compdef clattn\n# zsh completion of clattn; written by clattn completions zsh\n"
           "_clattn()\n{\n    local -a commands\n    commands=(\n        'help:that of clattn, or of a command'\n");
    for (size_t i = 0; i < command_count; i++) {
        printf("        '%s:", command_table[i].command->name);
        print_quoted(command_table[i].brief, ":\\");
        printf("'\n");
    }
    printf("    )\n    if ((CURRENT == 2)) || { ((CURRENT == 3)) && [[ $words[2] == help ]]; }; then\n"
           "        _describe command commands\n        return\n    fi\n    case $words[2] in\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i].command;
        printf("    %s)\n        shift words\n        ((CURRENT--))\n        _arguments \\\n", command->name);
        each_option(command, zsh_option);
        if (operand_word(command, 0)) {
            printf("            '1:%s:(", command->operand);
            print_operand_words(command);
            printf(")'\n        ;;\n");
        } else {
            printf("            '*:file:_files'\n        ;;\n");
        }
    }
    printf("    esac\n}\n_clattn \"$@\"\n");
}

/* ---- fish ---- */

static void fish_quoted(const char *text)
{
    for (; *text; text++) {
        printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    }
}

static void fish_option(const struct command *command, enum option_id id)
{
    printf("complete -c clattn -n '__fish_seen_subcommand_from %s' -l %s%s -d '", command->name, option_name(id),
           !option_value(id) ? ""
           : takes_file(id)  ? " -r -F"
                             : " -x");
    fish_quoted(option_help(id));
    printf("'");
    if (has_words(id)) {
        printf(" -a '");
        print_words(id);
        printf("'");
    }
    printf("\n");
}

static void print_fish(void)
{
    printf("# fish completion of clattn; written by clattn completions fish\n"
           "complete -c clattn -n __fish_use_subcommand -f -a help -d 'that of clattn, or of a command'\n");
    for (size_t i = 0; i < command_count; i++) {
        printf("complete -c clattn -n __fish_use_subcommand -f -a %s -d '", command_table[i].command->name);
        fish_quoted(command_table[i].brief);
        printf("'\n");
    }
    printf("complete -c clattn -n '__fish_seen_subcommand_from help' -f -a '");
    for (size_t i = 0; i < command_count; i++) {
        printf("%s%s", i ? " " : "", command_table[i].command->name);
    }
    printf("'\n");
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i].command;
        each_option(command, fish_option);
        if (operand_word(command, 0)) {
            printf("complete -c clattn -n '__fish_seen_subcommand_from %s' -f -a '", command->name);
            print_operand_words(command);
            printf("'\n");
        }
    }
}

/* ---- the command ---- */

static int run(const struct options *options, struct failure *failure)
{
    static void (*const print[SHELLS])(void) = { print_bash, print_zsh, print_fish };
    const char *shell = options->operand;
    struct closest closest;
    char hint[CLOSEST_HINT];
    if (!shell) {
        return failure_misuse(failure, "SHELL: is missing; one of bash, zsh, fish");
    }
    closest_begin(&closest, shell, strlen(shell));
    for (size_t i = 0; i < SHELLS; i++) {
        if (strcmp(shell, shell_names[i]) == 0) {
            print[i]();
            return 0;
        }
        closest_offer(&closest, shell_names[i]);
    }
    return failure_misuse(failure, "SHELL %s: must be one of bash, zsh, fish%s", shell, closest_hint(&closest, hint));
}

static const struct option_group groups[] = {
    { "Options", { OPTION_HELP } },
    { NULL, { OPTION_NONE } },
};

const struct command command_completions = {
    "completions",
    "Prints what a shell needs to complete the words of clattn: commands, options, values, files. Installed with "
    "clattn; of a "
    "command that is not installed: source <(build/clattn completions bash).",
    "bash|zsh|fish",
    "SHELL",
    groups,
    NULL,
    run,
};
