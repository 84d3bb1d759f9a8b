"""Studies: each answers one question about one decision of tclint. No other tool builds on them."""
