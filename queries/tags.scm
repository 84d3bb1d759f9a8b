(function name: (identifier) @name body: (block)) @definition.function

(module (variable_declaration name: (identifier) @name) @definition.variable)

(label name: (identifier) @name) @definition.label

(branch_targets label: (identifier) @name) @definition.label
