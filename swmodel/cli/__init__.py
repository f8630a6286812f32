"""The commands of `swmodel`, each in its own module, which call `config` and `Simulation`.

commands.py  the commands: their options and their help
options.py   options that several commands have
"""
