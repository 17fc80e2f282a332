/* What both consumers do with the installed library: a small page through a codec and back. */
#pragma once

#include <lynx/codec_abi.h>
#include <math.h>
#include <stdio.h>

enum { TOKENS = 50, CHANNELS = 24, BUFFER_BYTES = 1 << 14 };

/* Returns 0, or prints what was wrong. Every element is within `error_max` after decoding all tiers, and within
   `anchor_error_max`, but not always within `error_max`, after decoding the first. */
static int round_trip(const char* name, double error_max, double anchor_error_max) {
    static float page[TOKENS][CHANNELS];
    static float back[TOKENS][CHANNELS];
    static unsigned char memory[LYNXKV_TIERS_MAX][BUFFER_BYTES];
    lynxkv_buffer out[LYNXKV_TIERS_MAX];
    lynxkv_payload payloads[LYNXKV_TIERS_MAX];
    lynxkv_payload_info info;
    lynxkv_codec* codec = NULL;
    const lynxkv_source source = {page, LYNXKV_F32, TOKENS, CHANNELS, CHANNELS, 1};
    const lynxkv_destination destination = {back, LYNXKV_F32, TOKENS, CHANNELS, CHANNELS, 1};
    lynxkv_context context;
    uint32_t tiers;
    uint32_t tier;
    int t;
    int c;

    if (lynxkv_codec_abi_version() != LYNXKV_CODEC_ABI_VERSION) {
        printf("header and library differ\n");
        return 1;
    }
    for (t = 0; t < TOKENS; ++t) {
        for (c = 0; c < CHANNELS; ++c) {
            page[t][c] = (float)sin(0.7 * t + c);
        }
    }
    lynxkv_context_init(&context);
    context.first_token = 100;
    context.sequence_tokens = 1000;
    if (lynxkv_codec_create(name, NULL, &codec) != LYNXKV_OK) {
        printf("%s\n", lynxkv_last_error());
        return 1;
    }
    tiers = lynxkv_codec_tiers(codec);
    for (tier = 0; tier < tiers; ++tier) {
        out[tier].data = memory[tier];
        out[tier].capacity = lynxkv_encoded_bytes_max(codec, TOKENS, CHANNELS, LYNXKV_F32, tier);
        if (out[tier].capacity == 0 || out[tier].capacity > BUFFER_BYTES) {
            printf("tier %u would take %zu bytes\n", tier, out[tier].capacity);
            return 1;
        }
    }
    if (lynxkv_encode(codec, &source, &context, out, tiers) != LYNXKV_OK) {
        printf("%s\n", lynxkv_last_error());
        return 1;
    }
    for (tier = 0; tier < tiers; ++tier) {
        double worst = 0;
        payloads[tier].data = out[tier].data;
        payloads[tier].bytes = out[tier].bytes;
        if (lynxkv_payload_describe(payloads[tier].data, payloads[tier].bytes, &info) != LYNXKV_OK ||
            info.tier != tier || info.tokens != TOKENS || info.channels != CHANNELS) {
            printf("payload %u does not describe itself\n", tier);
            return 1;
        }
        if (lynxkv_decode(codec, payloads, tier + 1, &destination) != LYNXKV_OK) {
            printf("%s\n", lynxkv_last_error());
            return 1;
        }
        for (t = 0; t < TOKENS; ++t) {
            for (c = 0; c < CHANNELS; ++c) {
                const double error = fabs((double)back[t][c] - (double)page[t][c]);
                worst = error > worst ? error : worst;
            }
        }
        printf("%s tier %u: %zu bytes, worst error %g\n", name, tier, payloads[tier].bytes, worst);
        if (tier + 1 == tiers ? worst > error_max : worst > anchor_error_max || worst <= error_max) {
            return 1;
        }
    }
    memory[0][80] ^= 1;
    if (lynxkv_decode(codec, payloads, 1, &destination) != LYNXKV_CORRUPT) {
        printf("a flipped bit went unnoticed\n");
        return 1;
    }
    lynxkv_codec_destroy(codec);
    return 0;
}
