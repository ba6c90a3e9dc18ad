# SPDX-License-Identifier: BSD-3-Clause
# Completion of uroce's commands, topics and options for bash.

_uroce_commands() {
    uroce --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p'
}

_uroce_topics() {
    uroce show --help 2>/dev/null | sed -n '/^topics/,/^$/s/^  \([a-z_]*\) .*/\1/p'
}

# The long options that a command's help names.
_uroce_options() {
    "$@" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*' | sort -u
}

_uroce() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} i

    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_uroce_commands) --help --version" -- "$word")
        return
    fi
    if [ "$command" = run ]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            if [[ ${COMP_WORDS[i]} != -* ]]; then
                _command_offset "$i" 2>/dev/null
                return
            fi
        done
    fi
    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_uroce_options uroce "$command")" -- "$word") ;;
    *)
        if [ "$command" = show ] && [ "$COMP_CWORD" = 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_uroce_topics)" -- "$word")
        elif [ "$command" = fault ] && [ "$COMP_CWORD" = 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "add now list remove" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    esac
}

_uroced() {
    local word=${COMP_WORDS[COMP_CWORD]}

    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_uroce_options uroced)" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -F _uroce uroce
complete -F _uroced uroced
