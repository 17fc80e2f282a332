// The suite every engine passes, in exact mode, parameterised by a way to make engines. Include it in one test file
// and instantiate EngineContract.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "engine/contract_fixture.h"

namespace lynx::engine {

TEST_P(EngineContract, TwoEnginesOfOneModelAgreeOnIdentityAndGeometry) {
    EXPECT_EQ(source().info().fingerprint, target().info().fingerprint);
    EXPECT_EQ(source().info().geometry, target().info().geometry);
    EXPECT_TRUE(source().info().geometry.validate().ok());
    EXPECT_EQ(target().info().sequences, kSequences);
    EXPECT_EQ(target().info().context_tokens, kContextTokens);
    EXPECT_EQ(target().info().batch_tokens_max, kBatchTokens);
}

TEST_P(EngineContract, PagesAreFinalWhenTheirStepReturns) { EXPECT_EQ(rig().kv_early, rig().kv); }

TEST_P(EngineContract, ExportThenImportContinuesBitwise) {
    import_prompt(1);
    EXPECT_EQ(read_kv(target(), 1, 0, prompt_held()), rig().kv);
    const std::vector<Row> rows = steps_on(1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(target().step({&rows[i], 1}, nullptr).ok());
        ASSERT_TRUE(same(target().logits(0), rig().logits[i])) << "step " << i;
    }
}

TEST_P(EngineContract, AParallelPassEqualsSingleSteps) {
    import_prompt(0);
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, NeighboursInABatchChangeNothing) {
    import_prompt(1);
    const std::vector<Row> rows = steps_on(1);
    // Sequence 0 repeats the prompt from its start, sequence 2 from its middle: three different sequences.
    const std::span<const Token> shifted = std::span(rig().prompt).subspan(300);
    std::uint32_t others = 40;  // tokens that sequences 0 and 2 hold
    std::vector<Row> batch = prompt_rows(0, rig().prompt, 0, others);
    const std::vector<Row> third = prompt_rows(2, shifted, 0, others);
    batch.insert(batch.end(), third.begin(), third.end());
    ASSERT_TRUE(target().step(batch, nullptr).ok());
    const auto neighbour = [&](SeqId seq) {
        return Row{
            .seq = seq, .token = seq == 0 ? rig().prompt[others] : shifted[others], .position = others, .logits = true};
    };
    for (std::size_t i = 0; i < rows.size() / 2; ++i, ++others) {
        batch = {neighbour(0), rows[i], neighbour(2)};
        ASSERT_TRUE(target().step(batch, nullptr).ok());
        ASSERT_TRUE(same(target().logits(1), rig().logits[i])) << "step " << i;
    }
    ASSERT_TRUE(target().truncate(1, prompt_held()).ok());
    batch = {neighbour(0)};
    batch.insert(batch.end(), rows.begin(), rows.end());
    batch.push_back(neighbour(2));
    ASSERT_TRUE(target().step(batch, nullptr).ok());
    ++others;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(same(target().logits(i + 1), rig().logits[i])) << "row " << i;
    }
    expect_prompt_kv(0, others);
}

TEST_P(EngineContract, PrefillChunksMayBeCutAnywhere) {
    ASSERT_TRUE(target().reserve(2, 40).ok());
    write_kv(target(), 2, rig().kv, 40);
    for (const auto& [first, count] : {std::pair{40U, 3U}, {43U, 1U}, {44U, 30U}}) {
        ASSERT_TRUE(target().step(prompt_rows(2, rig().prompt, first, count), nullptr).ok());
    }
    expect_prompt_kv(2, 74);
}

TEST_P(EngineContract, TruncateAndRedo) {
    import_prompt(0);
    for (int cycle = 0; cycle < 3; ++cycle) {
        ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 0));
        ASSERT_TRUE(target().truncate(0, prompt_held() + 7).ok());
        const std::vector<Row> rows = steps_on(0);
        ASSERT_TRUE(target().step(std::span(rows).subspan(7, 1), nullptr).ok());
        ASSERT_TRUE(same(target().logits(0), rig().logits[7]));
        ASSERT_TRUE(target().truncate(0, prompt_held() - 5).ok());
        ASSERT_TRUE(target().step(prompt_rows(0, rig().prompt, prompt_held() - 5, 5), nullptr).ok());
        ASSERT_EQ(read_kv(target(), 0, 0, prompt_held()), rig().kv) << "cells moved";
    }
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, ClearAndReserveAnotherLength) {
    for (const std::uint32_t tokens : {3U, 500U, 1U, kContextTokens, 257U}) {
        ASSERT_TRUE(target().reserve(1, tokens).ok());
        fill_kv(target(), 1, 0, tokens, 0x4200);
        ASSERT_TRUE(target().clear(1).ok());
    }
    ASSERT_TRUE(target().reserve(1, 0).ok());
    import_prompt(1);
    expect_parallel_pass(target(), 1);
}

TEST_P(EngineContract, GivenUpKvDoesNotLeak) {
    constexpr std::uint16_t kNan = 0x7E00;
    ASSERT_TRUE(target().reserve(0, kContextTokens).ok());
    fill_kv(target(), 0, 0, kContextTokens, kNan);
    ASSERT_TRUE(target().clear(0).ok());
    ASSERT_TRUE(target().reserve(2, 900).ok());
    fill_kv(target(), 2, 0, 900, kNan);
    ASSERT_TRUE(target().truncate(2, 10).ok());
    import_prompt(0);
    expect_parallel_pass(target(), 0);
    ASSERT_TRUE(target().clear(2).ok());
    ASSERT_TRUE(target().step(prompt_rows(2, rig().prompt, 0, 20), nullptr).ok());
    expect_prompt_kv(2, 20);
}

