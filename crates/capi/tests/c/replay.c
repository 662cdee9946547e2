/* Repeats the calls of standard input and writes what the controller answers: replay NAME MIN START MAX, bit/s. */
#include <giusto.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char line[1 << 16];

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    GiustoConfig config = {.size = sizeof config, .min_bps = strtoull(argv[2], NULL, 10), .start_bps = strtoull(argv[3], NULL, 10), .max_bps = strtoull(argv[4], NULL, 10)};
    GiustoController *controller;
    char error[256];
    if (giusto_new(argv[1], &config, &controller, error, sizeof error) != GIUSTO_OK) return fprintf(stderr, "%s\n", error), 1;
    while (fgets(line, sizeof line, stdin)) {
        uint64_t now, first, second, third;
        int end = 0;
        GiustoStatus status = GIUSTO_INVALID_ARGUMENT;
        if (sscanf(line, "sent %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &now, &first, &second, &third) == 4) {
            GiustoPacket packet = {.size = sizeof packet, .bytes = first, .ssrc = 5, .flags = GIUSTO_HAS_RTP | GIUSTO_HAS_TRANSPORT_SEQUENCE};
            packet.transport_sequence = packet.rtp_sequence = (uint16_t)second;
            if (third) packet.flags |= GIUSTO_HAS_PROBE, packet.probe = (uint32_t)third;
            status = giusto_on_sent(controller, now, &packet, NULL);
        } else if (sscanf(line, "rtcp %" SCNu64 " %n", &now, &end) == 1) {
            static uint8_t datagram[sizeof line];
            size_t size = 0;
            for (char *hex = line + end; sscanf(hex, "%2" SCNx8, &datagram[size]) == 1; hex += 2) size++;
            status = giusto_on_rtcp(controller, now, datagram, size);
        } else if (sscanf(line, "report %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &now, &first, &second, &third) == 4) {
            GiustoReport report = {.number = first, .arrival_ns = second, .ecn = (uint32_t)third};
            GiustoFeedback feedback = {.size = sizeof feedback, .reports = &report, .report_count = 1, .report_size = sizeof report};
            status = giusto_on_feedback(controller, now, &feedback);
        } else if (sscanf(line, "timeout %" SCNu64 " %" SCNu64 " %" SCNu64, &now, &first, &second) == 3) {
            status = giusto_on_timeout(controller, now, first, second);
        } else if (sscanf(line, "route %" SCNu64, &now) == 1) {
            status = giusto_on_route_change(controller, now);
        }
        if (status < 0) return fprintf(stderr, "%s: %s", giusto_error(controller), line), 1;
        GiustoTarget target = {.size = sizeof target};
        GiustoTotals totals = {.size = sizeof totals};
        giusto_target(controller, &target);
        giusto_totals(controller, &totals);
        printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, target.media_bps, target.pacing_bps, target.padding_bps, target.window_bytes, totals.in_flight_bytes, giusto_next_timeout(controller));
        for (GiustoProbe probe = {.size = sizeof probe}; giusto_next_probe(controller, &probe) == GIUSTO_OK;)
            printf(" probe %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu32, probe.cluster, probe.rate_bps, probe.duration_ns, probe.packets);
        printf("\n");
    }
    printf("%s\n", giusto_decision(controller));
    giusto_free(controller);
    return 0;
}
