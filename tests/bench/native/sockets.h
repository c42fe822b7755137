/* What every program here shares: failing, the clock, big-endian numbers, and sockets over epoll. */
#ifndef BENCH_SOCKETS_H
#define BENCH_SOCKETS_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static inline void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "wrong value");
    exit(1);
}

static inline int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* User and system time of this process so far, in seconds. */
static inline double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static inline void put_u32(uint8_t *at, uint32_t value) {
    value = htonl(value);
    memcpy(at, &value, sizeof value);
}

static inline uint32_t get_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return ntohl(value);
}

/* Reads "a.b.c.d:port". */
static inline struct sockaddr_in parse_address(const char *text) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[64] = "";
    unsigned port = 0;
    if (sscanf(text, "%63[0-9.]:%u", host, &port) != 2 || port > 65535 ||
        inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        errno = 0;
        fail(text);
    }
    address.sin_port = htons((uint16_t)port);
    return address;
}

static inline void make_prompt(int fd) {
    int one = 1;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0) fail("TCP_NODELAY");
}

static inline void watch(int epoll, int operation, int fd, uint32_t events, void *context) {
    struct epoll_event event = {.events = events, .data.ptr = context};
    if (epoll_ctl(epoll, operation, fd, &event) < 0) fail("epoll_ctl");
}

/* A listener is watched with its own address as context, which `is_listener` recognises. */
enum { MAX_LISTENERS = 256 };
static int listeners[MAX_LISTENERS];

static inline bool is_listener(const void *context) {
    return (const int *)context >= listeners && (const int *)context < listeners + MAX_LISTENERS;
}

static inline uint16_t start_listener(int epoll, int *listener, const char *text) {
    struct sockaddr_in address = parse_address(text);
    socklen_t size = sizeof address;
    int one = 1;
    *listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(*listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(*listener, 1024) < 0)
        fail(text);
    getsockname(*listener, (struct sockaddr *)&address, &size);
    watch(epoll, EPOLL_CTL_ADD, *listener, EPOLLIN, listener);
    return ntohs(address.sin_port);
}

/* Starts what --listen asks for and prints the ports; returns how many, 0 for a wrong option. */
static inline int start_listeners(int epoll, int count, char **arguments) {
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'}, {0}};
    int used = 0, option;
    printf("{\"ports\": [");
    while ((option = getopt_long(count, arguments, "l:", options, NULL)) == 'l') {
        if (used == MAX_LISTENERS) fail("too many --listen");
        uint16_t port = start_listener(epoll, &listeners[used], optarg);
        printf("%s%u", used++ ? ", " : "", port);
    }
    printf("]}\n");
    fflush(stdout);
    return option == -1 ? used : 0;
}

/* Returns a descriptor that becomes readable at SIGTERM or SIGINT, which then end nothing. */
static inline int stop_signal(void) {
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    return signalfd(-1, &stop, SFD_NONBLOCK);
}

#endif
