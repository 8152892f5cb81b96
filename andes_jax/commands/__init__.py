"""What the command line does, one module a command. Heavy imports happen in the commands, so that --help is quick."""
