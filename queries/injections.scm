; Nothing inside `.section` is injected: its data is DWARF, one token here.
([(comment) (unterminated_comment)] @injection.content
  (#set! injection.language "comment"))
