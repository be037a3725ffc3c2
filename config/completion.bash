# shellcheck shell=bash
# Completion of the sparseshim command for bash. Verbs and options come from the command itself.

_sparseshim_words() { # the options of the verb, or what follows them
    local before=("${COMP_WORDS[@]:2:COMP_CWORD-2}")
    case $verb in
    run | learn) words=$(sparseshim info 2>/dev/null | awk '/^SPARSESHIM_/ { print "--" tolower(substr($1, 12)) "=" }') ;;
    info) words="-f -c -r" ;;
    bench | simulate) words=$(sparseshim help "$verb" 2>/dev/null | awk '$1 ~ /^--/ { sub(/=.*/, "=", $1); print $1 }') ;;
    report) words="--all --job= --json --csv --csv=lanes --csv=tensors --csv=series --csv=summary --html --merge --compare --trace -o --legend" ;;
    help) words=$verbs ;;
    esac
    case $verb in
    run) words="-n $words" ;;
    learn) words="--steps= --out= $words" ;;
    esac
    if [[ $verb != help && $word != -* || " ${before[*]} " == *" -- "* ]]; then words=; fi
}

_sparseshim() {
    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} verbs words=
    verbs=$(sparseshim help 2>/dev/null | awk 'NR > 1 { print $1 }')
    if ((COMP_CWORD == 1)); then words=$verbs; else _sparseshim_words; fi
    COMPREPLY=()
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        if [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
    elif ((COMP_CWORD > 1)); then
        compopt -o default 2>/dev/null
    fi
}
complete -F _sparseshim sparseshim
