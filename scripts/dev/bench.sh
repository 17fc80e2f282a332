# The benchmarks. Sourced by ./dev.

# bench [e2e|codec|accept|ablation|link] [ARGS]: `lynxkv bench`, with our texts unless ARGS name others.
cmd_bench() {
    local kind=e2e argument own=0 help=0
    case ${1:-} in
        e2e | codec | accept | ablation | link)
            kind=$1
            shift
            ;;
    esac
    for argument in "$@"; do
        case $argument in
            -p* | --prompt | --prompt=* | -f* | --prompt-file | --prompt-file=*) own=1 ;;
            -h | --help) help=1 ;;
        esac
    done
    local history=(--prompt-file "$models/debian-history.txt")
    local both=("${history[@]}" --prompt-file "$models/bible-kjv.txt")
    if ((!own && !help)); then
        case $kind in
            e2e) set -- "${history[@]}" --prompt-tokens 2048 "$@" ;;
            codec) set -- "${history[@]}" "$@" ;;
            accept) set -- "${both[@]}" "$@" ;;
            ablation) set -- "${both[@]}" --prompt-tokens 512 --places 4 --tokens 24 "$@" ;;
        esac
    fi
    cli_setup
    say "running the benchmark $kind"
    [[ $kind == ablation && $help == 0 ]] || exec build/lynxkv bench "$kind" "$@"
    bench_ablation "$@"
}

# Keeps the report, and makes the document and the plot from it.
bench_ablation() {
    local report=$cache/work/ablation.json kept=bench/results/ablation.json
    mkdir -p "$cache/work" docs/results
    build/lynxkv bench ablation --json "$@" >"$report"
    cp "$report" "$kept"
    "$root/.venv/bin/python" scripts/ablation_report.py "$kept" docs/results/ablation.md docs/results/ablation.svg
    say "written: $kept, docs/results/ablation.md, docs/results/ablation.svg"
}
