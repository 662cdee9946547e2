/* The face of libgiusto, with good and with bad input. Ends with 1 and says where at the first thing that is not as expected. */
#include <giusto.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); exit(1); } \
    } while (0)

static const uint64_t MS = 1000000;

static GiustoController *made(const char *name, const GiustoConfig *config) {
    GiustoController *controller = NULL;
    char error[256] = "";
    GiustoStatus status = giusto_new(name, config, &controller, error, sizeof error);
    if (status != GIUSTO_OK) fprintf(stderr, "%s: %s\n", name, error);
    CHECK(status == GIUSTO_OK && controller != NULL);
    return controller;
}

static void refused(const char *name, const GiustoConfig *config, GiustoStatus expected, const char *part) {
    GiustoController *controller = (GiustoController *)&controller;
    char error[300] = "";
    CHECK(giusto_new(name, config, &controller, error, sizeof error) == expected);
    CHECK(controller == NULL);
    if (strstr(error, part) == NULL) fprintf(stderr, "found: %s\nexpected: %s\n", error, part);
    CHECK(strstr(error, part) != NULL);
}

static void every_name_makes_a_controller(void) {
    size_t length = giusto_names(NULL, 0), lines = 0;
    char *names = malloc(length + 1), small[6];
    CHECK(giusto_names(names, length + 1) == length && strlen(names) == length);
    CHECK(giusto_names(small, sizeof small) == length && strcmp(small, "fixed") == 0);
    GiustoConfig config = {.size = sizeof config, .min_bps = 100000, .start_bps = 700000, .max_bps = 3000000};
    for (char *name = strtok(names, "\n"); name != NULL; name = strtok(NULL, "\n"), lines++) {
        GiustoController *controller = made(name, &config);
        GiustoTarget target = {.size = sizeof target};
        CHECK(giusto_target(controller, &target) == GIUSTO_OK);
        CHECK(target.media_bps == 700000 && target.pacing_bps >= 700000 && target.size == sizeof target);
        GiustoRequirements requirements = {.size = sizeof requirements};
        CHECK(giusto_requirements(controller, &requirements) == GIUSTO_OK);
        CHECK((requirements.feedback & requirements.accepted) != 0 && requirements.accepted < 64);
        CHECK(strstr(giusto_decision(controller), "\"cause\":\"start\"") != NULL);
        CHECK(strcmp(giusto_error(controller), "") == 0);
        giusto_free(controller);
    }
    CHECK(lines >= 15);
    free(names);
}

static void requirements_are_those_of_the_controller(void) {
    GiustoRequirements found = {.size = sizeof found};
    GiustoController *controller = made("gcc:libwebrtc", NULL);
    CHECK(giusto_requirements(controller, &found) == GIUSTO_OK);
    CHECK(found.feedback == GIUSTO_FEEDBACK_TRANSPORT_WIDE && found.burst_ns == 40 * MS);
    CHECK(found.discard_after_ns == GIUSTO_NEVER && found.skip_after_ns == GIUSTO_NEVER);
    giusto_free(controller);
    controller = made("scream:v2", NULL);
    CHECK(giusto_requirements(controller, &found) == GIUSTO_OK);
    CHECK(found.feedback == GIUSTO_FEEDBACK_RFC8888 && found.marks == 1);
    CHECK(found.discard_after_ns > 10 * MS && found.discard_after_ns < 5000 * MS);
    giusto_free(controller);
}

