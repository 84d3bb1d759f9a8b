"""An interpreter of asynchronous operations and barriers that shares no code with tclint, and what tclint says of the same programs."""
