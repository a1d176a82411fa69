/* Reads a text of PTX (ptx.h): one entry, its registers, labels, local memory and constants. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

struct label {
    char name[64];
    int scope, at;
};

struct reader {
    struct ptx_text *t;
    int line, scope, scopes, open[8], depth;
    struct label labels[2048];
    int n_labels, code_room, names_room;
    size_t constant_bytes;
};

void ptx_fail(const struct ptx_instruction *at, const char *what)
{
    fprintf(stderr, "ptx: line %d, ", at ? at->line : 0);
    for (int i = 0; at && i < at->n_words; ++i) {
        fprintf(stderr, "%s%s", i ? "." : "", at->words[i]);
    }
    fprintf(stderr, ": %s\n", what);
    exit(1);
}

int ptx_is(const struct ptx_instruction *at, int word, const char *text)
{
    return word < at->n_words && strcmp(at->words[word], text) == 0;
}

int ptx_has(const struct ptx_instruction *at, const char *text)
{
    for (int i = 0; i < at->n_words; ++i) {
        if (strcmp(at->words[i], text) == 0) {
            return 1;
        }
    }
    return 0;
}

static int register_named(struct reader *r, const char *name)
{
    struct ptx_text *t = r->t;
    for (int i = t->n_registers - 1; i >= 0; --i) {
        if (strcmp(t->names[i], name) == 0) {
            return i;
        }
    }
    if (t->n_registers == r->names_room) {
        r->names_room = r->names_room * 2 + 1024;
        t->names = realloc(t->names, (size_t)r->names_room * sizeof(*t->names));
    }
    snprintf(t->names[t->n_registers], sizeof(*t->names), "%s", name);
    return t->n_registers++;
}

static const struct ptx_symbol *symbol_named(const struct ptx_text *t, const char *name)
{
    for (int i = 0; i < t->n_symbols; ++i) {
        if (strcmp(t->symbols[i].name, name) == 0) {
            return &t->symbols[i];
        }
    }
    return NULL;
}

static void add_symbol(struct ptx_text *t, const char *name, uint64_t at)
{
    struct ptx_symbol *s = &t->symbols[t->n_symbols++];
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->at = at;
}

/* "-12", "0x1p", "0f3F800000". */
static uint64_t number_of(const char *text)
{
    if (text[0] == '0' && (text[1] == 'f' || text[1] == 'd')) {
        return strtoull(text + 2, NULL, 16);
    }
    return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 0) : strtoull(text, NULL, 0);
}

static void read_word(struct reader *r, char *word, struct ptx_operand *o)
{
    const struct ptx_symbol *symbol = symbol_named(r->t, word);
    if (strcmp(word, "_") == 0) {
        o->kind = PTX_NONE;
    } else if (symbol) {
        o->kind = PTX_NUMBER;
        o->number = symbol->at;
    } else if (isdigit((unsigned char)word[0]) || word[0] == '-') {
        o->kind = PTX_NUMBER;
        o->number = number_of(word);
    } else {
        o->kind = PTX_REGISTER;
        o->reg = register_named(r, word);
    }
}

/* "[%rd1+-4]", "[name+8]". */
static void read_address(struct reader *r, char *inside, struct ptx_operand *o)
{
    char *plus = strchr(inside, '+');
    struct ptx_operand base = { 0 };
    if (plus) {
        *plus = 0;
    }
    read_word(r, inside, &base);
    o->kind = PTX_ADDRESS;
    o->reg = base.kind == PTX_REGISTER ? base.reg : -1;
    o->number = (base.kind == PTX_NUMBER ? base.number : 0) + (plus ? number_of(plus + 1) : 0);
}

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

static char *cut(char *at, const char *ends, char *word, size_t room)
{
    size_t length = strcspn(at, ends), kept = length;
    while (kept > 0 && (at[kept - 1] == ' ' || at[kept - 1] == '\t')) {
        --kept;
    }
    snprintf(word, room, "%.*s", (int)kept, at);
    return at + length;
}

