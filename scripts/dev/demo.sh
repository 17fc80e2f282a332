# The demonstration. Sourced by ./dev.

# A long prose prompt that fits the default context of 4096 tokens with room for the output.
demo_prompt() {
    local prompt=$cache/work/demo-prompt.txt
    mkdir -p "$cache/work"
    head -c 7500 "$models/debian-history.txt" >"$prompt"
    printf '%s' "$prompt"
}

cli_setup() {
    setup
    build release
    lock_cache
    model_requantized_ensure
    unlock_cache
    export LYNXKV_MODEL=${LYNXKV_MODEL:-$smollm2_q4_0}
}

cmd_demo() {
    cli_setup
    demo
}

# A real long prompt through two nodes on loopback and an emulated link, then the table of four ways to move the same KV (`./dev bench`: all).
demo() {
    local prompt
    prompt=$(demo_prompt)
    say "one answer: $(wc -w <"$prompt") words of prompt, two nodes on this machine, a link of 12 Mbit/s"
    local show=()
    [[ -t 1 ]] && show=(--provisional)
    build/lynxkv generate --prompt-file "$prompt" --link-rate 12mbit --link-delay 5ms "${show[@]}"
    say "the same KV moved in four ways, over a link on which the INT8 transfer takes 40 token times"
    build/lynxkv bench e2e --prompt-file "$prompt" --systems f16,int8,nested44-mono,nested44 --int8-tpots 40
}
