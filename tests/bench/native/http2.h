/* What the gRPC programs share: an HTTP/2 connection over libnghttp2, and a gRPC message.
 *
 * Frames are gathered and leave in large writes. A message is a flag byte (0: not compressed), a
 * 4-byte big-endian length and the bytes (gRPC over HTTP/2).
 */
#ifndef BENCH_HTTP2_H
#define BENCH_HTTP2_H

#include <nghttp2/nghttp2.h>

#include "sockets.h"

/* One frame is at most 16 KiB and its header, so gathering stops while that much is free. */
enum { OUT_SIZE = 1 << 18, LARGEST_FRAME = (1 << 14) + 64, IN_SIZE = 1 << 18, EVENTS = 64 };
enum { PREFIX_SIZE = 5, MAX_WINDOW = INT32_MAX };

struct link {
    int fd; /* -1 once it failed */
    bool waits_for_write;
    size_t out_start, out_size;
    uint8_t *out;
    nghttp2_session *session;
};

static inline nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, strlen(name), strlen(value),
                        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

static inline bool is_field(const uint8_t *bytes, size_t size, const char *wanted) {
    return size == strlen(wanted) && memcmp(bytes, wanted, size) == 0;
}

static inline void open_link(struct link *link, int fd) {
    make_prompt(fd);
    link->fd = fd;
    link->out = malloc(OUT_SIZE);
    if (!link->out) fail("memory");
}

static inline void close_link(struct link *link) {
    nghttp2_session_del(link->session);
    close(link->fd);
    free(link->out);
    link->fd = -1;
}

/* Announces the windows: one for each stream, and the largest possible for the connection. */
static inline void open_session(nghttp2_session *session, uint32_t stream_window) {
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, MAX_WINDOW},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, stream_window}};
    if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 3) != 0 ||
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, MAX_WINDOW) != 0)
        fail("settings");
}

static inline bool gather(struct link *link) {
    while (OUT_SIZE - link->out_start - link->out_size >= LARGEST_FRAME) {
        const uint8_t *bytes;
        ssize_t size = nghttp2_session_mem_send(link->session, &bytes);
        if (size < 0 || size > LARGEST_FRAME) return false;
        if (size == 0) break;
        memcpy(link->out + link->out_start + link->out_size, bytes, (size_t)size);
        link->out_size += (size_t)size;
    }
    return true;
}

/* Writes what the session has to say, up to a few buffers, so that a long answer does not hold up
 * the other connections; false when the connection is over. */
static inline bool flush_link(int epoll, struct link *link) {
    bool has_more = true;
    for (int turn = 0; turn < 8 && has_more; turn++) {
        if (!gather(link)) return false;
        ssize_t sent = link->out_size == 0 ? 0
                       : send(link->fd, link->out + link->out_start, link->out_size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return false;
        has_more = link->out_size > 0;
        if (sent < 0) break;
        link->out_start += (size_t)sent;
        link->out_size -= (size_t)sent;
        if (link->out_size == 0) link->out_start = 0;
    }
    if (link->waits_for_write != has_more) {
        link->waits_for_write = has_more;
        watch(epoll, EPOLL_CTL_MOD, link->fd, has_more ? EPOLLIN | EPOLLOUT : EPOLLIN, link);
    }
    return nghttp2_session_want_read(link->session) || has_more;
}

/* Reads once and hands the bytes to the session's callbacks; false when the connection is over. */
static inline bool read_link(struct link *link) {
    static uint8_t bytes[IN_SIZE];
    ssize_t size = recv(link->fd, bytes, IN_SIZE, 0);
    if (size < 0) return errno == EAGAIN;
    return size > 0 && nghttp2_session_mem_recv(link->session, bytes, (size_t)size) == size;
}

/* What a gRPC client sends first in every call; */
enum { MAX_FIELDS = 12 };

struct request {
    nghttp2_nv fields[MAX_FIELDS];
    size_t count;
};

static inline void add_field(struct request *request, const char *name, const char *value) {
    if (request->count == MAX_FIELDS) fail("too many header fields");
    request->fields[request->count++] = field(name, value);
}

static inline struct request new_request(const char *authority, const char *path) {
    struct request request = {0};
    add_field(&request, ":method", "POST");
    add_field(&request, ":scheme", "http");
    add_field(&request, ":path", path);
    add_field(&request, ":authority", authority);
    add_field(&request, "te", "trailers");
    add_field(&request, "content-type", "application/grpc");
    add_field(&request, "user-agent", "grpc-c/50.0.0 (linux; chttp2)");
    add_field(&request, "tri-service-version", "1.0.0");
    return request;
}

static inline int connect_to(const struct sockaddr_in *target) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)target, sizeof *target) < 0) fail("connect");
    return fd;
}

#endif