static void wrong_names_and_limits_are_refused(void) {
    refused(NULL, NULL, GIUSTO_INVALID_ARGUMENT, "NULL");
    refused("gcc", NULL, GIUSTO_UNKNOWN_CONTROLLER, "unknown controller \"gcc\": expected one of");
    refused("", NULL, GIUSTO_UNKNOWN_CONTROLLER, "unknown controller \"\"");
    refused("\xff\xfe", NULL, GIUSTO_UNKNOWN_CONTROLLER, "unknown controller");
    refused("nada+kapa=0.4", NULL, GIUSTO_UNKNOWN_CONTROLLER, "nada has no constant \"kapa\"");
    refused("nada+kappa=9", NULL, GIUSTO_UNKNOWN_CONTROLLER, "kappa must be 0.02 to 2, found 9");
    refused("nada+tau=450", NULL, GIUSTO_UNKNOWN_CONTROLLER, "tau");
    refused("nada+kappa=0.4+kappa=0.4", NULL, GIUSTO_UNKNOWN_CONTROLLER, "set twice");
    GiustoConfig config = {.size = sizeof config, .min_bps = 2000000, .max_bps = 1000000};
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "must not be above");
    config = (GiustoConfig){.size = sizeof config, .start_bps = 9000000};
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "must not be above");
    config = (GiustoConfig){.size = sizeof config, .priority = -1};
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "priority");
    config.priority = NAN;
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "priority");
    config = (GiustoConfig){.size = sizeof config, .delay_target_ns = UINT64_MAX};
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "delay_target_ns");
    /* Without a place for the text. */
    GiustoController *controller;
    CHECK(giusto_new("gcc", NULL, &controller, NULL, 0) == GIUSTO_UNKNOWN_CONTROLLER);
    CHECK(giusto_new("tempo", NULL, NULL, NULL, 0) == GIUSTO_INVALID_ARGUMENT);
    char one[1] = "x";
    CHECK(giusto_new("gcc", NULL, &controller, one, sizeof one) == GIUSTO_UNKNOWN_CONTROLLER && one[0] == 0);
    giusto_free(made("nada+kappa=0.4+tau=450ms", NULL));
}

/* A program of another version: shorter structures, longer ones, and sizes that are wrong. */
static void sizes_tell_versions_apart(void) {
    struct { GiustoConfig known; uint64_t later; } longer = {.known = {.size = sizeof longer, .start_bps = 400000}};
    GiustoController *controller = made("tempo", &longer.known);
    longer.later = 1;
    refused("tempo", &longer.known, GIUSTO_INVALID_ARGUMENT, "does not know");
    GiustoConfig config = {.size = 0};
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "sizeof(GiustoConfig), found 0");
    config.size = 63;
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "found 63");
    config.size = SIZE_MAX;
    refused("tempo", &config, GIUSTO_INVALID_ARGUMENT, "sizeof");

    struct { GiustoTarget known; uint64_t later[2]; } target = {.known = {.size = sizeof target}, .later = {7, 7}};
    CHECK(giusto_target(controller, &target.known) == GIUSTO_OK);
    CHECK(target.known.media_bps == 400000 && target.known.size == sizeof target && target.later[0] == 0 && target.later[1] == 0);
    GiustoTarget none = {.size = 8, .media_bps = 5};
    CHECK(giusto_target(controller, &none) == GIUSTO_INVALID_ARGUMENT && none.media_bps == 5);
    CHECK(strstr(giusto_error(controller), "GiustoTarget") != NULL);
    char room[sizeof none + 8];
    memset(room, 0, sizeof room);
    CHECK(giusto_target(controller, (GiustoTarget *)(void *)((uintptr_t)(room + 7) / 8 * 8 + 1)) == GIUSTO_INVALID_ARGUMENT);
    giusto_free(controller);
}

