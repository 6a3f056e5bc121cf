"""The subcommands, one file each: options in, the part's own entry point called."""
