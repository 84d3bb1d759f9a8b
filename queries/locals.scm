; Registers, variables and labels live in the block that declares them; inline assembly opens many blocks with the
; same names again. A range such as `%r<18>` defines `%r0` to `%r17`, which a query cannot say: its references stay
; without a definition here.

[(module) (function) (block)] @local.scope

(function name: (identifier) @local.definition.function)
(parameter name: (identifier) @local.definition.parameter)
(variable_declaration name: (identifier) @local.definition.var)
(label name: (identifier) @local.definition.label)
(branch_targets label: (identifier) @local.definition.label)
(call_targets label: (identifier) @local.definition.label)
(call_prototype label: (identifier) @local.definition.label)

(instruction (identifier) @local.reference)
(guard (identifier) @local.reference)
(vector (identifier) @local.reference)
(address (identifier) @local.reference)
(group (identifier) @local.reference)
(unary (identifier) @local.reference)
(indexed (identifier) @local.reference)
(selection (identifier) @local.reference)
(initializer (identifier) @local.reference)
(branch_targets ":" (identifier) @local.reference)
(call_targets ":" (identifier) @local.reference)