static void read_operands(struct reader *r, struct ptx_instruction *i, char *at)
{
    char word[128];
    for (at = skip_blanks(at); *at; at = skip_blanks(at)) {
        if (i->n_operands == PTX_OPERANDS_MOST) {
            ptx_fail(i, "too many operands");
        }
        struct ptx_operand *o = &i->operand[i->n_operands++];
        if (*at == '{') {
            o->kind = PTX_LIST;
            for (++at; *at && *at != '}'; at += *at == ',') {
                struct ptx_operand one = { 0 };
                at = cut(skip_blanks(at), ",}", word, sizeof(word));
                read_word(r, word, &one);
                o->list[o->count++] = one.kind == PTX_REGISTER ? one.reg : -1;
            }
            ++at;
        } else if (*at == '[') {
            at = cut(at + 1, "]", word, sizeof(word)) + 1;
            read_address(r, word, o);
        } else {
            at = cut(at, ",|", word, sizeof(word)); /* the second result of "p|q" is an operand too */
            if (ptx_is(i, 0, "bra")) {
                o->kind = PTX_LABEL;
                o->number = (uint64_t)register_named(r, word); /* its name, until all labels are known */
            } else {
                read_word(r, word, o);
            }
        }
        at = skip_blanks(at);
        at += *at == ',' || *at == '|';
    }
}

static void read_instruction(struct reader *r, char *at)
{
    struct ptx_text *t = r->t;
    char word[256];
    if (t->n_code == r->code_room) {
        r->code_room = r->code_room * 2 + 1024;
        t->code = realloc(t->code, (size_t)r->code_room * sizeof(*t->code));
    }
    struct ptx_instruction *i = &t->code[t->n_code++];
    memset(i, 0, sizeof(*i));
    i->guard = -1;
    i->line = r->line;
    i->scope = r->depth ? r->open[r->depth - 1] : 0;
    i->operand = calloc(PTX_OPERANDS_MOST, sizeof(*i->operand));
    if (*at == '@') {
        i->guard_is_not = at[1] == '!';
        at = skip_blanks(cut(at + 1 + i->guard_is_not, " \t", word, sizeof(word)));
        i->guard = register_named(r, word);
    }
    at = cut(at, " \t", word, sizeof(word));
    for (char *part = word, *dot; part && i->n_words < 10; part = dot ? dot + 1 : NULL) {
        dot = strchr(part, '.');
        snprintf(i->words[i->n_words++], sizeof(i->words[0]), "%.*s", dot ? (int)(dot - part) : 23, part);
    }
    read_operands(r, i, at);
}

/* ".shared .align 1024 .b8 name[40960]", ".local", ".const ... = {1, 2}" with or without a list. */
static void read_array(struct reader *r, char *at)
{
    struct ptx_text *t = r->t;
    char name[96];
    const char *align = strstr(at, ".align "), *type = strstr(at, " .b8 ");
    const char *word = type ? type + 5 : strstr(at, " .u32 ") ? strstr(at, " .u32 ") + 6 : NULL;
    if (!word) {
        fprintf(stderr, "ptx: line %d: an array of another type: %s\n", r->line, at);
        exit(1);
    }
    word += strspn(word, " \t");
    const size_t length = strcspn(word, "[ ;=");
    const int alignment = align ? atoi(align + 7) : 1, bytes = word[length] == '[' ? atoi(word + length + 1) : 4;
    snprintf(name, sizeof(name), "%.*s", (int)length, word);
    if (strstr(at, ".shared")) {
        t->shared_bytes = (t->shared_bytes + alignment - 1) / alignment * alignment;
        add_symbol(t, name, (uint64_t)t->shared_bytes);
        t->shared_bytes += bytes;
    } else if (strstr(at, ".local")) {
        add_symbol(t, name, PTX_LOCAL_AT);
        t->local_bytes = bytes;
    } else {
        unsigned char *to = calloc((size_t)bytes + 1, 1); /* lives as long as the program */
        const char *number = strchr(word, '{');
        for (int i = 0; number && i < bytes; ++i, number = strchr(number, ',')) {
            to[i] = (unsigned char)atoi(number + 1);
            ++number;
        }
        add_symbol(t, name, (uint64_t)(uintptr_t)to);
    }
}

static void read_param(struct reader *r, const char *at)
{
    struct ptx_text *t = r->t;
    const char *name = strrchr(at, ' ') + 1;
    const size_t length = strcspn(name, "[,");
    const int bytes = name[length] == '[' ? atoi(name + length + 1) : strstr(at, "64") ? 8 : 4;
    const int alignment = bytes > 8 ? 8 : bytes, last = t->n_params - 1;
    const int start = t->n_params ? t->param_at[last] + t->param_bytes[last] : 0;
    char symbol[96];
    t->param_at[t->n_params] = (start + alignment - 1) / alignment * alignment;
    t->param_bytes[t->n_params] = bytes;
    snprintf(symbol, sizeof(symbol), "%.*s", (int)length, name);
    add_symbol(t, symbol, (uint64_t)t->param_at[t->n_params++]); /* ptx_run adds where they are */
}

