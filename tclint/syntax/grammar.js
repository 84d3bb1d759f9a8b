/**
 * Grammar of PTX (PTX ISA 9.x, chapters 4, 5 and 11).
 *
 * It knows no instruction: an opcode with all its modifiers is one token, and operands are a flat run of terms
 * and separators. What an instruction means is the business of the ISA table. Two things decide every shape here:
 * the tree is the largest cost of a run (few nodes, shallow), and an error must stay inside its statement.
 */
/// <reference types="tree-sitter-cli/dsl" />

// 4.4: a percent sign, an underscore or a dollar sign needs at least one more character.
const NAME = /[a-zA-Z][a-zA-Z0-9_$]*|[_$%][a-zA-Z0-9_$]+/;

// 4.5.1. In the manual, the sign is not part of an integer literal; included in the token it saves a node for each
// negative number, and `a-1` is still a subtraction because no literal can follow a term.
// After a zero come octal digits.
const INTEGER = /-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)U?/;

// 4.5.2: decimal, and exact single and double precision, which have no sign.
const FLOAT = /-?([0-9]+\.[0-9]*([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)/;
const EXACT = /0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}/;

const NUMBER = choice(INTEGER, FLOAT, EXACT);

// Blanks as ptxas has them: SUB, the end of a file in CP/M, is one, and a vertical tab is none.
const BLANK = /[ \t\n\f\r\x1a]/;
const BLANKS = repeat1(BLANK);

// A file index, a line and a column (11.5.4).
const LINE_COLUMN = seq(BLANKS, /[0-9]+/, BLANKS, /[0-9]+/, BLANKS, /[0-9]+/);

// Operators of constant expressions (4.5.4), of addresses (6.4.1) and of destination pairs `d|p`. Nothing here
// depends on precedence, so all of them only separate terms.
const OPERATORS = ['+', '-', '*', '/', '<<', '>>', '<', '>', '<=', '>=', '==', '!=', '&', '^', '|', '&&', '||', '?', ':'];

const commaSeparated = (rule) => seq(rule, repeat(seq(',', rule)));

const signature = ($) => [
  optional(field('parameters', $.parameter_list)),
  repeat(choice($.performance_directive, $.pragma_directive)),
];

// Balanced braces around anything but braces.
const nested = (depth) => seq(
  '{', repeat(depth === 0 ? /[^{}]/ : choice(/[^{}]/, nested(depth - 1))), '}',
);

// A separated list whose first elements cost no node of a repetition each: a fifth of the parse time.
const unrolled = (rule, separator, times) => times === 0
  ? seq(rule, repeat(seq(separator, rule)))
  : seq(rule, optional(seq(separator, unrolled(rule, separator, times - 1))));

module.exports = grammar({
  name: 'ptx_isa',

  word: $ => $.dot_word,

  extras: $ => [BLANK, $.comment, $.unterminated_comment, $.preprocessor],

  externals: $ => [$.unclosed],

  inline: $ => [$._variable, $._operands, $._part, $._definition, $._name],

  rules: {
    module: $ => repeat($._item),

    // Only what cannot appear inside a function is an item of its own: such a directive inside a block shows that
    // a brace is missing before it.
    _item: $ => choice(
      $.version_directive,
      $.target_directive,
      $.address_size_directive,
      $.file_directive,
      $.section_directive,
      $.source_section_directive,
      $.alias_directive,
      $.function,
      alias($._module_variable, $.variable_declaration),
      $._common_directive,
    ),

    _common_directive: $ => choice(
      $.pragma_directive,
      $.loc_directive,
      $.loc_intermediate_directive,
      $.variable_declaration,
      $.directive,
    ),

    // ---- module directives (11.1, 11.5) ----

    version_directive: $ => seq('.version', choice($.float, $.integer)),

    target_directive: $ => seq('.target', commaSeparated($.identifier)),

    address_size_directive: $ => seq('.address_size', $.integer),

    file_directive: $ => seq('.file', $.integer, $.string, optional(seq(',', $.integer, ',', $.integer))),

    // One token: DWARF data is most of a debug build, and no stage needs its contents. The alternatives are the
    // characters of data, labels and label arithmetic (11.5.2), and comments, which may contain a brace.
    section_directive: _ => token(seq(
      '.section', BLANKS, /[.a-zA-Z_$%][a-zA-Z0-9_$.]*/, optional(BLANKS), '{',
      repeat(choice(/[a-zA-Z0-9_$%.,:+\-]/, BLANK, /\/\/[^\n]*\n/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),
      '}',
    )),

    // One token in nearly every case, since a build with line information has one for each instruction; spelled out
    // for the case that it contains a comment.
    loc_directive: $ => seq(
      choice($._location, seq('.loc', $.integer, $.integer, $.integer)),
      optional(seq(
        ',', $.identifier, choice($.identifier, $.dot_word), optional(seq('+', $.integer)),
        ',', $.identifier, $.integer, $.integer, $.integer,
      )),
    ),

    _location: _ => token(seq(
      '.loc', LINE_COLUMN,
      optional(seq(
        optional(BLANKS), ',', optional(BLANKS), 'function_name', BLANKS, /[.a-zA-Z_$%][a-zA-Z0-9_$]*/,
        optional(seq(optional(BLANKS), '+', optional(BLANKS), /[0-9]+/)),
        optional(BLANKS), ',', optional(BLANKS), 'inlined_at', LINE_COLUMN,
      )),
    )),

    // A position in the intermediate representation that the source of the last `.loc` became (9.4; in no manual).
    loc_intermediate_directive: _ => token(seq('.loc_intermediate', LINE_COLUMN)),

    // The text of that representation, in which braces are balanced (9.4; in no manual).
    source_section_directive: _ => token(seq('.nv_intermediate_source_section', optional(BLANKS), nested(7))),

    pragma_directive: $ => seq('.pragma', commaSeparated($.string), ';'),

    alias_directive: $ => seq('.alias', field('name', $.identifier), ',', field('aliasee', $.identifier), ';'),

    // A directive without a rule in this grammar. `@@DWARF` lines preceded `.section`, before PTX 2.0 (11.5.1).
    directive: $ => choice(
      seq($.dot_word, repeat(choice($.dot_word, $.identifier, $.integer, $.float, $.string, ',')), ';'),
      token(/@@DWARF[^\n]*/),
    ),

    // ---- functions (11.2, 11.4, 11.7, 11.8) ----

    // Compilers before CUDA 4.1 end a prototype of `.func` with no semicolon, and ptxas accepts that. A directive that
    // may belong to the prototype does.
    function: $ => prec.right(seq(
      repeat($.linkage),
      choice(
        seq(field('kind', '.entry'), field('name', $.identifier), ...signature($), $._definition),
        seq(
          field('kind', '.func'),
          optional($.attribute),
          optional(field('returns', $.parameter_list)),
          field('name', $.identifier),
          ...signature($),
          optional($._definition),
        ),
      ),
    )),

    // ptxas takes a prototype between statements, too; no compiler writes one.
    _prototype: $ => seq(
      optional(alias($._linkage_of_prototype, $.linkage)),
      field('kind', '.func'),
      optional($.attribute),
      optional(field('returns', $.parameter_list)),
      field('name', $.identifier),
      ...signature($),
      ';',
    ),

    _linkage_of_prototype: _ => choice('.extern', '.visible', '.weak'),

    _definition: $ => choice(field('body', $.block), ';'),

    linkage: _ => choice('.extern', '.visible', '.weak', '.common'),

    parameter_list: $ => seq('(', optional(commaSeparated($.parameter)), ')'),

    parameter: $ => seq(choice('.param', '.reg'), $._type, field('name', choice($.identifier, $.sink)), repeat($.dimension)),

    performance_directive: $ => seq($.dot_word, optional(commaSeparated(choice($.integer, $.string)))),

    // ---- variables (chapter 5) ----

    variable_declaration: $ => $._variable,

    _module_variable: $ => seq(repeat1($.linkage), $._variable),

    // ptxas accepts a declaration of nothing.
    _variable: $ => seq($._state_space, $._type, optional(commaSeparated($._declarator)), ';'),

    _state_space: $ => choice(
      '.reg', '.sreg', '.local', '.param', '.shared', '.global', '.tex',
      seq('.const', optional($.dimension)),
    ),

    // Alignment, vector length, `.ptr` with its space, attributes and the fundamental type, in any order.
    _type: $ => repeat1(choice($.dot_word, seq('.align', $.integer), $.attribute)),

    attribute: $ => seq('.attribute', '(', commaSeparated(seq($.dot_word, optional($.group))), ')'),

    _declarator: $ => seq(
      field('name', $.identifier),
      optional(choice(
        $.range,
        seq(repeat1($.dimension), optional(seq('=', $._initializer))),
        seq('=', $._initializer),
      )),
    ),

    range: $ => seq('<', $.integer, '>'),

    dimension: $ => seq('[', optional($._expression), ']'),

    _initializer: $ => choice($.initializer, $._expression),

    initializer: $ => seq('{', optional(commaSeparated($._element)), '}'),

    _element: $ => choice(
      $.initializer,
      $._expression,
      seq($.identifier, '=', $._expression),  // a field of a sampler or texture (5.3.2)
      // The last number of a run may begin an expression or be a mask.
      seq($.data, optional(choice($.group, repeat1(seq($._operator, $._scalar))))),
    ),

    // Two or more numbers are one token: tables of 100,000 bytes are common.
    data: _ => token(prec(1, seq(NUMBER, repeat1(seq(optional(BLANKS), ',', optional(BLANKS), NUMBER))))),

    // ---- statements (4.3.2, 9.7.12) ----

    // `unclosed` comes from the scanner: where a brace is missing, the block ends before the next module-level
    // directive or at the end of the file, so that one missing brace does not invalidate the rest of the module.
    block: $ => seq('{', repeat($._statement), choice('}', $.unclosed)),

    _statement: $ => choice(
      $.instruction,
      alias($._prototype, $.function),
      $.alias_directive,
      $.target_directive,
      $.label,
      $.block,
      $.branch_targets,
      $.call_targets,
      $.call_prototype,
      $._common_directive,
    ),

    label: $ => seq(field('name', $.identifier), ':'),

    branch_targets: $ => seq(
      field('label', $.identifier), ':', '.branchtargets', commaSeparated(seq($.identifier, optional($.range))), ';',
    ),

    call_targets: $ => seq(field('label', $.identifier), ':', '.calltargets', commaSeparated($.identifier), ';'),

    call_prototype: $ => seq(
      field('label', $.identifier), ':', '.callprototype',
      optional(field('returns', $.parameter_list)),
      $.sink,
      optional(field('parameters', $.parameter_list)),
      repeat($.performance_directive),
      ';',
    ),

    instruction: $ => seq(
      optional($.guard),
      field('opcode', choice($.opcode, alias($.identifier, $.opcode))),
      optional(unrolled($._term, $._separator, 4)),
      ';',
    ),

    guard: $ => seq('@', optional('!'), $.identifier),

    // ---- operands (chapter 6, 4.5) ----

    _operands: $ => seq($._term, repeat(seq($._separator, $._term))),

    _separator: $ => choice(',', $._operator),

    _term: $ => choice($._scalar, $.vector, $.address, alias($._negated, $.unary)),

    // A predicate, or a source of `vmad`: nothing inside brackets or parentheses is negated.
    _negated: $ => seq(choice('-', '!'), $._name),

    _name: $ => choice($.identifier, $.selection),

    // A constant expression, or an address in an initialiser.
    _expression: $ => seq($._scalar, repeat(seq($._operator, $._scalar))),

    _scalar: $ => choice(
      $.identifier,
      $.selection,
      $.sink,
      $.integer,
      $.float,
      alias($._exact, $.float),
      $.group,
      $.unary,
      $.indexed,
    ),

    // `a[4]` (6.4.2), and `generic(a)` and `0xFF(a)` in initialisers (5.4.4).
    indexed: $ => choice(
      seq($.identifier, choice($.address, $.group)),
      seq($.integer, $.group),
    ),

    // An element of a vector or a part of a register: `%tid.x`, `%r1.b0`. Two tokens, since one that looks like an
    // opcode would keep opcodes from being seen after an error.
    selection: $ => seq($.identifier, alias(token.immediate(seq(optional(BLANKS), /\.[a-zA-Z][a-zA-Z0-9]*/)), $.selector)),

    unary: $ => seq(choice('-', '+', '!', '~', $.cast), choice($.integer, $.float, $.group, $.unary)),

    cast: _ => token(seq('(', optional(BLANKS), /\.[su]64/, optional(BLANKS), ')')),

    // Brackets and braces contain no address, and a vector no vector: neither nests.
    address: $ => seq('[', $._part, repeat(seq($._separator, $._part)), ']'),

    _part: $ => choice($._scalar, $.vector),

    vector: $ => seq('{', optional(seq($._scalar, repeat(seq($._separator, $._scalar)))), '}'),

    // Argument lists of `call` and parenthesised constant expressions.
    group: $ => seq('(', optional($._operands), ')'),

    _operator: $ => choice(...OPERATORS, alias($._remainder, '%')),

    // Before a letter or a digit, `%` starts a name (4.4): `5 %3` is not a remainder, and `%r1 %r2` lacks a comma.
    _remainder: _ => token(seq('%', BLANK)),

    // ---- tokens ----

    // Whitespace is allowed before a dot of an opcode; ptxas accepts it too. A single colon is between the two numbers
    // of a sparsity: `.sp::2:4`.
    opcode: _ => token(prec(1, seq(
      /[a-zA-Z][a-zA-Z0-9_]*/,
      repeat1(choice(seq(optional(BLANKS), /(\.|::)[a-zA-Z0-9_]+/), /::[0-9]+:[0-9]+/)),
    ))),

    dot_word: _ => /\.[a-zA-Z_][a-zA-Z0-9_$]*/,

    identifier: _ => NAME,

    sink: _ => '_',

    integer: _ => INTEGER,

    float: _ => FLOAT,

    _exact: _ => EXACT,

    // ptxas knows no escapes, and a string may have several lines; here only one without the marks that end statements,
    // so that a missing quote is an error of its line.
    string: _ => /"([^"\n]*|[^"{};]*)"/,

    comment: _ => token(choice(/\/\/[^\n]*/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),

    // Up to the end of the file. As a token it is scanned once; as an error, each `/*` in it would be tried again.
    unterminated_comment: _ => /\/\*([^*]|\*+[^*/])*\**/,

    // The line markers that a C preprocessor leaves (4.1).
    preprocessor: _ => /#[ \t]*(line[ \t]*)?[0-9]+[ \t]+"[^"\n]*"[ \t0-9\r]*/,
  },
});
