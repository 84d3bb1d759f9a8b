// Ends a block whose closing brace is missing.
//
// PTX functions do not nest, and linking and module directives stand outside functions (PTX ISA 11.1, 11.2, 11.6).
// So where a statement could start, one of these directives or the end of the file means that a `}` is missing.
// The scanner then yields `unclosed`, a token without characters, once for each open block: the tree stays whole,
// every function before and after the gap included, whatever the nesting.

#include "tree_sitter/parser.h"

#include <string.h>

enum { UNCLOSED };

static const char *const MODULE_LEVEL[] = {
    "address_size", "alias", "common", "entry", "extern", "file", "func",
    "section",      "target", "version", "visible", "weak",
};

enum { LONGEST = 12 };  // the length of the longest of them

static bool in_word(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool in_space(int32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

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
    while (in_space(lexer->lookahead)) lexer->advance(lexer, false);
    if (lexer->eof(lexer)) return true;
    if (lexer->lookahead != '.') return false;
    lexer->advance(lexer, false);
    char word[LONGEST + 1];
    unsigned length = 0;
    while (length < LONGEST && in_word(lexer->lookahead)) {
        word[length++] = (char)lexer->lookahead;
        lexer->advance(lexer, false);
    }
    if (in_word(lexer->lookahead)) return false;
    word[length] = '\0';
    for (unsigned i = 0; i < sizeof MODULE_LEVEL / sizeof *MODULE_LEVEL; i++) {
        if (strcmp(word, MODULE_LEVEL[i]) == 0) return true;
    }
    return false;
}
