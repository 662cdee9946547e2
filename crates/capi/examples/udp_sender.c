/* Sends over UDP on the loopback with a controller of libgiusto, through a queue of 2 Mbit/s that this program emulates.
 *
 *     cc udp_sender.c $(pkg-config --cflags --libs giusto) -o udp_sender && ./udp_sender tempo 10
 *
 * The receiver, in the same thread, acknowledges each packet with its number and time of arrival: feedback in a format of our own. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <giusto.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 1200, WAITING = 1024 };
static const uint64_t MS = 1000000, SECOND = 1000000000, CAPACITY_BPS = 2000000;
struct datagram { uint64_t number, arrival_ns; char media[PACKET - 16]; };

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static int udp_socket(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)address, size) || getsockname(fd, (struct sockaddr *)address, &size)) exit(2);
    return fd;
}

/* The controller knows more after each call: send at its media rate. */
static uint64_t pacing_gap(GiustoController *controller) {
    GiustoTarget target = {.size = sizeof target};
    giusto_target(controller, &target);
    GiustoTotals totals = {.size = sizeof totals};
    giusto_totals(controller, &totals);
    if (target.media_bps == 0 || totals.in_flight_bytes + PACKET > target.window_bytes) return 5 * MS;
    return PACKET * 8 * SECOND / target.media_bps;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "tempo";
    uint64_t seconds = argc > 2 ? strtoull(argv[2], NULL, 10) : 10;
    GiustoConfig config = {.size = sizeof config, .start_bps = 500000, .max_bps = 5000000};
    GiustoController *controller;
    char error[512];
    if (giusto_abi_version() != GIUSTO_ABI_VERSION) return fprintf(stderr, "another version of libgiusto\n"), 1;
    if (giusto_new(name, &config, &controller, error, sizeof error) != GIUSTO_OK) return fprintf(stderr, "%s\n", error), 1;

    struct sockaddr_in here, there;
    int sender = udp_socket(&here), receiver = udp_socket(&there);
    struct datagram packet = {0}, waiting[WAITING];
    size_t first = 0, count = 0;
    uint64_t start = now_ns(), free_at = 0, next_send = start, next_line = start + SECOND, received = 0, sent = 0, settled = 0;
    giusto_on_timeout(controller, start, 0, 0);
    for (uint64_t now = start; now < start + seconds * SECOND; now = now_ns()) {
        /* Sender: a packet whose time has come, the controller's timeout, acknowledgements. */
        GiustoTotals totals = {.size = sizeof totals};
        GiustoTarget target = {.size = sizeof target};
        giusto_totals(controller, &totals);
        giusto_target(controller, &target);
        if (now >= next_send && totals.in_flight_bytes + PACKET <= target.window_bytes) {
            GiustoPacket description = {.size = sizeof description, .bytes = PACKET};
            giusto_on_sent(controller, now, &description, &packet.number);
            sendto(sender, &packet, sizeof packet, 0, (struct sockaddr *)&there, sizeof there);
            sent++;
        }
        /* From the time that was due, so that late wakes do not lower the rate; a packet too late by more than 5 ms is not made up for. */
        if (now >= next_send) next_send = (now - next_send < 5 * MS ? next_send : now) + pacing_gap(controller);
        if (now >= giusto_next_timeout(controller)) giusto_on_timeout(controller, now, 0, 0);
        struct datagram acknowledgement;
        while (recv(sender, &acknowledgement, sizeof acknowledgement, 0) > 0) {
            GiustoReport reports[WAITING] = {{.number = acknowledgement.number, .arrival_ns = acknowledgement.arrival_ns}};
            size_t known = 1; /* What is still missing three packets later is lost: RFC 9002 section 6.1.1. */
            for (; known < WAITING && settled + 3 <= acknowledgement.number; settled++) reports[known++] = (GiustoReport){.number = settled, .arrival_ns = GIUSTO_NEVER};
            GiustoFeedback feedback = {.size = sizeof feedback, .reports = reports, .report_count = known, .report_size = sizeof *reports};
            if (giusto_on_feedback(controller, now_ns(), &feedback) < 0) return fprintf(stderr, "%s\n", giusto_error(controller)), 1;
        }
        /* Receiver: the queue holds 100 ms; each packet is acknowledged when it would have come out of it. */
        while (count < WAITING && recv(receiver, &waiting[(first + count) % WAITING], sizeof packet, 0) > 0) {
            uint64_t begin = free_at > now ? free_at : now;
            if (begin - now > 100 * MS) continue;
            waiting[(first + count++) % WAITING].arrival_ns = free_at = begin + PACKET * 8 * SECOND / CAPACITY_BPS;
        }
        for (; count > 0 && waiting[first].arrival_ns <= now; first = (first + 1) % WAITING, count--, received++)
            sendto(receiver, &waiting[first], 16, 0, (struct sockaddr *)&here, sizeof here);
        if (now >= next_line) {
            printf("%2" PRIu64 " s: target %4" PRIu64 " kbit/s, %s\n", (now - start) / SECOND, target.media_bps / 1000, giusto_decision(controller));
            next_line += SECOND;
        }
        struct pollfd both[] = {{.fd = sender, .events = POLLIN}, {.fd = receiver, .events = POLLIN}};
        poll(both, 2, 1);
    }
    printf("%s: %" PRIu64 " of %" PRIu64 " packets arrived, %" PRIu64 " kbit/s\n", name, received, sent, received * PACKET * 8 / 1000 / (seconds ? seconds : 1));
    giusto_free(controller);
    return close(sender), close(receiver), 0;
}
