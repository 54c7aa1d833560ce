/* completion_bash.c - the completion script for bash. */
#include "cli/completion.h"

static void print_next(const ms_next *next)
{
    switch (next->kind) {
    case MS_NEXT_NOTHING: printf("return ;;\n"); break;
    case MS_NEXT_WORDS: printf("words='%s' ;;\n", next->words); break;
    case MS_NEXT_STEMS: printf("kind=stems words='%s' ;;\n", next->words); break;
    case MS_NEXT_FILES: printf("kind=files ;;\n"); break;
    case MS_NEXT_DIRECTORIES: printf("kind=directories ;;\n"); break;
    case MS_NEXT_RUNS: printf("kind=runs ;;\n"); break;
    case MS_NEXT_DEVICES: printf("words=" MS_DEVICE_WORDS " ;;\n", "\"${COMP_WORDS[0]}\""); break;
    }
}

static const char *kind_name(ms_next_kind kind) { return kind == MS_NEXT_RUNS ? "runs" : "files"; }

/* What stands behind the words of the first operand, by these. */
static void print_parts(const ms_cli_command *c, const ms_next *first)
{
    char    part[64];
    ms_next next;

    printf("'\n                    [ \"$COMP_CWORD\" -gt 2 ] && case ${COMP_WORDS[2]} in\n");
    for (size_t i = 0; ms_next_word(first->words, i, part, sizeof part); i++) {
        ms_next_behind(c, part, &next);
        if (next.kind == MS_NEXT_WORDS)
            printf("                        %s) words=\"$words %s\" ;;\n", part, next.words);
        else if (next.kind != MS_NEXT_NOTHING)
            printf("                        %s) kind=%s ;;\n", part, kind_name(next.kind));
    }
    printf("                    esac ;;\n");
}

static bool has_parts(const ms_cli_command *c, const ms_next *first)
{
    char    part[64];
    ms_next next;
    for (size_t i = 0; ms_next_word(first->words, i, part, sizeof part); i++) {
        ms_next_behind(c, part, &next);
        if (next.kind != MS_NEXT_NOTHING) return true;
    }
    return false;
}

static void print_command(const ms_cli_command *c)
{
    const ms_command *cmd = c->describe();
    ms_next           first;

    ms_next_operand(c, &first);
    printf("                %s) words='--help", c->name);
    for (size_t k = 0; k < cmd->n_options; k++)
        printf(" --%s", cmd->options[k].name);
    if (first.kind == MS_NEXT_WORDS) printf(" %s", first.words);
    if (has_parts(c, &first))
        print_parts(c, &first);
    else if (first.kind == MS_NEXT_FILES || first.kind == MS_NEXT_RUNS)
        printf("' kind=%s ;;\n", kind_name(first.kind));
    else
        printf("' ;;\n");
}

static const char ending[] =
    "            esac ;;\n"
    "    esac\n"
    "    if [[ $cur == -* ]]; then\n"
    "        kind=\n"
    "    fi\n"
    "    case $kind in\n"
    "        files) compopt -o default; return ;;\n"
    "        directories) compopt -o filenames; _musec_take -d; return ;;\n"
    "        runs)\n"
    "            compopt -o filenames\n"
    "            mapfile -t COMPREPLY < <(_musec_runs \"$cur\")\n"
    "            [ ${#COMPREPLY[@]} -gt 0 ] || _musec_take -d\n"
    "            return ;;\n"
    "        stems) compopt -o nospace ;;\n"
    "    esac\n"
    "    _musec_take -W \"$words\"\n"
    "}\n"
    "complete -F _musec musec\n";

void ms_completion_bash(void)
{
    const ms_cli_command *c;
    ms_next               next;

    printf("# bash completion of musec, written by: musec completion bash\n"
           "_musec_take() { mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$cur\"); }\n"
           "_musec_runs() { # run directories that begin with what is typed\n"
           "    local f\n"
           "    for f in \"$1\"*/config.json \"$1\"*/*/config.json \"$1\"*/*/*/config.json; do\n"
           "        [ ! -e \"$f\" ] || printf '%%s\\n' \"${f%%/config.json}\"\n"
           "    done\n"
           "}\n"
           "_musec() {\n"
           "    local words='' kind=''\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        _musec_take -W '--help --version help");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        printf(" %s", c->name);
    printf("'\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]}:$prev in\n");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        for (size_t k = 0; k < c->describe()->n_options; k++) {
            const ms_option *option = &c->describe()->options[k];
            if (option->type == MS_OPT_FLAG) continue;
            ms_next_value(option, &next);
            printf("        %s:--%s) ", c->name, option->name);
            print_next(&next);
        }
    printf("        *)\n"
           "            case ${COMP_WORDS[1]} in\n"
           "                help) [ \"$COMP_CWORD\" -eq 2 ] && words='");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        printf("%s%s", i == 0 ? "" : " ", c->name);
    printf("' ;;\n");
    for (size_t i = 0; (c = ms_cli_command_at(i)) != NULL; i++)
        print_command(c);
    fputs(ending, stdout);
}
