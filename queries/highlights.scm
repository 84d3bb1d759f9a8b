; General patterns first, particular ones later: editors that let the last match win and those that let the more
; specific one win then agree. Opcodes are one token and coloured as one; which of them exist is known to the ISA
; table alone.

(identifier) @variable

[(integer) (float) (data)] @number
(string) @string
[(comment) (unterminated_comment)] @comment
(preprocessor) @keyword.directive
(sink) @variable.builtin

(dot_word) @type.builtin
(range) @operator
(selector) @property

(opcode) @function.builtin

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" ":"] @punctuation.delimiter
["+" "-" "*" "/" "%" "<<" ">>" "<" ">" "<=" ">=" "==" "!=" "&" "^" "|" "&&" "||" "?" "!" "~" "="] @operator
(guard ["@" "!"] @keyword.conditional)

[".reg" ".sreg" ".const" ".global" ".local" ".param" ".shared" ".tex" ".align" (linkage)] @keyword.modifier

[
  ".version" ".target" ".address_size" ".file" ".loc" ".pragma" ".alias"
  ".branchtargets" ".calltargets" ".callprototype"
] @keyword.directive
[(section_directive) (source_section_directive) (loc_directive) (loc_intermediate_directive)] @keyword.directive

[".entry" ".func"] @keyword.function

".attribute" @attribute
(attribute (dot_word) @attribute)
(performance_directive (dot_word) @attribute)

(target_directive (identifier) @constant)
(function name: (identifier) @function)
(alias_directive name: (identifier) @function aliasee: (identifier) @function)
(call_targets (identifier) @function)
(parameter name: (identifier) @variable.parameter)
(label name: (identifier) @label)
(branch_targets (identifier) @label)
(branch_targets label: (identifier) @label)
(call_targets label: (identifier) @label)
(call_prototype label: (identifier) @label)
