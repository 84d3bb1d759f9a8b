[
  (block)
  (parameter_list)
  (initializer)
  (section_directive)
  (comment)
] @fold
