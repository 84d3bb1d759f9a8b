[
  (block)
  (parameter_list)
  (initializer)
] @indent.begin

(block "}" @indent.branch)
(parameter_list ")" @indent.branch)
(initializer "}" @indent.branch)

[(comment) (section_directive) (preprocessor)] @indent.ignore
