/* What both programs share: the Dubbo frame header, Hessian2 strings, sockets and the clock.
 *
 * Header, 16 bytes, big-endian: magic, flags, status, 8-byte id, 4-byte body length
 * (Dubbo's ExchangeCodec). The low 5 flag bits are the serialization; 2 is Hessian2.
 */
#ifndef BENCH_DUBBO_H
#define BENCH_DUBBO_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER_SIZE = 16,
    FLAG_REQUEST = 0x80,
    FLAG_TWO_WAY = 0x40,
    FLAG_EVENT = 0x20,
    SERIALIZATION_MASK = 0x1f,
    HESSIAN2 = 2,
    STATUS_OK = 20,
    KIND_VALUE_WITH_ATTACHMENTS = 0x94, /* Hessian2's one-byte int 4 */
};

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

static inline void put_u64(uint8_t *at, uint64_t value) {
    put_u32(at, (uint32_t)(value >> 32));
    put_u32(at + 4, (uint32_t)value);
}

static inline uint64_t get_u64(const uint8_t *at) {
    return (uint64_t)get_u32(at) << 32 | get_u32(at + 4);
}

static inline bool has_magic(const uint8_t *frame) { return frame[0] == 0xda && frame[1] == 0xbb; }

static inline void put_header(uint8_t *at, uint8_t flags, uint8_t status, uint64_t id,
                              uint32_t body_size) {
    at[0] = 0xda;
    at[1] = 0xbb;
    at[2] = flags;
    at[3] = status;
    put_u64(at + 4, id);
    put_u32(at + 12, body_size);
}

/* Appends an ASCII string of at most 1,023 characters in Hessian2's short forms. */
static inline uint8_t *put_string(uint8_t *at, const char *text) {
    size_t size = strlen(text);
    if (size > 1023) fail("string too long");
    if (size < 32) {
        *at++ = (uint8_t)size;
    } else {
        *at++ = (uint8_t)(0x30 + (size >> 8));
        *at++ = (uint8_t)size;
    }
    memcpy(at, text, size);
    return at + size;
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

#endif