static void nothing_breaks_it(void) {
    GiustoPacket packet = {.size = sizeof packet, .bytes = 1200, .flags = GIUSTO_HAS_TRANSPORT_SEQUENCE};
    GiustoFeedback feedback = {.size = sizeof feedback, .report_size = sizeof(GiustoReport)};
    GiustoProbe probe = {.size = sizeof probe};
    GiustoTarget target = {.size = sizeof target};
    uint64_t number = 99;
    CHECK(giusto_on_sent(NULL, 0, &packet, &number) == GIUSTO_INVALID_ARGUMENT && number == 99);
    CHECK(giusto_on_rtcp(NULL, 0, (const uint8_t *)"", 0) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_on_feedback(NULL, 0, &feedback) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_on_timeout(NULL, 0, 0, 0) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_set_limits(NULL, 0, 0, 0, 0) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_on_route_change(NULL, 0) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_target(NULL, &target) == GIUSTO_INVALID_ARGUMENT && giusto_next_probe(NULL, &probe) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_next_timeout(NULL) == GIUSTO_NEVER);
    CHECK(giusto_error(NULL) == NULL && giusto_decision(NULL) == NULL);
    giusto_free(NULL);

    GiustoController *controller = made("gcc:libwebrtc", NULL);
    CHECK(giusto_on_timeout(controller, 0, 0, 0) == GIUSTO_OK);
    CHECK(giusto_on_timeout(controller, 0, 0, UINT64_MAX) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_next_probe(controller, NULL) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_next_probe(controller, &probe) == GIUSTO_OK && probe.rate_bps == 900000 && probe.packets == 5); /* three times the start */
    CHECK(giusto_next_probe(controller, &probe) == GIUSTO_OK && giusto_next_probe(controller, &probe) == GIUSTO_NONE);
    CHECK(giusto_on_sent(controller, 0, NULL, NULL) == GIUSTO_INVALID_ARGUMENT);
    packet.flags = 64;
    CHECK(giusto_on_sent(controller, 0, &packet, NULL) == GIUSTO_INVALID_ARGUMENT);
    packet.flags = GIUSTO_HAS_TRANSPORT_SEQUENCE | GIUSTO_HAS_RTP | GIUSTO_HAS_PROBE;
    packet.bytes = UINT64_MAX;
    CHECK(giusto_on_sent(controller, UINT64_MAX, &packet, NULL) == GIUSTO_OK);
    giusto_free(controller);

    /* RTCP that is cut short, changed, or of noise; times that jump. */
    static const uint8_t twcc[] = {0x8f, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 1, 0, 0x20, 1, 40, 0};
    controller = made("tempo", NULL);
    packet = (GiustoPacket){.size = sizeof packet, .bytes = 1200, .flags = GIUSTO_HAS_TRANSPORT_SEQUENCE};
    CHECK(giusto_on_sent(controller, 0, &packet, &number) == GIUSTO_OK && number == 0);
    CHECK(giusto_on_rtcp(controller, 5, NULL, 3) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_on_rtcp(controller, 5, twcc, SIZE_MAX) == GIUSTO_INVALID_ARGUMENT);
    for (size_t size = 0; size < sizeof twcc; size++) {
        uint8_t *part = malloc(size ? size : 1); /* so that a read behind its end is seen */
        memcpy(part, twcc, size);
        CHECK(giusto_on_rtcp(controller, 50 * MS, part, size) == GIUSTO_INVALID_RTCP && giusto_error(controller)[0] != 0);
        free(part);
    }
    GiustoTotals totals = {.size = sizeof totals};
    CHECK(giusto_totals(controller, &totals) == GIUSTO_OK && totals.in_flight_bytes == 1200 && totals.arrived_packets == 0);
    CHECK(giusto_on_rtcp(controller, 50 * MS, twcc, sizeof twcc) == GIUSTO_OK);
    CHECK(giusto_on_rtcp(controller, 50 * MS, twcc, sizeof twcc) == GIUSTO_NONE);
    CHECK(giusto_totals(controller, &totals) == GIUSTO_OK && totals.in_flight_bytes == 0 && totals.arrived_packets == 1 && totals.arrived_bytes == 1200);
    uint32_t random = 7;
    for (int round = 0; round < 5000; round++) {
        uint8_t noise[64];
        for (size_t place = 0; place < sizeof noise; place++) {
            random = random * 1664525 + 1013904223;
            noise[place] = place < sizeof twcc && random >> 30 ? twcc[place] : (uint8_t)(random >> 24);
        }
        uint64_t now = round % 250 ? (uint64_t)round * MS : random;
        CHECK(giusto_on_sent(controller, now, &packet, NULL) == GIUSTO_OK);
        packet.transport_sequence++;
        GiustoStatus status = giusto_on_rtcp(controller, now, noise, random % 65);
        CHECK(status == GIUSTO_OK || status == GIUSTO_NONE || status == GIUSTO_INVALID_RTCP);
    }
    CHECK(giusto_target(controller, &target) == GIUSTO_OK && target.media_bps >= 30000 && target.media_bps <= 2000000);

    /* Feedback of our own: unknown numbers, numbers twice, wrong fields. */
    GiustoReport reports[] = {{.number = 1u << 30, .arrival_ns = 5}, {.number = UINT64_MAX, .arrival_ns = 5, .ecn = 3}};
    feedback.reports = reports;
    feedback.report_count = 2;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_NONE);
    reports[0].ecn = 4;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT && strstr(giusto_error(controller), "ecn"));
    feedback.report_size = 3;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    feedback.report_size = sizeof *reports;
    feedback.report_count = SIZE_MAX;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    feedback.report_count = 1;
    feedback.reports = NULL;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    feedback.report_count = 0;
    feedback.loss_ratio = 1.5;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    feedback.loss_ratio = NAN;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    feedback.loss_ratio = 0;
    feedback.rtt_ns = UINT64_MAX;
    CHECK(giusto_on_feedback(controller, 30000 * MS, &feedback) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_set_limits(controller, 31000 * MS, 500000, 0, 400000) == GIUSTO_INVALID_ARGUMENT);
    CHECK(giusto_set_limits(controller, 31000 * MS, 0, 0, 40000) == GIUSTO_OK);
    CHECK(giusto_target(controller, &target) == GIUSTO_OK && target.media_bps <= 40000);
    giusto_free(controller);
    /* Limits that exclude the start rate for a while leave it as it was given. */
    GiustoConfig config = {.size = sizeof config, .start_bps = 300000, .max_bps = 2000000};
    controller = made("gcc:libwebrtc", &config);
    giusto_on_timeout(controller, 0, 0, 0);
    CHECK(giusto_set_limits(controller, 1000 * MS, 0, 0, 100000) == GIUSTO_OK);
    CHECK(giusto_set_limits(controller, 2000 * MS, 0, 0, 2000000) == GIUSTO_OK);
    giusto_on_route_change(controller, 3000 * MS);
    CHECK(giusto_target(controller, &target) == GIUSTO_OK && target.media_bps == 300000);
    giusto_free(controller);
}

