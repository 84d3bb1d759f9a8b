// Ends a block whose closing brace is missing.
//
// PTX functions do not nest, and linking and module directives stand outside functions (PTX ISA 11.1, 11.2, 11.6).
// So where a statement could start, one of these directives or the end of the file means that a `}` is missing. ptxas
// accepts a prototype, `.alias` and `.target` there, so none of these does.
// The scanner then yields `unclosed`, a token without characters, once for each open block: the tree stays whole,
// every function before and after the gap included, whatever the nesting.

#include "tree_sitter/parser.h"

#include <string.h>

enum { UNCLOSED };

static const char *const MODULE_LEVEL[] = {
    "address_size", "common", "entry", "extern", "file", "func", "section", "version", "visible", "weak",
};

enum { LONGEST = 12 };  // the length of the longest of them

static bool in_word(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// BLANK of grammar.js.
static bool in_space(int32_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1a;
}

static void skip_space(TSLexer *lexer) {
    while (in_space(lexer->lookahead)) lexer->advance(lexer, false);
}

// Reads a word of letters after a dot; false if there is none, or one that is longer than all of MODULE_LEVEL.
static bool read_word(TSLexer *lexer, char word[LONGEST + 1]) {
    if (lexer->lookahead != '.') return false;
    lexer->advance(lexer, false);
    unsigned length = 0;
    while (length < LONGEST && in_word(lexer->lookahead)) {
        word[length++] = (char)lexer->lookahead;
        lexer->advance(lexer, false);
    }
    word[length] = '\0';
    return !in_word(lexer->lookahead);
}

// Whether a prototype continues after its first word: a `.func` that ends before the brace of any body.
static bool is_prototype(TSLexer *lexer, char word[LONGEST + 1]) {
    if (strcmp(word, "extern") == 0 || strcmp(word, "visible") == 0 || strcmp(word, "weak") == 0) {
        skip_space(lexer);
        if (!read_word(lexer, word)) return false;
    }
    if (strcmp(word, "func") != 0) return false;
    while (lexer->lookahead != ';' && lexer->lookahead != '{' && !lexer->eof(lexer)) lexer->advance(lexer, false);
    return lexer->lookahead == ';';
}

void *tree_sitter_ptx_isa_external_scanner_create(void) { return NULL; }

void tree_sitter_ptx_isa_external_scanner_destroy(void *payload) { (void)payload; }

unsigned tree_sitter_ptx_isa_external_scanner_serialize(void *payload, char *buffer) {
    (void)payload, (void)buffer;
    return 0;
}

void tree_sitter_ptx_isa_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    (void)payload, (void)buffer, (void)length;
}

bool tree_sitter_ptx_isa_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
    (void)payload;
    if (!valid[UNCLOSED]) return false;
    lexer->mark_end(lexer);  // everything below only looks ahead
    lexer->result_symbol = UNCLOSED;
    skip_space(lexer);
    if (lexer->eof(lexer)) return true;
    char word[LONGEST + 1];
    if (!read_word(lexer, word)) return false;
    for (unsigned i = 0; i < sizeof MODULE_LEVEL / sizeof *MODULE_LEVEL; i++) {
        if (strcmp(word, MODULE_LEVEL[i]) == 0) return !is_prototype(lexer, word);
    }
    return false;
}