static void read_statement(struct reader *r, char *at)
{
    at = skip_blanks(at);
    if (strncmp(at, ".reg", 4) == 0 || strncmp(at, ".pragma", 7) == 0 || strncmp(at, ".loc", 4) == 0 || !*at) {
        if (strncmp(at, ".local", 6) == 0) {
            read_array(r, at);
        }
    } else if (strncmp(at, ".shared", 7) == 0) {
        read_array(r, at);
    } else {
        read_instruction(r, at);
    }
}

/* A line of the body, which may hold several statements, braces and a label. */
static void read_line(struct reader *r, char *at)
{
    char *comment = strstr(at, "//");
    if (comment) {
        *comment = 0;
    }
    for (at = skip_blanks(at); *at; at = skip_blanks(at)) {
        const size_t name = strcspn(at, ":; \t{}");
        if (*at == '{') {
            r->open[r->depth++] = ++r->scopes;
            ++at;
        } else if (*at == '}') {
            --r->depth;
            ++at;
        } else if (at[name] == ':' && at[name + 1] != ':' && *at != '@') {
            struct label *l = &r->labels[r->n_labels++];
            snprintf(l->name, sizeof(l->name), "%.*s", (int)name, at);
            l->scope = r->depth ? r->open[r->depth - 1] : 0;
            l->at = r->t->n_code;
            at += name + 1;
        } else {
            char *end = strchr(at, ';');
            if (!end) {
                fprintf(stderr, "ptx: line %d has no end: %s\n", r->line, at);
                exit(1);
            }
            *end = 0;
            read_statement(r, at);
            at = end + 1;
        }
    }
}

static void resolve(struct reader *r)
{
    struct ptx_text *t = r->t;
    for (int i = 0; i < t->n_code; ++i) {
        struct ptx_operand *o = t->code[i].operand;
        if (o->kind != PTX_LABEL) {
            continue;
        }
        const char *name = t->names[o->number];
        int found = -1;
        for (int l = 0; l < r->n_labels; ++l) {
            if (strcmp(r->labels[l].name, name) == 0 && (found < 0 || r->labels[l].scope == t->code[i].scope)) {
                found = r->labels[l].at;
            }
        }
        if (found < 0) {
            ptx_fail(&t->code[i], "no such label");
        }
        o->number = (uint64_t)found;
    }
}

struct ptx_text *ptx_read(const char *text, const char *entry)
{
    static const char *const special[] = { "%tid.x",  "%tid.y",  "%tid.z",  "%ctaid.x",  "%ctaid.y",  "%ctaid.z",
                                           "%ntid.x", "%ntid.y", "%ntid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z" };
    struct reader *r = calloc(1, sizeof(*r));
    struct ptx_text *t = r->t = calloc(1, sizeof(*t));
    int in_params = 0, in_body = 0;
    char key[96];
    t->text = strdup(text);
    snprintf(key, sizeof(key), ".entry %s(", entry);
    for (int i = 0; i < PTX_SPECIALS; ++i) {
        register_named(r, special[i]);
    }
    for (char *line = t->text, *next; line && !(in_body && r->depth == 0 && r->scopes > 0); line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = 0;
        }
        ++r->line;
        if (!in_params && !in_body && strstr(line, ".const ")) {
            read_array(r, line);
        } else if (strstr(line, key)) {
            in_params = 1;
        } else if (in_params && strstr(line, ".param")) {
            read_param(r, line + strspn(line, " \t"));
        } else if (in_params && line[0] == '{') {
            in_params = 0;
            in_body = 1;
            read_line(r, line);
        } else if (in_body) {
            read_line(r, line);
        }
    }
    resolve(r);
    free(r);
    return t;
}

void ptx_free(struct ptx_text *text)
{
    for (int i = 0; i < text->n_code; ++i) {
        free(text->code[i].operand);
    }
    free(text->code);
    free(text->names);
    free(text->text);
    free(text);
}