/* Reports of our own have the effect of the same facts as RTCP: losses lower the rate, a REMB bounds it. */
static void feedback_of_our_own_steers(void) {
    GiustoConfig config = {.size = sizeof config, .start_bps = 1000000, .max_bps = 5000000};
    uint64_t rates[2];
    for (int lossy = 0; lossy < 2; lossy++) {
        GiustoController *controller = made("gcc:libwebrtc", &config);
        giusto_on_timeout(controller, 0, 0, 0);
        for (uint64_t at = 0; at < 10000; at += 10) {
            GiustoPacket packet = {.size = sizeof packet, .bytes = 1250};
            uint64_t number;
            CHECK(giusto_on_sent(controller, at * MS, &packet, &number) == GIUSTO_OK);
            GiustoReport report = {.number = number, .arrival_ns = (lossy && number % 3 == 0) ? GIUSTO_NEVER : (at + 3600000) * MS};
            GiustoFeedback feedback = {.size = sizeof feedback, .reports = &report, .report_count = 1, .report_size = sizeof report};
            CHECK(giusto_on_feedback(controller, (at + 5) * MS, &feedback) == GIUSTO_OK);
            if (giusto_next_timeout(controller) <= at * MS) CHECK(giusto_on_timeout(controller, at * MS, 0, 0) == GIUSTO_OK);
        }
        GiustoTarget target = {.size = sizeof target};
        GiustoTotals totals = {.size = sizeof totals};
        CHECK(giusto_target(controller, &target) == GIUSTO_OK && giusto_totals(controller, &totals) == GIUSTO_OK);
        CHECK(totals.arrived_packets + totals.lost_packets == 1000 && totals.lost_packets == (lossy ? 334 : 0));
        rates[lossy] = target.media_bps;
        CHECK(giusto_on_route_change(controller, 10000 * MS) == GIUSTO_OK);
        CHECK(giusto_target(controller, &target) == GIUSTO_OK && target.media_bps == 1000000);
        giusto_free(controller);
    }
    CHECK(rates[0] > 1000000 && rates[1] < 800000);
    GiustoController *controller = made("gcc:remb", &config);
    giusto_on_timeout(controller, 0, 0, 0);
    GiustoFeedback remb = {.size = sizeof remb, .receiver_estimate_bps = 640000};
    CHECK(giusto_on_feedback(controller, 500 * MS, &remb) == GIUSTO_OK);
    GiustoTarget target = {.size = sizeof target};
    CHECK(giusto_target(controller, &target) == GIUSTO_OK && target.media_bps == 640000);
    giusto_free(controller);
}

int main(void) {
    CHECK(giusto_abi_version() == GIUSTO_ABI_VERSION && strlen(giusto_version()) >= 5);
    every_name_makes_a_controller();
    requirements_are_those_of_the_controller();
    wrong_names_and_limits_are_refused();
    sizes_tell_versions_apart();
    nothing_breaks_it();
    feedback_of_our_own_steers();
    puts("face: all as expected");
    return 0;
}
