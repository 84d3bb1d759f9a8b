"""The language server: ``tclint lsp``."""
