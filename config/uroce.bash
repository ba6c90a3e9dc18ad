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

# What may follow the words of `uroce rdma` so far, options left out.
_uroce_rdma_words() {
    local words=() word

    for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
        [[ $word = -* ]] || words+=("$word")
    done
    case ${words[*]} in
    '') echo dev link resource statistic ;;
    dev | link | resource | res | statistic | stat) echo show ;;
    'dev show' | 'link show' | 'res show' | 'resource show')
        [[ ${words[0]} = res* ]] && echo qp cm_id cq mr pd ctx srq
        uroce rdma dev 2>/dev/null | sed -n 's/^[0-9]*: \([^:]*\):.*/\1/p'
        ;;
    'stat show' | 'statistic show') echo link ;;
    *' link') uroce rdma link 2>/dev/null | cut -d ' ' -f 2 ;;
    *' dev') uroce rdma dev 2>/dev/null | sed -n 's/^[0-9]*: \([^:]*\):.*/\1/p' ;;
    *' show qp') echo link lqpn rqpn pid sq-psn rq-psn type path-mig-state state pdn ;;
    *' show cm_id') echo link lqpn qp-type state ps pid src-addr src-port dst-addr dst-port cm-idn ;;
    *' show cq') echo dev users pid cqn ctxn ;;
    *' show mr') echo dev rkey lkey mrlen pid mrn pdn ;;
    *' show pd') echo dev users pid ctxn pdn ;;
    *' show ctx') echo dev pid ctxn ;;
    *' show srq') echo dev pid srqn type pdn cqn lqpn ;;
    esac
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
        elif [ "$command" = rdma ]; then
            mapfile -t COMPREPLY < <(compgen -W "$(_uroce_rdma_words)" -- "$word")
        elif [ "$command" = fault ] && [ "$COMP_CWORD" = 2 ]; then
            mapfile -t COMPREPLY < <(compgen -W "add now list remove" -- "$word")
        elif [ "$command ${COMP_WORDS[2]}" = 'fault now' ] && [ "$COMP_CWORD" = 3 ]; then
            mapfile -t COMPREPLY < <(compgen -W "qp_error event daemon_death" -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi
        ;;
    esac
}

# Of uroced and uroce-perf: the program's options.
_uroce_program() {
    local word=${COMP_WORDS[COMP_CWORD]}

    case $word in
    -*) mapfile -t COMPREPLY < <(compgen -W "$(_uroce_options "${COMP_WORDS[0]}")" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -F _uroce uroce
complete -F _uroce_program uroced uroce-perf
