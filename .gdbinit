# gdb reads this file when it starts in the source folder and trusts it; see "auto-load safe-path" in gdb's manual.
# Else: gdb -x .gdbinit PROGRAM
source scripts/gdb_uroce.py