TEST_P(EngineContract, EveryLayerOfThePastMatters) {
    import_prompt(0);
    const std::vector<Row> rows = steps_on(0);
    for (const std::uint32_t layer : {0U, layers() / 2, layers() - 1}) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const kv::View view = target().kv_view(0, layer, kind).value();
            for (std::uint32_t t = 600; t < prompt_held(); ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    std::memset(view.at(t, c), 0, sizeof(std::uint16_t));
                }
            }
            ASSERT_TRUE(target().step({rows.data(), 1}, nullptr).ok());
            EXPECT_FALSE(same(target().logits(0), rig().logits[0])) << "layer " << layer;
            ASSERT_TRUE(target().truncate(0, prompt_held()).ok());
            write_kv(target(), 0, rig().kv, prompt_held(), layer);
        }
    }
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, TheGateOpensOncePerLayerInOrder) {
    import_prompt(1);
    RecordingGate gate([](std::uint32_t) { return Status{}; });
    ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 1, &gate));
    ASSERT_EQ(gate.calls.size(), layers());
    for (std::uint32_t l = 0; l < layers(); ++l) {
        EXPECT_EQ(gate.calls[l], l);
    }
    // A mixed batch, which an engine may compute in several parts.
    gate.calls.clear();
    std::vector<Row> batch = prompt_rows(0, rig().prompt, 0, 1);
    const std::vector<Row> more = prompt_rows(2, rig().prompt, 0, 9);
    batch.insert(batch.end(), more.begin(), more.end());
    ASSERT_TRUE(target().step(batch, &gate).ok());
    EXPECT_EQ(gate.calls.size(), layers());
}

TEST_P(EngineContract, WhatTheGateWritesIsWhatTheLayerReads) {
    import_prompt(0);
    fill_kv(target(), 0, 0, prompt_held(), 0x4800);
    RecordingGate gate([&](std::uint32_t layer) {
        write_kv(target(), 0, rig().kv, prompt_held(), layer);
        return Status{};
    });
    expect_parallel_pass(target(), 0, &gate);
}

TEST_P(EngineContract, AGateErrorEndsTheStepAndLeavesTheEngineUsable) {
    import_prompt(1);
    for (const std::uint32_t failing : {0U, layers() / 2, layers() - 1}) {
        RecordingGate gate([&](std::uint32_t layer) {
            return layer == failing ? Status{ErrorCode::peer_lost, "the tier never came"} : Status{};
        });
        std::vector<Row> rows = steps_on(1);
        rows.push_back({.seq = 0, .token = rig().prompt[0], .position = 0, .logits = false});
        const Status status = target().step(rows, &gate);
        EXPECT_EQ(status.code(), ErrorCode::peer_lost);
        EXPECT_EQ(status.message(), "the tier never came");
        EXPECT_EQ(gate.calls.size(), failing + 1);
        ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 1)) << "no row of the failed step stayed";
        ASSERT_TRUE(target().truncate(1, prompt_held()).ok());
    }
}

TEST_P(EngineContract, GreedyIsDeterministic) {
    const auto generate = [&](Engine& e, SeqId seq) {
        std::vector<Token> out;
        std::vector<Row> rows = prompt_rows(seq, rig().prompt, 0, 30);
        rows.back().logits = true;
        for (std::uint32_t i = 0; i < 12; ++i) {
            EXPECT_TRUE(e.step(rows, nullptr).ok());
            out.push_back(argmax(e.logits(rows.size() - 1)));
            rows = {{.seq = seq, .token = out.back(), .position = 30 + i, .logits = true}};
        }
        return out;
    };
    const std::vector<Token> first = generate(source(), 1);
    EXPECT_EQ(generate(source(), 2), first);
    EXPECT_EQ(generate(target(), 0), first);
}

TEST_P(EngineContract, WhatDoesNotFitIsRefusedAndChangesNothing) {
    Engine& e = target();
    const Token token = rig().prompt[0];
    const auto step_code = [&](std::vector<Row> rows) { return e.step(rows, nullptr).code(); };
    EXPECT_EQ(step_code({}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = 1}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = 0}, {.seq = 0, .token = token, .position = 2}}),
              ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = SeqId{kSequences}, .token = token}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = -1, .token = token}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = static_cast<Token>(e.info().vocabulary)}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = -1}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code(prompt_rows(0, rig().prompt, 0, kBatchTokens + 1)), ErrorCode::limit_exceeded);
    EXPECT_EQ(e.reserve(0, kContextTokens + 1).code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(e.reserve(-1, 1).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.truncate(0, 1).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.truncate(SeqId{kSequences}, 0).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.clear(SeqId{kSequences}).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(SeqId{kSequences}, 0, kv::Kind::key).status().code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(0, layers(), kv::Kind::key).status().code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(0, 0, kv::Kind::latent).status().code(), ErrorCode::invalid_argument);

    ASSERT_TRUE(e.reserve(0, kContextTokens - 1).ok());
    EXPECT_EQ(e.reserve(0, 1).code(), ErrorCode::invalid_argument) << "not empty";
    const Row last{.seq = 0, .token = token, .position = kContextTokens - 1, .logits = true};
    EXPECT_EQ(step_code({last, {.seq = 0, .token = token, .position = kContextTokens}}), ErrorCode::limit_exceeded);
    EXPECT_TRUE(e.step({&last, 1}, nullptr).ok()) << "the last cell can be used";
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = kContextTokens}}), ErrorCode::limit_exceeded);
    import_prompt(1);
    expect_parallel_pass(e, 1);
}

}  // namespace lynx::engine
