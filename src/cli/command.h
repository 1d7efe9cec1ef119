/*
 * A command and its options as data: one row each. Parsing, checking, help, the manual page and
 * completion all read these rows and nothing else, so they cannot disagree.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli;

/* What an option takes and what its target points to. */
enum option_type {
    OPTION_FLAG,     /* nothing; bool */
    OPTION_TEXT,     /* any text; const char * */
    OPTION_LIST,     /* any text, may be given again; struct text_list */
    OPTION_CHOICE,   /* one of `choices`; const char * */
    OPTION_STATES,   /* names of states with commas between; unsigned, a bit per state */
    OPTION_INT,      /* min to max; int64_t */
    OPTION_DURATION, /* int64_t, milliseconds */
    OPTION_WAIT,     /* a duration or nothing, which is for ever (-1); int64_t, milliseconds */
    OPTION_TIME,     /* int64_t, milliseconds since 1970 */
    OPTION_JSON,     /* JSON, @file or - for standard input; struct document */
};

struct option {
    const char *name; /* long name without the dashes; NULL ends a table */
    char letter;      /* short name, or 0 */
    const char *form; /* how the value is called in help; NULL for a flag */
    enum option_type type;
    const char *text; /* one line of help */
    void *target;     /* written only when the option is given */
    int64_t min, max; /* OPTION_INT */
    const char
        *choices; /* OPTION_CHOICE: words with | between; other types: offered in completion */
    bool required;
    bool redacted; /* OPTION_TEXT, OPTION_JSON: kept in the store, without secrets: redacted.h */
    const char *timed_by; /* OPTION_FLAG: the option for a time that is given to this one */
};

/* A row of a table of options; behind the target may stand more members (.min = 1, .max = 9). */
#define OPTION(name_, letter_, form_, type_, text_, target_, ...)                                  \
    {                                                                                              \
        .name = (name_), .letter = (letter_), .form = (form_), .type = (type_), .text = (text_),   \
        .target = (target_), __VA_ARGS__                                                           \
    }
#define OPTION_END                                                                                 \
    {                                                                                              \
        .name = NULL                                                                               \
    }

struct text_list {
    const char **items;
    size_t count;
};

/* A JSON text that has been checked. */
struct document {
    char *text; /* NULL: not given */
    size_t bytes;
    bool from_stdin; /* nothing is left there for others */
};

/* What a command needs of the store before it runs. */
enum store_need {
    STORE_NONE,      /* none, or the command opens it itself */
    STORE_EXISTING,  /* reads or acts on what is there: a store that is not there is an error */
    STORE_MADE,      /* makes the store when there is none */
    STORE_MADE_HERE, /* the same in the current folder, also when there is one above */
    STORE_RESTORED,  /* as STORE_EXISTING, and who has none is not told how to make one */
    STORE_EXAMINED,  /* as STORE_EXISTING; a damaged one is the command's: cli->store_damaged */
};

enum { ARGS_ANY = -1 };

struct command {
    const char *name;
    const char *aliases;  /* other names with blanks between, or NULL */
    const char *group;    /* heading under which `tend help` lists it; NULL for subcommands */
    const char *form;     /* the arguments, as in "NAME [ARG…]"; NULL: none */
    const char *text;     /* one line of help */
    const char *about;    /* paragraphs for `tend CMD --help` and the manual, or NULL */
    const char *examples; /* lines "command  # what it does", or NULL */
    const char *choices;  /* of the last argument, with | between; or NULL */
    const struct option *options;
    /* Options known only at run time, after the others; NULL: none. Ends as a table does. */
    const struct option *(*more_options)(void);
    const struct command *const *subcommands; /* ends with NULL; then there is no run */
    int args_min, args_max;                   /* ARGS_ANY: no end */
    enum store_need store;
    bool behind_dashes; /* arguments only behind --, where they may look like options */
    bool then_command;  /* a command may follow the arguments, behind --; see cli.h */
    bool hidden;        /* not in help */
    bool raw;           /* everything behind the name is an argument; no options are looked for */
    int (*run)(struct cli *cli, int argc, char **argv); /* gives the exit status */
};

/* The table of all commands; ends with NULL. */
extern const struct command *const all_commands[];

/* Options that every command has; ends as a table does. */
extern const struct option global_options[];

/* The command of that name or alias in a table, or NULL. */
const struct command *command_find(const struct command *const *table, const char *name);

/* The name of the command in a table that a mistyped one may mean, or NULL. */
const char *command_near(const struct command *const *table, const char *name);

/* By long name, or by letter where name is NULL; NULL when there is none. Looks at globals last. */
const struct option *option_find(const struct command *command, const char *name, char letter);

#endif
