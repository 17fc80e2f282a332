# The demonstration. Sourced by ./dev.

cmd_demo() {
    setup
    build release
    lock_cache
    model_requantized_ensure
    unlock_cache
    demo
}

# A real long prompt through two nodes on loopback and an emulated link, then the table of every way to move the same KV.
demo() {
    local prompt=$cache/work/demo-prompt.txt
    mkdir -p "$cache/work"
    head -c 7000 "$models/debian-history.txt" >"$prompt"
    say "generating from a prompt of $(wc -w <"$prompt") words"
    build/lynxkv generate --model "$smollm2_q4_0" --prompt-file "$prompt"
    say "comparing the ways to move the KV, on a link that needs 40 token times for the INT8 transfer"
    build/lynxkv bench e2e --model "$smollm2_q4_0" --int8-tpots 40
}
